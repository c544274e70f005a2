// made_shape.h: a gqa_shape of sizes alone, which names what it sets: a field added to the struct breaks no test.
// Owns: the order of the sizes here. Never: sets an option. Threads: any.
#pragma once

#include <cstdint>

#include "runtime/api/gqa.h"

namespace gqa::test {

struct ShapeSizes {
  std::int64_t batch = 1, q_len = 1, kv_len = 1, q_heads = 1, kv_heads = 1, head_dim = 64;
};

inline gqa_shape made_shape(const ShapeSizes& sizes, DLDataType dtype = {kDLBfloat, 16, 1}) {
  gqa_shape shape{};
  shape.size = sizeof(shape);
  shape.batch = sizes.batch;
  shape.q_len = sizes.q_len;
  shape.kv_len = sizes.kv_len;
  shape.q_heads = sizes.q_heads;
  shape.kv_heads = sizes.kv_heads;
  shape.head_dim = sizes.head_dim;
  shape.dtype = dtype;
  return shape;
}

}  // namespace gqa::test
