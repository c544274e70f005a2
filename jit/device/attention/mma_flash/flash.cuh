// flash.cuh: the flash family's kernel: a CTA owns kTileM query rows and walks all their keys, last block first; its
// warps split the rows. Dao et al., "FlashAttention-2", 2023, for the order of loops. Owns: the shared-memory plan, the
// KV pipeline of kStages buffers, the tile schedule and the epilogue. Never: shares a tile between CTAs (split.cuh
// does); knows where keys lie (key_source.cuh) or which are seen (walk.cuh). Threads: kWarps warps; barriers only where
// a buffer changes hands.
#pragma once

#include "attention/common/key_source.cuh"
#include "attention/common/new_keys.cuh"
#include "attention/common/sink.cuh"
#include "attention/common/warp_attention.cuh"
#include "ptx/grid_dependency.cuh"

namespace gqa {

template <typename Config>
struct FlashSmem {
  // Query rows; the finished rows of out take their place.
  static constexpr int kQPitch = row_pitch<QBits<Config>>(Config::kHeadDim);
  static constexpr int kOutPitch = row_pitch<OutBits<Config>>(Config::kHeadDimV);
  static constexpr int kRowPitch = kQPitch > kOutPitch ? kQPitch : kOutPitch;
  alignas(16) char q[Config::kTileM * kRowPitch];
  alignas(16) char k[Config::kStages][KeyTile<Config>::kBytes];
  alignas(16) char v[Config::kStages][Config::kTileN * row_pitch<KvBits<Config>>(Config::kHeadDimV)];
};

template <typename Config>
struct Flash {
  static constexpr int kThreads = Config::kWarps * 32;
  static constexpr int kWarpRows = Config::kTileM / Config::kWarps;
  using Smem = FlashSmem<Config>;
  static constexpr int kQPitch = Smem::kQPitch, kOutPitch = Smem::kOutPitch;
  using Core = WarpAttention<Config, kWarpRows / 16>;
  static_assert(kWarpRows % 16 == 0, "a warp owns whole 16-row fragments");

  const AttentionParams& p;
  const CacheParams* cache;
  const NewTokens* tokens;     // null where the Config appends none
  const ScoreParams* numbers;  // of the scores; null where the Config needs none
  Smem& smem;
  KeysOf<Config, kThreads, BlockOrder::kDown> keys;
  int sequence;
  int first_row;  // of the tile, in packed rows

  __device__ Flash(const AttentionParams& params, Smem& memory) : Flash(params, nullptr, nullptr, memory) {}
  __device__ Flash(const AttentionParams& params, const CacheParams& cache_params, Smem& memory)
      : Flash(params, &cache_params, nullptr, memory) {}
  __device__ Flash(const AttentionParams& params, const CacheParams& cache_params, const NewTokens& new_tokens,
                   Smem& memory)
      : Flash(params, &cache_params, &new_tokens, memory) {}

  __device__ Flash(const AttentionParams& params, const CacheParams* cache_params, const NewTokens* new_tokens,
                   Smem& memory)
      : p(params), cache(cache_params), tokens(new_tokens), smem(memory), keys(params, cache_params) {
    const Place place = here();
    sequence = place.batch;
    first_row = place.first_row;
    if constexpr (!keys_packed<Config>()) keys.open(place);  // else the grids before may still write the list
  }

  // Computed at each end of the kernel, not kept: the loop between has no register to spare.
  __device__ Place here() const { return tile_place<Config>(p, block_index()); }

  // The sequence's queries, read at each end as well.
  __device__ int queries() const { return queries_of<Config>(p, cache, sequence); }
  __device__ long long head_offset(const TensorStrides& s, const Place& place) const {
    return place_offset<Config>(s, place, first_query_of<Config>(cache, place.batch));
  }

  __device__ int warp_row() const { return first_row + thread_index() / 32 * kWarpRows; }
  __device__ u32 warp_queries() const { return shared_address(smem.q) + thread_index() / 32 * kWarpRows * kQPitch; }

