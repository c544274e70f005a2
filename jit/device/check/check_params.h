// check_params.h: the arguments of the verification kernels, the same for the host compiler and NVRTC.
// Owns: CheckParams (which rows, where the reference goes), ScanParams (the poisoned slab), CheckResult.
// Never: used by the kernels that serve users.
// Threads: plain data; CheckResult is combined by atomics.
#pragma once

#include "attention/common/cache_params.h"
#include "attention/common/params.h"
#include "check/check_chain.h"

namespace gqa {

struct CheckResult {
  unsigned long long worst;      // float bits of the error << 32 | index into the reference
  unsigned long long worst_lse;  // likewise, index of the checked row
  unsigned int naive_error;      // float bits
  unsigned int largest;          // float bits of max |reference|
  unsigned int unwritten, nonfinite, stray;
  unsigned int padding;
};

struct CheckParams {
  const long long* rows;  // numbers of the checked rows, (batch, head, position) order
  float* reference;       // checked rows x head_dim_v
  float* reference_lse;   // checked rows
  CheckResult* result;
  float scale;
  int head_dim, head_dim_v;
  int causal, bf16, vectors;  // vectors: rows are 16-byte aligned
  int page;                   // keys a page; 0: none
  CheckChain chain;           // on each score
  const int* q_starts;        // of packed queries, as CacheParams'
  const float* sink;          // a number of each query head; null: none
};

// A slab of poison with a tensor inside, of which the first `rows` rows of each batch are in use: (batch, rows,
// row_extent), or, where rows_inner, (batch, heads, row_extent) with the rows innermost.
struct ScanParams {
  const void* slab;
  CheckResult* result;
  long long count;  // elements in the slab
  long long first;  // the tensor's first element
  long long batch, batch_stride, rows, row_extent;
  int wide;  // 0: 16-bit elements, 1: float32
  int rows_inner;
  int bf16;
};

static_assert(sizeof(CheckResult) == 40 && sizeof(CheckParams) == 112 && sizeof(ScanParams) == 80,
              "host and device must agree on the verification arguments");

}  // namespace gqa
