// check_params.h: the arguments of the verification kernels, the same for the host compiler and NVRTC.
// Owns: CheckParams (which rows, where the reference goes), ScanParams (the poisoned slab), CheckResult.
// Never: used by the kernels that serve users.
// Threads: plain data; CheckResult is combined by atomics.
#pragma once

#include "attention/common/cache_params.h"
#include "attention/common/params.h"
#include "check/check_chain.h"

namespace gqa {

// The sum of squared shares is of whole numbers, so that the order of the additions does not show.
constexpr float kSquaresUnit = 1048576;
constexpr float kMostSummedShare = 1024;

// Shares: errors in units of their rows.
struct CheckResult {
  unsigned long long worst_row;      // float bits of the share of a row's norm << 32 | index of the checked row
  unsigned long long worst_element;  // likewise, of an element; index into the reference
  unsigned long long worst_lse;      // likewise, of what is allowed; index of the checked row
  unsigned long long squares;        // of norms' shares, in units of 1 / kSquaresUnit
  unsigned int rows;                 // checked ones that are not zero
  unsigned int unwritten, nonfinite, stray;
};

struct CheckParams {
  const long long* rows;  // numbers of the checked rows, (batch, head, position) order
  double* reference;      // checked rows x head_dim_v
  float* reference_lse;   // checked rows
  float* units;           // checked rows x 2: what a row's norm and its elements are measured in; 0: it must be zero
  CheckResult* result;
  float scale;
  float rounding, least;                          // of an element's unit: relative, and absolute
  float rounding_of_score, most_score, of_query;  // relative, more for the size of the row's scores, up to that one
  float of_largest;                               // of the stand-in's largest error
  float lse_relative, lse_absolute;
  int head_dim, head_dim_v;
  int causal, vectors;  // vectors: rows are 16-byte aligned
  int type;             // an ElementType
  int page;             // keys a page; 0: none
  CheckChain chain;     // on each score
  const int* q_starts;  // of packed queries, as CacheParams'
};

// A slab of poison with a tensor inside, of which the first `rows` rows of each batch are in use: (batch, rows,
// row_extent), or, where rows_inner, (batch, heads, row_extent) with the rows innermost.
struct ScanParams {
  const void* slab;
  CheckResult* result;
  long long count;  // elements in the slab
  long long first;  // the tensor's first element
  long long batch, batch_stride, rows, row_extent;
  int type;  // an ElementType
  int rows_inner;
};

static_assert(sizeof(CheckResult) == 48 && sizeof(CheckParams) == 264 && sizeof(ScanParams) == 72,
              "host and device must agree on the verification arguments");

}  // namespace gqa