  __device__ void load_queries() {
    const Place place = here();
    const QBits<Config>* q = static_cast<const QBits<Config>*>(p.q) + head_offset(p.q_strides, place);
    const int count = queries();
    if constexpr (appends<Config>())
      if (cache->rotates)
        return rotate_queries<Config, kThreads>(p, cache, *tokens, place, q, reinterpret_cast<QBits<Config>*>(smem.q));
    copy_tile<QBits<Config>, Config::kTileM, Config::kHeadDim, kThreads, Config::kAlign>(
        smem.q, threadIdx.x, [&](int r, auto piece) {
          const int row = place.first_row + r;
          piece(q + row_offset<Config>(p.q_strides, row), row_exists<Config>(p, count, row));
        });
  }

  // The blocks of keys that the tile visits: first .. end, the last one first.
  struct Visit {
    Walk<Config> walk;
    int first, end;
  };

  __device__ static int first_key(int block) { return block * Config::kTileN; }

  // By value: of what refers to memory, nvcc learns too late that a dense walk has no block below 0. The same is why
  // loads say 0 and do not read it from `visit`.
  __device__ auto brought_by(const Walk<Config>& walk) const {
    return [walk, row = first_row] { return walk.loaded(row); };
  }

  __device__ void load_k(const Visit& visit, int block) {
    if (block < (has_window<Config>() ? visit.first : 0)) return;
    keys.copy_k(smem.k[block % Config::kStages], thread_index(), block, first_key, brought_by(visit.walk));
  }

  __device__ void load_v(const Visit& visit, int block) {
    if (block < (has_window<Config>() ? visit.first : 0)) return;
    keys.copy_v(smem.v[block % Config::kStages], thread_index(), block, first_key, brought_by(visit.walk));
  }

  __device__ void mask_if_needed(Core& core, const Visit& visit, int block) const {
    if (visit.walk.template needs_mask<kWarpRows>(warp_row(), first_key(block)))
      core.mask(visit.walk, warp_row(), first_key(block));
  }

  // New keys are the first that the walk reads.
  __device__ void write_new_keys(const Visit& visit) const {
    if (cache->added == 0) return;
    const NewKeys<Config> added(p, cache, *tokens, here(), visit.walk.keys(), visit.first, visit.end - visit.first);
    if (!added.any()) return;
    added.write(keys);
    __syncthreads();
  }

  // One buffer: v arrives under the first product, the next k under the second.
  __device__ void walk_single(Core& core, const Visit& visit) {
    load_k(visit, visit.end - 1);
    cp_async_commit();
    for (int block = visit.end - 1; block >= visit.first; --block) {
      cp_async_wait<0>();
      __syncthreads();
      load_v(visit, block);
      cp_async_commit();
      core.multiply_keys(warp_queries(), shared_address(smem.k[0]), numbers, first_key(block));
      mask_if_needed(core, visit, block);
      cp_async_wait<0>();
      __syncthreads();
      load_k(visit, block - 1);
      cp_async_commit();
      core.softmax(p.scale_log2);
      core.multiply_values(shared_address(smem.v[0]));
    }
  }

  // kStages buffers: kStages - 1 blocks are in flight while one is worked on.
  __device__ void walk_pipelined(Core& core, const Visit& visit) {
#pragma unroll
    for (int ahead = 1; ahead < Config::kStages; ++ahead) {
      load_k(visit, visit.end - ahead);
      load_v(visit, visit.end - ahead);
      cp_async_commit();
    }
    for (int block = visit.end - 1; block >= visit.first; --block) {
      cp_async_wait<Config::kStages - 2>();
      __syncthreads();
      load_k(visit, block - (Config::kStages - 1));
      load_v(visit, block - (Config::kStages - 1));
      cp_async_commit();
      const int stage = block % Config::kStages;
      core.multiply_keys(warp_queries(), shared_address(smem.k[stage]), numbers, first_key(block));
      mask_if_needed(core, visit, block);
      core.softmax(p.scale_log2);
      core.multiply_values(shared_address(smem.v[stage]));
    }
  }

