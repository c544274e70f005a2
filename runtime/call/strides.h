// strides.h: how the elements of a tensor lie.
// Owns: Strides, and the same as kernels take them.
// Threads: values.
#pragma once

#include <cstdint>

#include "jit/device/attention/common/params.h"

namespace gqa {

// In elements; the last dimension is contiguous. 0 for what a tensor has not, or has one of.
struct Strides {
  std::int64_t batch = 0, row = 0, head = 0;
};

inline TensorStrides tensor_strides(const Strides& s) { return {s.batch, s.row, s.head}; }

}  // namespace gqa
