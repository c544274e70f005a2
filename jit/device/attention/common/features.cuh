// features.cuh: what a Config of attention may say beyond what every one does.
// Owns: the bits of q's, k's and v's, and out's elements (Config::Q, Kv, Out: element.cuh); how keys lie
// (Config::kKeys); what a Config may leave out: cluster_size() (CTAs that share keys: cluster.cuh), lengths_differ(),
// queries_packed() and keys_packed() (sequence.cuh), even_splits() (even_splits.cuh), appends() (new_keys.cuh),
// has_sink() (sink.cuh), keys_read_once() (by few row tiles: keys.cuh), terms() (split_products.cuh), apply_chain()
// (Chain: what becomes of each score before the mask and the softmax) and chain_arrays() (chain_arrays.cuh). Never:
// costs a kernel anything that does not ask for it. Threads: values.
#pragma once

#include "attention/common/config_feature.cuh"
#include "attention/common/score_params.h"
#include "ptx/fast_math.cuh"

namespace gqa {

// Elements of the Config's tensors, as they lie in memory.
template <typename Config>
using QBits = typename Config::Q::Bits;
template <typename Config>
using KvBits = typename Config::Kv::Bits;
template <typename Config>
using OutBits = typename Config::Out::Bits;

// As search/problem/kernel_traits.h has them: Config::kKeys.
enum class KeyLayout { kDense, kTransposed, kPaged };
template <typename Config>
__host__ __device__ constexpr bool keys_transposed() {
  return Config::kKeys == KeyLayout::kTransposed;
}

GQA_FEATURE(int, cluster_size, kCluster, 1)
GQA_FEATURE(bool, lengths_differ, kLengthsDiffer, false)
GQA_FEATURE(bool, queries_packed, kQueriesPacked, false)
GQA_FEATURE(bool, keys_packed, kKeysPacked, false)
GQA_FEATURE(bool, even_splits, kEvenSplits, false)
GQA_FEATURE(bool, appends, kAppends, false)
GQA_FEATURE(bool, has_sink, kSink, false)
GQA_FEATURE(bool, keys_read_once, kKeysReadOnce, false)
GQA_FEATURE(int, terms, kTerms, 0)
GQA_FEATURE(bool, chain_arrays, kChainArrays, false)

template <typename Config, typename = void>
struct ChainOf {
  template <int kFragments>
  static __device__ void apply(float (&)[kFragments][4], const ScoreParams*) {}
};
template <typename Config>
struct ChainOf<Config, typename AsVoid<typename Config::Chain>::Result> {
  template <int kFragments>
  static __device__ void apply(float (&scores)[kFragments][4], const ScoreParams* numbers) {
#pragma unroll
    for (int n = 0; n < kFragments; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) scores[n][c] = Config::Chain::apply(scores[n][c], numbers);
  }
};

// A base of what lives through a loop and applies the chain there: no member where the Config has no chain.
template <typename Config, typename = void>
struct ChainNumbers {
  __device__ void set_numbers(const ScoreParams*) {}
  __device__ const ScoreParams* numbers() const { return nullptr; }
};
template <typename Config>
struct ChainNumbers<Config, typename AsVoid<typename Config::Chain>::Result> {
  const ScoreParams* held;
  __device__ void set_numbers(const ScoreParams* given) { held = given; }
  __device__ const ScoreParams* numbers() const { return held; }
};

// numbers: null where there is no chain. ChainArrays applies chains that read arrays.
template <typename Config, int kFragments>
__device__ inline void apply_chain(float (&scores)[kFragments][4], const ScoreParams* numbers) {
  ChainOf<Config>::apply(scores, numbers);
}

}  // namespace gqa
