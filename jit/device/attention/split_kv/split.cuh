// split.cuh: the split family's kernel, for few query rows: a CTA owns one row tile and a share of its keys; its warps
// walk blocks of keys of their own, each with a private pipeline; the last CTA of a tile to arrive merges. Dao et al.,
// "Flash-Decoding", 2023, with the merge inside the kernel.
// Owns: the private pipelines, the merge across warps (shared memory) and across CTAs (workspace and arrival counter).
// Never: waits on another CTA: whoever arrives last does the merging.
// Threads: no barrier in the main loop; barriers around the merges.
#pragma once

#include "attention/common/arrival.cuh"
#include "attention/common/key_source.cuh"
#include "attention/common/new_keys.cuh"
#include "attention/common/sink.cuh"
#include "attention/common/warp_attention.cuh"
#include "attention/split_kv/even_splits.cuh"
#include "ptx/grid_dependency.cuh"

namespace gqa {

template <typename Config>
struct SplitSmem {
  // What one warp's pipeline holds, and, when all keys are walked, the merge takes its place.
  struct Stage {
    alignas(16) char k[KeyTile<Config>::kBytes];
    alignas(16) char v[Config::kTileN * row_pitch<KvBits<Config>>(Config::kHeadDimV)];
  };
  struct Merge {
    float out[Config::kWarps][Config::kTileM][Config::kHeadDimV];
    float maximum[Config::kWarps][Config::kTileM];
    float sum[Config::kWarps][Config::kTileM];
  };
  alignas(16) char q[Config::kTileM * row_pitch<QBits<Config>>(Config::kHeadDim)];
  union {
    Stage stages[Config::kWarps][Config::kStages];
    Merge merge;
    int scan[Config::kWarps + 1];  // even_splits.cuh, before any key is loaded
  };
  float weight[Config::kTileM];   // of the last merge: 1 / sum
  float maximum[Config::kTileM];  // of the last merge: of all parts
  unsigned int last;
};

template <typename Config>
struct Split {
  static constexpr int kThreads = Config::kWarps * 32;
  static constexpr int kRows = Config::kTileM;
  static constexpr int kDim = Config::kHeadDimV;
  static constexpr int kPartial = kRows * (kDim + 2);  // floats a part leaves: out, maxima, sums
  using Smem = SplitSmem<Config>;
  using Core = WarpAttention<Config, kRows / 16>;
  // What is known of the sequence before the grids before have ended.
  static constexpr bool kKnown = !Walk<Config>::kListed && !even_splits<Config>();

  const AttentionParams& p;
  const CacheParams* cache;
  const NewTokens* tokens;     // null where the Config appends none
  const ScoreParams* numbers;  // of the scores; null where the Config needs none
  Smem& smem;
  Place place;
  KeysOf<Config, 32, BlockOrder::kUp> keys;  // a warp's
  Part part;                                 // of the tile: this CTA's
  int first_block, blocks;                   // of keys: this part's
  int own_queries;                           // of the sequence, where they are packed,
  long long own_first_query;                 // and the rows before them
  int warp, lane;

  __device__ Split(const AttentionParams& params, Smem& memory) : Split(params, nullptr, nullptr, memory) {}
  __device__ Split(const AttentionParams& params, const CacheParams& cache_params, Smem& memory)
      : Split(params, &cache_params, nullptr, memory) {}
  __device__ Split(const AttentionParams& params, const CacheParams& cache_params, const NewTokens& new_tokens,
                   Smem& memory)
      : Split(params, &cache_params, &new_tokens, memory) {}

  __device__ Split(const AttentionParams& params, const CacheParams* cache_params, const NewTokens* new_tokens,
                   Smem& memory)
      : p(params), cache(cache_params), tokens(new_tokens), smem(memory), keys(params, cache_params) {
    warp = threadIdx.x / 32;
    lane = threadIdx.x % 32;
    if constexpr (kKnown) take_share();
  }

  __device__ void open_sequence() {
    keys.open(place);
    if constexpr (queries_packed<Config>()) {
      own_queries = queries_of<Config>(p, cache, place.batch);
      own_first_query = first_query_of<Config>(cache, place.batch);
    }
  }

