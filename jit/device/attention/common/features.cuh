// features.cuh: what a Config may say beyond what every one does.
// Owns: keys_transposed() (keys lie as head_dim rows of all keys), ones_column() (warpgroup_halves.cuh), folded_scale()
// (folded_scale.cuh), cluster_size() (CTAs that share keys: cluster.cuh), q_regs() (warpgroup_attention.cuh),
// query_buffers(), exp2_fma() (exp2_fma.cuh), page_size() (keys a page, 0: no pages),
// lengths_differ() and has_window() (walk.cuh), even_splits() (even_splits.cuh), apply_chain() (Chain: what becomes of
// each score before the mask and the softmax) and halves_tiles() (HalfScores: the MMA with half a tile's keys). A
// Config without them has none. Of every warpgroup's: key_shares() (warpgroup_share.cuh). Never: costs a kernel
// anything that does not ask for it. Threads: values.
#pragma once

#include "ptx/fast_math.cuh"

namespace gqa {

template <typename Type>
struct AsVoid {
  using Result = void;
};

// name<Config>(): Config::kValue, `absent` where there is none.
#define GQA_FEATURE(type, name, kValue, absent)                            \
  template <typename Config, typename = void>                              \
  struct kValue##Of {                                                      \
    static constexpr type kSet = absent;                                   \
  };                                                                       \
  template <typename Config>                                               \
  struct kValue##Of<Config, decltype(static_cast<void>(Config::kValue))> { \
    static constexpr type kSet = Config::kValue;                           \
  };                                                                       \
  template <typename Config>                                               \
  __host__ __device__ constexpr type name() {                              \
    return kValue##Of<Config>::kSet;                                       \
  }

GQA_FEATURE(bool, keys_transposed, kKeysTransposed, false)
GQA_FEATURE(bool, ones_column, kOnesColumn, false)
GQA_FEATURE(bool, folded_scale, kFoldedScale, false)
GQA_FEATURE(int, cluster_size, kCluster, 1)
GQA_FEATURE(int, q_regs, kQRegs, 0)
GQA_FEATURE(int, query_buffers, kQueries, 1)
GQA_FEATURE(int, exp2_fma, kExp2Fma, 0)
GQA_FEATURE(int, page_size, kPage, 0)
GQA_FEATURE(bool, lengths_differ, kLengthsDiffer, false)
GQA_FEATURE(bool, has_window, kWindow, false)
GQA_FEATURE(bool, even_splits, kEvenSplits, false)
#undef GQA_FEATURE

// Warpgroups that share the keys of the same 64 rows; key_shares() of search/families/resources.cc.
template <typename Config>
__host__ __device__ constexpr int key_shares() {
  return Config::kWarps * 16 / Config::kTileM;
}

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

template <typename Config, typename = void>
struct HalfTiles {
  static constexpr bool kThere = false;
};
template <typename Config>
struct HalfTiles<Config, typename AsVoid<typename Config::HalfScores>::Result> {
  static constexpr bool kThere = true;
};

template <typename Config>
__host__ __device__ constexpr bool halves_tiles() {
  return HalfTiles<Config>::kThere;
}

// The product with a whole tile's keys, or with half of them.
template <typename Config, bool kWhole>
struct ScoresProduct {
  using Type = typename Config::Scores;
};
template <typename Config>
struct ScoresProduct<Config, false> {
  using Type = typename Config::HalfScores;
};

template <typename Config, int kKeys>
using ScoresOf = typename ScoresProduct<Config, kKeys == Config::kTileN>::Type;

}  // namespace gqa
