// warpgroup_features.cuh: what a Config of the warpgroup family may say beyond what every one does.
// Owns: ones_column() (warpgroup_halves.cuh), q_regs() (warpgroup_attention.cuh), query_buffers() and halves_tiles()
// (HalfScores: the MMA with half a tile's keys). A Config without them has none. Every Config has key_shares()
// (warpgroup_share.cuh). Never: costs a kernel anything that does not ask for it. Threads: values.
#pragma once

#include "attention/common/features.cuh"

namespace gqa {

GQA_FEATURE(bool, ones_column, kOnesColumn, false)
GQA_FEATURE(int, q_regs, kQRegs, 0)
GQA_FEATURE(int, query_buffers, kQueries, 1)
GQA_FEATURE(bool, copies_pages, kCopiesPages, false)

// Warpgroups that share the keys of the same 64 rows; key_shares() of search/families/resources.cc.
template <typename Config>
__host__ __device__ constexpr int key_shares() {
  return Config::kWarps * 16 / Config::kTileM;
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