  __device__ long long head_offset(const TensorStrides& s) const {
    return place_offset<Config>(s, place, own_first_query);
  }

  // One of as many equal shares of a tile's keys as the launch says.
  __device__ void take_share() {
    const int tile = quotient(blockIdx.x, p.by_splits);
    part = {tile, static_cast<int>(blockIdx.x) - tile * p.splits, p.splits};
    const int other = quotient(tile, p.by_row_tiles);
    place = place_of<Config>(p, tile - other * p.row_tiles, other);
    open_sequence();
    const Walk<Config> walk(p, cache, place.batch);
    const int total = walk.blocks(place.first_row);
    const int share = quotient(total + p.splits - 1, p.by_splits);
    first_block = min(part.number * share, total);
    blocks = min(share, total - first_block);
    first_block += walk.first_block(place.first_row);
  }

  __device__ void load_queries() {
    const QBits<Config>* q = static_cast<const QBits<Config>*>(p.q) + head_offset(p.q_strides);
    if constexpr (appends<Config>())
      if (cache->rotates)
        return rotate_queries<Config, kThreads>(p, cache, *tokens, place, q, reinterpret_cast<QBits<Config>*>(smem.q));
    copy_tile<QBits<Config>, kRows, Config::kHeadDim, kThreads, Config::kAlign>(
        smem.q, threadIdx.x, [&](int r, auto piece) {
          const int row = place.first_row + r;
          piece(q + row_offset<Config>(p.q_strides, row), row_exists<Config>(p, own_queries, row));
        });
  }

  // This warp's i-th block of keys into its own stage.
  template <typename Loaded>
  __device__ void load_block(int i, Loaded loaded) {
    if (i * Config::kWarps + warp >= blocks) return;
    auto& stage = smem.stages[warp][i % Config::kStages];
    const auto first = [&](int block) { return first_key(block); };
    keys.copy_k(stage.k, lane, i, first, loaded);
    keys.copy_v(stage.v, lane, i, first, loaded);
  }

  // The first key of this warp's i-th block.
  __device__ int first_key(int i) const { return (first_block + i * Config::kWarps + warp) * Config::kTileN; }
  __device__ int warp_blocks() const { return (blocks - warp + Config::kWarps - 1) / Config::kWarps; }

  template <typename Loaded>
  __device__ void load_first_blocks(const Walk<Config>& walk, Loaded loaded) {
    if constexpr (appends<Config>())
      if (cache->added > 0) return load_beside_new_keys(walk, loaded);
#pragma unroll
    for (int i = 0; i < Config::kStages - 1; ++i) {
      load_block(i, loaded);
      cp_async_commit();
    }
  }

  // The same where keys are new: they are written before the first block that holds some, or after all of these.
  template <typename Loaded>
  __device__ void load_beside_new_keys(const Walk<Config>& walk, Loaded loaded) {
    const NewKeys<Config> added(p, cache, *tokens, place, walk.keys(), first_block, blocks);
    bool written = !added.any();
#pragma unroll 1
    for (int i = 0; i < Config::kStages; ++i) {
      const bool all = i == Config::kStages - 1;
      if (!written && (all || added.in_block(first_key(i)))) {
        added.write(keys);
        __syncthreads();
        written = true;
      }
      if (all) break;
      load_block(i, loaded);
      cp_async_commit();
    }
  }

  __device__ void visit_blocks(Core& core) {
    const Walk<Config> walk(p, cache, place.batch);
    const auto valid = walk.loaded(place.first_row);
    const auto loaded = [&] { return valid; };
    keys.start(
        warp_blocks(), [&](int block) { return first_key(block); }, loaded);
    load_queries();
    cp_async_commit();
    load_first_blocks(walk, loaded);
    cp_async_wait<Config::kStages - 1>();
    __syncthreads();
    for (int i = 0; i * Config::kWarps + warp < blocks; ++i) {
      __syncwarp();  // all lanes are done with the stage that is overwritten next
      load_block(i + Config::kStages - 1, loaded);
      cp_async_commit();
      cp_async_wait<Config::kStages - 1>();
      __syncwarp();
      auto& stage = smem.stages[warp][i % Config::kStages];
      core.multiply_keys(shared_address(smem.q), shared_address(stage.k), numbers, first_key(i));
      if (walk.needs_mask(place.first_row, first_key(i))) core.mask(walk, place.first_row, first_key(i));
      core.softmax(p.scale_log2);
      core.multiply_values(shared_address(stage.v));
    }
    core.finish();
    cp_async_wait<0>();
    __syncthreads();
  }

