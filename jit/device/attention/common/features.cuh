// features.cuh: what a Config of attention may say beyond what every one does.
// Owns: keys_transposed() (keys lie as head_dim rows of all keys), cluster_size() (CTAs that share keys: cluster.cuh),
// page_size() (keys a page, 0: no pages), lengths_differ() (walk.cuh), even_splits() (even_splits.cuh) and
// apply_chain() (Chain: what becomes of each score before the mask and the softmax). A Config without them has none.
// Never: costs a kernel anything that does not ask for it. Threads: values.
#pragma once

#include "attention/common/config_feature.cuh"
#include "ptx/fast_math.cuh"

namespace gqa {

GQA_FEATURE(bool, keys_transposed, kKeysTransposed, false)
GQA_FEATURE(int, cluster_size, kCluster, 1)
GQA_FEATURE(int, page_size, kPage, 0)
GQA_FEATURE(bool, lengths_differ, kLengthsDiffer, false)
GQA_FEATURE(bool, even_splits, kEvenSplits, false)

template <typename Config, typename = void>
struct ChainOf {
  template <int kFragments>
  static __device__ void apply(float (&)[kFragments][4]) {}
};
template <typename Config>
struct ChainOf<Config, typename AsVoid<typename Config::Chain>::Result> {
  template <int kFragments>
  static __device__ void apply(float (&scores)[kFragments][4]) {
#pragma unroll
    for (int n = 0; n < kFragments; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) scores[n][c] = Config::Chain::apply(scores[n][c]);
  }
};

template <typename Config, int kFragments>
__device__ inline void apply_chain(float (&scores)[kFragments][4]) {
  ChainOf<Config>::apply(scores);
}

}  // namespace gqa
