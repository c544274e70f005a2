// host_kernel.cc: see host_kernel.h.
#include "runtime/host/attention/host_kernel.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include "runtime/parallel.h"

namespace gqa {
namespace {

// Grows and never shrinks, so that warm calls allocate nothing. Null where memory ran out: no exception may leave a
// thread of the pool.
float* at_least(std::vector<float>* buffer, std::size_t floats) {
  try {
    if (buffer->size() < floats) buffer->resize(floats);
    return buffer->data();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

float* scratch_of_this_thread(std::size_t floats) {
  static thread_local std::vector<float> buffer;
  return at_least(&buffer, floats);
}

float* partials_of_this_thread(std::size_t floats) {
  static thread_local std::vector<float> buffer;
  return at_least(&buffer, floats);
}

// The keys that the tile's rows see between them.
void set_keys(Tile* tile) {
  if (tile->rows == 0) return;
  const int first = tile->first_row / tile->pack, last = (tile->first_row + tile->rows - 1) / tile->pack;
  const KeyRange seen = seen_keys(tile->call->problem, tile->sequence.size, first, last + 1);
  tile->first_key = seen.first;
  tile->last_key = seen.first + seen.count();
}

// One of `splits` shares of the tile's keys, in whole steps.
void take_share(int share, int splits, Tile* tile) {
  const int steps = (tile->last_key - tile->first_key + tile->tile_n - 1) / tile->tile_n;
  const int keys = (steps + splits - 1) / splits * tile->tile_n;
  const auto end_of = [&](int shares) {
    return static_cast<int>(std::min<std::int64_t>(tile->last_key, tile->first_key + std::int64_t{shares} * keys));
  };
  const int first = end_of(share), last = end_of(share + 1);
  tile->first_key = first;
  tile->last_key = last;
}

}  // namespace

// Tiles are numbered longest first: the last row tile of every head, then the one before it.
Tile HostKernel::tile_at(const Call& call, std::int64_t index) const {
  const Problem& p = call.problem;
  const int groups = p.q_heads / shape_.pack;
  const std::int64_t others = std::int64_t{groups} * p.batch;
  const std::int64_t row_tile = row_tiles(p, shape_) - 1 - index / others;
  const std::int64_t other = index % others;
  Tile tile;
  tile.call = &call;
  tile.tile_m = shape_.rows;
  tile.tile_n = shape_.keys;
  tile.pack = shape_.pack;
  tile.batch = static_cast<int>(other / groups);
  tile.head = static_cast<int>(other % groups) * shape_.pack;
  tile.kv_head = tile.head / p.group();
  tile.first_row = static_cast<int>(row_tile * shape_.rows);
  tile.sequence = sequence_of(call, tile.batch);
  const std::int64_t rows = std::int64_t{tile.sequence.size.queries} * shape_.pack - tile.first_row;
  tile.rows = static_cast<int>(std::clamp<std::int64_t>(rows, 0, shape_.rows));
  set_keys(&tile);
  return tile;
}

bool HostKernel::run_flash(const Call& call, std::int64_t tiles) const {
  const std::size_t scratch = tile_scratch(call.problem, candidate_);
  std::atomic<bool> fits = true;
  parallel_for(tiles, threads_, [&](std::int64_t i) {
    if (float* memory = scratch_of_this_thread(scratch))
      kernels_.run(tile_at(call, i), memory);
    else
      fits = false;
  });
  return fits;
}

bool HostKernel::run_split(const Call& call, std::int64_t tiles) const {
  const std::size_t scratch = tile_scratch(call.problem, candidate_);
  const int splits = shape_.splits;
  const std::int64_t stride = std::int64_t{shape_.rows} * (call.problem.head_dim_v + 2);
  float* partials = partials_of_this_thread(static_cast<std::size_t>(tiles * splits * stride));
  if (partials == nullptr) return false;
  std::atomic<bool> fits = true;
  parallel_for(tiles * splits, threads_, [&](std::int64_t i) {
    Tile tile = tile_at(call, i / splits);
    take_share(static_cast<int>(i % splits), splits, &tile);
    tile.partial = partials + i * stride;
    if (float* memory = scratch_of_this_thread(scratch))
      kernels_.run(tile, memory);
    else
      fits = false;
  });
  if (!fits) return false;
  parallel_for(tiles, threads_, [&](std::int64_t i) {
    kernels_.merge({tile_at(call, i), partials + i * splits * stride, splits});
  });
  return true;
}

Status HostKernel::run(const ProgramCall& program_call) const {
  const Call& call = *program_call.attention;
  const std::int64_t tiles =
      row_tiles(call.problem, shape_) * (call.problem.q_heads / shape_.pack) * call.problem.batch;
  const bool split = shape_.splits > 1;
  if (split ? run_split(call, tiles) : run_flash(call, tiles)) return {};
  return {Code::kOutOfMemory, "host memory ran out for the scratch of " + to_text(candidate_)};
}

}  // namespace gqa
