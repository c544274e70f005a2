// resources.cc: what a candidate of the family needs of a device; see wgmma_flash.h.
#include <algorithm>
#include <numeric>

#include "search/families/wgmma_flash/wgmma_flash.h"
#include "search/problem/mask.h"
#include "search/rounding.h"

namespace gqa {
namespace {

constexpr int kProducerThreads = 128;

// Out's buffer, with what two warpgroups on the same rows hand over, and the ones.
std::int64_t out_bytes(const Problem& p, const WgmmaFlash& c) {
  if (c.out_parts == 0) return 8;
  const int panels = padded_columns(p.head_dim_v) / kPanelColumns;
  const std::int64_t handover = c.key_shares == 1 ? 0 : 256LL * p.head_dim_v + 2048;
  const int ones = c.has_ones() ? 2048 : 0;
  return 2LL * c.tile_m * ceil_div(panels, c.out_parts) * kPanelColumns + handover + ones;
}

// warpgroup_smem.cuh, WarpgroupSmem: panels of 64 columns for queries, out and the KV buffers, then the rings' and the
// handover's barriers, two tickets of 40 bytes and four tile numbers of 12, and what the producer's warps tell each
// other; swizzled panels start at multiples of 1024 bytes.
std::int64_t shared_memory(const Problem& p, const WgmmaFlash& c) {
  constexpr int kAlign = 1024;
  const int query = padded_columns(p.head_dim), value = padded_columns(p.head_dim_v);
  const std::int64_t rows = 2LL * c.tile_m * c.queries * query + out_bytes(p, c);
  // Transposed keys are panels of 64 keys, with a row an element of head_dim.
  const std::int64_t keys =
      p.keys_transposed() ? std::int64_t{p.head_dim} * padded_columns(c.tile_n) : std::int64_t{c.tile_n} * query;
  const std::int64_t stage = 2LL * (keys + std::int64_t{c.tile_n} * value);
  const bool listed = p.lengths_differ() || p.paged();
  const int told = c.copies_pages() ? 16 : listed ? 24 : 0;  // tile_ends.cuh, value_tails.cuh
  const std::int64_t barriers = 16LL * (c.queries + 2 * c.stages + 3) + 80 + 48 + told;
  return round_up(rows + c.stages * stage + barriers, kAlign);
}

// A cluster's CTAs take 64 rows by turns: warpgroup_producer.cuh.
TensorBoxes boxes_of(const Problem& p, const WgmmaFlash& c) {
  return {c.cluster == 1 ? c.tile_m : kWarpgroupRows, box_keys(p, c), kWarpgroupRows, c.pack};
}

}  // namespace

CandidateShape shape_of(const WgmmaFlash& c) {
  CandidateShape shape;
  shape.rows = c.tile_m;
  shape.keys = shape.cta_keys = c.tile_n;
  shape.pack = c.pack;
  shape.cluster = c.cluster;
  shape.head_swizzle = c.head_swizzle;
  return shape;
}

LaunchPlan plan(const Problem& problem, const WgmmaFlash& c) {
  const CandidateShape shape = shape_of(c);
  LaunchPlan launch;
  launch.blocks = row_tiles(problem, shape) * head_groups(problem, shape);
  launch.persistent = true;
  launch.listed_tiles = problem.q_packed();
  launch.threads = c.warps() * 32 + kProducerThreads;
  launch.resident = c.warpgroups() == 1 ? 2 : 1;  // one warpgroup alone leaves the tensor cores idle
  launch.cluster = c.cluster;
  launch.shared_memory = shared_memory(problem, c);
  launch.rows_before = rows_before(problem, c);
  launch.maps = boxes_of(problem, c);
  launch.bring(LaunchArgument::kMaps, true);
  launch.bring(LaunchArgument::kCache, needs_cache_params(problem));
  launch.bring(LaunchArgument::kScores, needs_score_params(problem));
  c.scheduler.plan(problem, c.warpgroups(), 512 * (c.has_ones() ? 2 : 1), &launch);
  return launch;
}

// warpgroup_attention.cuh: a consumer thread's share of 64 rows of out and scores as float32, the weights packed by
// two, their sums by a ones column, fragments of Q, and running state, addresses, loop counters.
int registers(const Problem& p, const WgmmaFlash& c) {
  return p.head_dim_v / 2 + c.tile_n / 2 + c.tile_n / 4 + 28 + (c.has_ones() ? 4 : 0) + 4 * c.q_regs;
}

// The producer gives most of its registers to the consumers; three share what two have. With fewer than 32 a producer
// that does more than static rounds, or reads lists, spills; warps that copy would do with 40.
RoleRegisters role_registers(const KernelTraits& p, const WgmmaFlash& c) {
  const int consumers = c.warpgroups();
  if (consumers == 1) return c.copies_pages() ? RoleRegisters{40, 216} : RoleRegisters{32, 224};
  if (consumers == 3) return {32, 160};
  return c.scheduler.has_small_producer() && !p.has_lists() ? RoleRegisters{24, 240} : RoleRegisters{40, 232};
}

int q_regs_that_fit(const Problem& problem, const WgmmaFlash& candidate) {
  WgmmaFlash none = candidate;
  none.q_regs = 0;
  // Wide rows that leave from registers spill where Q takes all that is left.
  const int spare = candidate.out_parts == 0 && problem.head_dim_v > 192 ? 6 : 0;
  const int left = role_registers(problem, candidate).consumer - registers(problem, none) - spare;
  return std::clamp(left / 4, 0, problem.head_dim / 16);
}

std::int32_t box_keys(const Problem& p, const WgmmaFlash& c) {
  if (c.copies_pages()) return 0;
  return p.paged() ? std::gcd(p.page, c.tile_n) : c.tile_n;
}

bool boxes_fit(const Problem& p, std::int32_t tile_n) { return std::gcd(p.page, tile_n) % kSwizzledRows == 0; }

int rows_before(const Problem& problem, const WgmmaFlash& c) {
  const std::int64_t places = row_tiles(problem, shape_of(c)) * c.tile_m * c.cluster;
  return static_cast<int>((places - std::int64_t{problem.q_len} * c.pack) / kWarpgroupRows * kWarpgroupRows);
}

bool halves_tiles(const Problem& problem, const WgmmaFlash& c) {
  return work_grows(problem) && c.key_shares == 1 && c.tile_n % 32 == 0;
}

}  // namespace gqa