  // Each warp leaves its rows in shared memory, unnormalised.
  __device__ void leave_in_shared(const Core& core) {
#pragma unroll
    for (int m = 0; m < kRows / 16; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int r = m * 16 + h * 8 + lane / 4;
#pragma unroll
        for (int n = 0; n < Core::kOuts; ++n)
          *reinterpret_cast<float2*>(&smem.merge.out[warp][r][n * 8 + lane % 4 * 2]) =
              make_float2(core.out[m][n][2 * h], core.out[m][n][2 * h + 1]);
        if (lane % 4 == 0) {
          smem.merge.maximum[warp][r] = core.state[m].maximum[h];
          smem.merge.sum[warp][r] = core.state[m].sum[h];
        }
      }
    __syncthreads();
  }

  // What a part with the given maximum weighs under that of all parts.
  __device__ float part_weight(float maximum, float overall) const {
    return rescale_factor(maximum, overall, p.scale_log2);
  }

  struct Rows {
    float maximum, sum;
    __device__ float lse(float scale_log2) const { return gqa::log_sum_exp(maximum, sum, scale_log2); }
  };

  // One row's overall maximum and sum over `parts` parts.
  template <typename Maximum, typename Sum>
  __device__ Rows merge_row(int parts, Maximum maximum, Sum sum) const {
    Rows row = {negative_infinity(), 0};
    for (int i = 0; i < parts; ++i) row.maximum = fmaxf(row.maximum, maximum(i));
    if (row.maximum == negative_infinity()) return row;
    for (int i = 0; i < parts; ++i) row.sum += sum(i) * part_weight(maximum(i), row.maximum);
    return row;
  }

  // A row with all of its keys gets its log-sum-exp and, where there is a sink, another weight.
  __device__ void finish(const Rows& row, int r) {
    const int index = place.first_row + r;
    if constexpr (has_sink<Config>()) {
      const RowTotal total = with_sink<Config>(row.maximum, row.sum, p.scale_log2, *numbers, place.head, index);
      smem.weight[r] = total.weight();
      store_lse(total, index);
    } else {
      store_lse(row, index);
    }
  }

  // Across this CTA's warps. A tile's only part is final; others go to the workspace.
  __device__ void merge_warps() {
    float* partial = partial_of(part.number);
    for (int r = threadIdx.x; r < kRows; r += kThreads) {
      const Rows row = merge_row(
          Config::kWarps, [&](int w) { return smem.merge.maximum[w][r]; }, [&](int w) { return smem.merge.sum[w][r]; });
      smem.maximum[r] = row.maximum;
      smem.weight[r] = parts() == 1 ? inverse_or_zero(row.sum) : 1.f;
      if (parts() == 1) {
        finish(row, r);
      } else {
        partial[kRows * kDim + r] = row.maximum;
        partial[kRows * kDim + kRows + r] = row.sum;
      }
    }
    __syncthreads();
    for (int i = threadIdx.x * 4; i < kRows * kDim; i += kThreads * 4) {
      const int r = i / kDim, d = i % kDim;
      float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int w = 0; w < Config::kWarps; ++w)
        accumulate(total, *reinterpret_cast<float4*>(&smem.merge.out[w][r][d]),
                   part_weight(smem.merge.maximum[w][r], smem.maximum[r]));
      if (parts() == 1)
        store_out(total, smem.weight[r], place.first_row + r, d);
      else
        *reinterpret_cast<float4*>(&partial[i]) = total;
    }
  }

  __device__ static void accumulate(float4& total, const float4& part, float weight) {
    total.x += part.x * weight;
    total.y += part.y * weight;
    total.z += part.z * weight;
    total.w += part.w * weight;
  }

