// ops.h: what the host's programs are made of: operators on rows of float32, and products of tiles.
// Owns: HostOps, the table of one instruction set's builds; the choice of the best that this processor runs.
// Never: knows a tile's shape (tile_runner.h walks it), starts threads or allocates.
// Threads: pure functions of memory. Rows may be the same memory, never overlap otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/graph/ir/op.h"

namespace gqa {

// c (+)= a b on row-major float32 without gaps. a is rows x inner, b inner x columns, or the other way round where
// transposed.
struct Product {
  const float *a = nullptr, *b = nullptr;
  float* c = nullptr;
  std::ptrdiff_t rows = 0, inner = 0, columns = 0;
  bool transpose_a = false, transpose_b = false;
  bool add = false;  // to what c holds
};

// One elementwise operator with its constants, ready to run.
struct UnaryStep {
  Op op = Op::kScale;
  float low = 0, high = 0;  // clamp
  float factor = 1;         // scale, add_constant
};

// One build of ops.inc for an instruction set.
struct HostOps {
  const char* name;  // "avx512"
  void (*widen)(ElementType type, const void* from, float* to, std::ptrdiff_t count);
  void (*narrow)(ElementType type, const float* from, void* to, std::ptrdiff_t count);
  void (*unary)(const UnaryStep& step, const float* x, float* y, std::ptrdiff_t count);
  // y = a op b; a step of 0: one element for all. kMax: the larger, NaN where either is.
  void (*binary)(Op op, const float* a, std::ptrdiff_t a_step, const float* b, std::ptrdiff_t b_step, float* y,
                 std::ptrdiff_t count);
  float (*fold)(Op op, const float* x, std::ptrdiff_t count);  // kSum or kMax of a row
  void (*multiply)(const Product& product);
};

// The best that this processor runs, and all of them, the best last.
const HostOps& host_ops();
std::vector<const HostOps*> usable_host_ops();

}  // namespace gqa
