// new_tokens.h: what a call brings beside its cache: new keys and values, and by what they and the queries are rotated.
// Laid out the same by the host compiler and by NVRTC.
// Owns: NewTokens, and which row of cos and sin a position is rotated by.
// Never: says where a new key goes: append_params.h and the key source of attention do.
// Threads: plain data and pure functions.
#pragma once

#include "attention/common/params.h"

#ifdef __CUDACC__
#define GQA_BOTH __device__ inline
#else
#define GQA_BOTH inline
#endif

namespace gqa {

struct NewTokens {
  const void *k, *v;      // null: no new keys
  const void *cos, *sin;  // (rotary_len, rotary_dim / 2), rows a stride apart
  TensorStrides k_strides, v_strides;
  long long cos_stride, sin_stride;
  const int* rotary_starts;  // of each sequence: where rotation begins; null: at its keys in the cache
  int count;                 // of each sequence, where they are not packed
  int rotary_dim, rotary_len, interleaved;
  int advances;  // query i is rotated by a position i further than the first; else all by the first's
};

static_assert(sizeof(NewTokens) == 4 * 8 + 2 * 24 + 3 * 8 + 5 * 4 + 4, "host and device must agree on NewTokens");

GQA_BOTH int within(int value, int most) { return value < 0 ? 0 : value < most ? value : most; }

// By which row of cos and sin the first query and the first new key of a sequence of so many keys are rotated.
GQA_BOTH int rotary_start(const NewTokens& t, int sequence, int cached) {
  return t.rotary_starts == nullptr ? cached : t.rotary_starts[sequence];
}
GQA_BOTH int rotary_row(const NewTokens& t, int position) { return within(position, t.rotary_len - 1); }

}  // namespace gqa
