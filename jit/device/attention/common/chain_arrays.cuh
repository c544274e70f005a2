// chain_arrays.cuh: what a chain on scores reads of arrays: a number of each query head, of each query row, of each
// score.
// Owns: ChainArrays, a lane's rows' share of them through a loop over keys, and the chain on a tile's scores.
// Never: reads for a row or a key past the last; costs anything where the chain reads numbers of the call alone.
// Threads: each lane has the rows of its accumulators.
#pragma once

#include "attention/common/rows.cuh"
#include "ptx/element.cuh"

namespace gqa {

// What the arrays have for one score.
struct OfScore {
  float head, row, score;
};

template <typename Config, int kFragments, bool kArrays = chain_arrays<Config>()>
struct ChainArrays {
  template <int kScores>
  __device__ void apply_steps(float (&scores)[kFragments][kScores][4], const ScoreParams* numbers, int) const {
#pragma unroll
    for (int m = 0; m < kFragments; ++m) apply_chain<Config>(scores[m], numbers);
  }
};

template <typename Config, int kFragments>
struct ChainArrays<Config, kFragments, true> {
  using Chain = typename Config::Chain;
  using Element = typename Chain::Element;
  using Bits = typename Element::Bits;

  // By fragment and half. Those that the chain does not read are never set.
  float of_head[kFragments][2], of_row[kFragments][2];
  const Bits* of_scores[kFragments][2];  // of key 0; null: there is no such row
  int keys;

  // Once the grids before have ended. first_row: of the warp, in packed rows; own_queries: as row_exists() takes it.
  __device__ void open_arrays(const AttentionParams& p, const ScoreParams& numbers, const Place& place, int first_row,
                              int own_queries) {
    keys = p.kv_len;
#pragma unroll
    for (int m = 0; m < kFragments; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = first_row + threadIdx.x % 32 / 4 + m * 16 + h * 8;
        const bool exists = row_exists<Config>(p, own_queries, row);
        if constexpr (Chain::kOfHeads) of_head[m][h] = __ldg(numbers.heads + place.head + row % Config::kPack);
        if constexpr (Chain::kOfRows)
          of_row[m][h] = exists ? __ldg(numbers.rows + row_at(numbers.row_strides, place, row)) : 0.f;
        if constexpr (Chain::kOfScores) {
          const Bits* elements = static_cast<const Bits*>(numbers.scores);
          of_scores[m][h] = exists ? elements + row_at(numbers.score_strides, place, row) : nullptr;
        }
      }
  }

  // On the scores of the keys from first_key on.
  template <int kScores>
  __device__ void apply_steps(float (&scores)[kFragments][kScores][4], const ScoreParams* numbers,
                              int first_key) const {
#pragma unroll
    for (int m = 0; m < kFragments; ++m)
#pragma unroll
      for (int n = 0; n < kScores; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int key = first_key + n * 8 + threadIdx.x % 4 * 2 + c % 2;
          scores[m][n][c] = Chain::apply(scores[m][n][c], numbers, of(m, c / 2, key));
        }
  }

 private:
  __device__ static long long row_at(const TensorStrides& s, const Place& place, int row) {
    return place_offset(s, place.batch, place.head) + row_offset<Config>(s, row);
  }

  __device__ OfScore of(int m, int h, int key) const {
    OfScore given = {0, 0, 0};
    if constexpr (Chain::kOfHeads) given.head = of_head[m][h];
    if constexpr (Chain::kOfRows) given.row = of_row[m][h];
    if constexpr (Chain::kOfScores) {
      const Bits* row = of_scores[m][h];
      if (row != nullptr && key < keys) given.score = Element::to_float(__ldg(row + key));
    }
    return given;
  }
};

}  // namespace gqa