  __device__ void store_out(const float4& value, float weight, int row, int d) const {
    if (!row_exists<Config>(p, own_queries, row)) return;
    OutBits<Config>* out =
        static_cast<OutBits<Config>*>(p.out) + head_offset(p.out_strides) + row_offset<Config>(p.out_strides, row) + d;
    const typename Config::Out::Pair pairs[2] = {Config::Out::pack(value.x * weight, value.y * weight),
                                                 Config::Out::pack(value.z * weight, value.w * weight)};
    if constexpr (Config::kAlign >= 16) {
      *reinterpret_cast<typename Config::Out::Quad*>(out) = quad_of(pairs[0], pairs[1]);
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) unpack(pairs[i], out[2 * i], out[2 * i + 1]);
    }
  }

  template <typename Row>
  __device__ void store_lse(const Row& row, int index) const {
    if (p.lse == nullptr || !row_exists<Config>(p, own_queries, index)) return;
    p.lse[head_offset(p.lse_strides) + row_offset<Config>(p.lse_strides, index)] = row.lse(p.scale_log2);
  }

  // Across the tile's CTAs.
  __device__ void merge_splits() {
    const auto maximum = [&](int s, int r) { return __ldcg(&partial_of(s)[kRows * kDim + r]); };
    for (int r = threadIdx.x; r < kRows; r += kThreads) {
      const Rows row = merge_row(
          parts(), [&](int s) { return maximum(s, r); },
          [&](int s) { return __ldcg(&partial_of(s)[kRows * kDim + kRows + r]); });
      smem.maximum[r] = row.maximum;
      smem.weight[r] = inverse_or_zero(row.sum);
      finish(row, r);
    }
    __syncthreads();
    for (int i = threadIdx.x * 4; i < kRows * kDim; i += kThreads * 4) {
      const int r = i / kDim;
      if (!row_exists<Config>(p, own_queries, place.first_row + r)) continue;
      float4 total = make_float4(0, 0, 0, 0);
#pragma unroll 4
      for (int s = 0; s < parts(); ++s)
        accumulate(total, __ldcg(reinterpret_cast<const float4*>(&partial_of(s)[i])),
                   part_weight(maximum(s, r), smem.maximum[r]));
      store_out(total, smem.weight[r], place.first_row + r, i % kDim);
    }
  }

  // How many parts the tile has, and where they leave their rows.
  __device__ int parts() const {
    if constexpr (even_splits<Config>()) return part.count;
    return p.splits;
  }
  __device__ float* partial_of(int number) const {
    if constexpr (even_splits<Config>())
      return p.partials + static_cast<long long>(part.slot(number, p.head_groups)) * kPartial;
    return p.partials + static_cast<long long>(part.tile) * p.splits * kPartial + number * kPartial;
  }

  __device__ void run_part() {
    {
      Core core;
      if constexpr (chain_arrays<Config>()) core.open_arrays(p, *numbers, place, place.first_row, own_queries);
      visit_blocks(core);
      leave_in_shared(core);
    }
    merge_warps();
    if (parts() == 1 || !arrive_last(&p.counters[part.tile], static_cast<u32>(parts()), &smem.last)) return;
    merge_splits();
  }

  // One part after the other of this CTA's cut of the list.
  __device__ void run_cut() {
    EvenSplits<Config> cut(p, cache, smem.scan);
    while (cut.next()) {
      part = cut.part;
      place = cut.place;
      first_block = cut.first_block;
      blocks = cut.blocks;
      open_sequence();
      run_part();
      __syncthreads();  // who stores still reads what the next part overwrites
    }
  }

  __device__ void run(const ScoreParams* score_params = nullptr) {
    numbers = score_params;
    let_next_grid_begin();
    wait_for_grids_before();
    if constexpr (even_splits<Config>()) {
      run_cut();
    } else {
      if constexpr (!kKnown) take_share();
      if constexpr (queries_packed<Config>())  // the grid has tiles for the longest of sequences
        if (!row_exists<Config>(p, own_queries, place.first_row)) return;
      run_part();
    }
  }
};

}  // namespace gqa