  // Finished rows go through this warp's own part of smem.q, so that global stores are whole 16-byte pieces.
  __device__ void store(Core& core) {
    const Place place = here();
    const int lane = threadIdx.x % 32, count = queries();
    char* rows = smem.q + threadIdx.x / 32 * kWarpRows * Smem::kRowPitch;
    constexpr int kBytes = sizeof(OutBits<Config>);  // of an element
#pragma unroll
    for (int m = 0; m < kWarpRows / 16; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int r = m * 16 + h * 8 + lane / 4;
        const float inverse = inverse_of(place, core.state[m], h, warp_row() + r);
#pragma unroll
        for (int n = 0; n < Core::kOuts; ++n)
          *reinterpret_cast<typename Config::Out::Pair*>(rows + r * kOutPitch + n * (8 * kBytes) +
                                                         lane % 4 * (2 * kBytes)) =
              Config::Out::pack(core.out[m][n][2 * h] * inverse, core.out[m][n][2 * h + 1] * inverse);
        store_lse(place, core.state[m], h, warp_row() + r, count);
      }
    __syncwarp();
    constexpr int kElements = kPiece<OutBits<Config>>, kPieces = Config::kHeadDimV / kElements;
    OutBits<Config>* out = static_cast<OutBits<Config>*>(p.out) + head_offset(p.out_strides, place);
#pragma unroll 4
    for (int i = lane; i < kWarpRows * kPieces; i += 32) {
      const int row = warp_row() + i / kPieces;
      if (!row_exists<Config>(p, count, row)) continue;
      const uint4 value = *reinterpret_cast<uint4*>(rows + i / kPieces * kOutPitch + i % kPieces * 16);
      store_piece<Config::kAlign>(out + row_offset<Config>(p.out_strides, row) + i % kPieces * kElements, value);
    }
  }

  __device__ RowTotal total_of(const Place& place, const RowState& state, int half, int row) const {
    return with_sink<Config>(state.maximum[half], state.sum[half], p.scale_log2, *numbers, place.head, row);
  }

  // What a row of out is multiplied by.
  __device__ float inverse_of(const Place& place, const RowState& state, int half, int row) const {
    if constexpr (has_sink<Config>())
      return total_of(place, state, half, row).weight();
    else
      return inverse_or_zero(state.sum[half]);
  }

  __device__ float lse_of(const Place& place, const RowState& state, int half, int row) const {
    if constexpr (has_sink<Config>())
      return total_of(place, state, half, row).lse(p.scale_log2);
    else
      return log_sum_exp(state.maximum[half], state.sum[half], p.scale_log2);
  }

  __device__ void store_lse(const Place& place, const RowState& state, int half, int row, int count) const {
    if (p.lse == nullptr || threadIdx.x % 4 != 0 || !row_exists<Config>(p, count, row)) return;
    p.lse[head_offset(p.lse_strides, place) + row_offset<Config>(p.lse_strides, row)] = lse_of(place, state, half, row);
  }

  __device__ void run(const ScoreParams* score_params = nullptr) {
    numbers = score_params;
    let_next_grid_begin();
    wait_for_grids_before();
    if constexpr (queries_packed<Config>())  // the grid has tiles for the longest of sequences
      if (!row_exists<Config>(p, queries(), first_row)) return;
    const Walk<Config> walk(p, cache, sequence);
    if constexpr (keys_packed<Config>()) keys.open(here());
    const Visit visit = {walk, walk.first_block(first_row), walk.end_block(first_row)};
    keys.start(visit.end, first_key, brought_by(walk));
    Core core;
    if constexpr (chain_arrays<Config>()) core.open_arrays(p, *numbers, here(), warp_row(), queries());
    load_queries();
    if constexpr (appends<Config>()) write_new_keys(visit);
    if constexpr (Config::kStages == 1)
      walk_single(core, visit);
    else
      walk_pipelined(core, visit);
    core.finish();
    cp_async_commit();  // where there was no block to walk, q is still arriving
    cp_async_wait<0>();
    // Where out's rows are wider than q's, a warp's rows of out lie over another's of q; without a block to walk, what
    // others copied may still arrive.
    if (kOutPitch > kQPitch || visit.end == visit.first) __syncthreads();
    store(core);
  }
};

}  // namespace gqa
