// launch_numbers.cc: see launch_numbers.h.
#include "runtime/cuda/launch/launch_numbers.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "runtime/call/chain_arrays.h"

namespace gqa {
namespace {

constexpr float kLog2OfE = 1.4426950408889634f;
constexpr std::size_t kCached = 64;  // direct-mapped: a model's layers share one or two

// A launch refuses more blocks than fit; nothing else reads the number then.
int whole(std::int64_t number) { return static_cast<int>(std::min<std::int64_t>(number, 2147483647)); }

std::size_t place_of(std::uint64_t kernel, const Problem& p) {
  const std::uint64_t mixed =
      (kernel * 31 + static_cast<std::uint64_t>(p.batch)) * 0x9e3779b97f4a7c15ULL ^
      (static_cast<std::uint64_t>(p.q_len) << 32 | static_cast<std::uint64_t>(p.kv_len)) * 0xff51afd7ed558ccdULL;
  return mixed >> 32 & (kCached - 1);
}

// What the softmax multiplies by: the scale, or of a chain, which takes it in its first step, the last factors.
float softmax_scale(const Call& call) {
  const ScoreChain& chain = call.problem.chain;
  return chain.any() ? factor_of(folded(chain).after, call.slots) : call.scale;
}

Problem one_sequence(Problem problem) {
  problem.batch = 1;
  return problem;
}

}  // namespace

LaunchNumbers launch_numbers(const Problem& problem, const Candidate& candidate) {
  LaunchNumbers numbers{};
  AttentionParams& p = numbers.params;
  const CandidateShape shape = shape_of(candidate);
  numbers.plan = plan(problem, candidate);
  p.q_heads = problem.q_heads;
  p.kv_heads = problem.kv_heads;
  p.batch = problem.batch;
  p.q_len = problem.q_len;
  p.kv_len = problem.kv_len;
  p.splits = shape.splits;
  p.row_tiles = static_cast<int>(row_tiles(problem, shape));
  p.rows_before = numbers.plan.rows_before;
  p.head_groups = problem.q_heads / shape.pack;
  p.tiles = whole(p.row_tiles * head_groups(problem, shape));
  p.head_swizzle = whole(head_swizzle(numbers.plan.listed_tiles ? one_sequence(problem) : problem, shape));
  p.by_splits = divisor_of(p.splits);
  p.by_row_tiles = divisor_of(p.row_tiles);
  p.by_swizzle_tiles = divisor_of(whole(std::int64_t{p.head_swizzle} * p.row_tiles));
  p.by_swizzle = divisor_of(p.head_swizzle);
  p.by_head_groups = divisor_of(p.head_groups);
  p.by_group = divisor_of(problem.group());
  return numbers;
}

const LaunchNumbers& cached_numbers(std::uint64_t kernel, const Problem& problem, const Candidate& candidate) {
  struct Entry {
    std::uint64_t kernel = 0;  // 0: none
    Problem problem;
    LaunchNumbers numbers{};
  };
  constinit thread_local static std::array<Entry, kCached> cache{};
  Entry& entry = cache[place_of(kernel, problem)];
  if (entry.kernel != kernel || !(entry.problem == problem)) {
    entry.numbers = launch_numbers(problem, candidate);
    entry.problem = problem;
    entry.kernel = kernel;
  }
  return entry.numbers;
}

void set_tensors(const Call& call, AttentionParams* p) {
  p->q = call.at(Role::kQ);
  p->k = call.at(Role::kK);
  p->v = call.at(Role::kV);
  p->out = call.to(Role::kOut);
  p->lse = call.to<float>(Role::kLse);
  p->q_strides = tensor_strides(call.strides(Role::kQ));
  p->k_strides = tensor_strides(call.strides(Role::kK));
  p->v_strides = tensor_strides(call.strides(Role::kV));
  p->out_strides = tensor_strides(call.strides(Role::kOut));
  p->lse_strides = tensor_strides(call.strides(Role::kLse));
  p->scale_log2 = softmax_scale(call) * kLog2OfE;
}

// A side that hides nothing is as good as none, and sums with the others stay within 32 bits. The first query stands as
// far before the last key as there are queries, be they more than keys.
CacheParams cache_params_of(const Call& call) {
  const Problem& p = call.problem;
  const auto side = [](std::int32_t keys, std::int32_t most) { return keys >= most ? -1 : keys; };
  const std::int32_t* k_starts = call.list(Role::kKStarts);
  return {call.list(Role::kKvLengths),
          call.list(Role::kPageTable),
          call.strides(Role::kPageTable).batch,
          call.pages,
          side(p.window_left, p.kv_len),
          side(p.window_right, p.q_len),
          call.k_in_slots,
          call.list(Role::kQStarts),
          k_starts,
          call.v_starts != nullptr ? call.v_starts : k_starts,
          call.list(Role::kQLengths),
          call.appends() ? call.append.count : 0,
          call.appends() && call.append.rotary_dim > 0};
}

ScoreParams score_params_of(const Call& call) {
  ScoreParams params{};
  params.factor = call.scale * factor_of(folded(call.problem.chain).before, call.slots);
  std::copy(call.slots.begin(), call.slots.end(), params.slots);
  set_chain_arrays(call, &params);
  return params;
}

}  // namespace gqa
