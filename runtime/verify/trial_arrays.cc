// trial_arrays.cc: see trial_arrays.h.
#include "runtime/verify/trial_arrays.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "jit/device/check/trial_inputs.h"
#include "runtime/half.h"
#include "search/graph/ir/op.h"

namespace gqa {
namespace {

constexpr std::int64_t kRowStep = 17, kHeadStep = 131, kBatchStep = 1031;  // of scores, in elements
constexpr std::uint64_t kHidden = 16;                                      // one score in so many

float normal(std::uint64_t seed, std::uint64_t index) { return near_normal(seed * 0x100000001ULL + index); }

// Above 0, whatever a step does with it.
std::vector<float> factors(std::int64_t count, std::uint64_t seed) {
  std::vector<float> made;
  made.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    made.push_back(1 + 0.1F * normal(seed, static_cast<std::uint64_t>(i)));  // near_normal() is within 3.5
  return made;
}

// -inf hides a key where it is added last; other steps would make something else of it.
bool may_hide(const ScoreChain& chain) {
  const ChainStep& last = chain.steps[chain.count - 1U];
  return last.op == Op::kAdd && chain.reads_tensor() &&
         (last.operand == ChainOperand::kTensor || last.operand == ChainOperand::kTensor32);
}

std::int32_t most_rows(const Problem& p) { return std::max({p.batch, p.q_heads, p.q_len}); }

// Rows are a few elements apart, and those of the dimension that has most so many more that all together spread over
// three rows' keys.
Strides strides_of_scores(const Problem& p) {
  Strides s = {kBatchStep, kRowStep, kHeadStep};
  const std::int64_t most = most_rows(p), more = 3 * std::int64_t{p.kv_len} / std::max<std::int64_t>(1, most - 1);
  (most == p.q_len ? s.row : most == p.q_heads ? s.head : s.batch) += more;
  return s;
}

// A mask that fills with the type's least number, as models have it, hides all keys of the first row and of the last,
// the last keys of rows near that and the first of rows near this: of rows whose keys are read up or down, those that
// hide the ones read first. One of two rows stays, and of a single one its second half.
struct LeastRuns {
  std::int64_t first_end, last_begin;
  LeastRuns(const Problem& p, std::int64_t count) : first_end(0), last_begin(count) {
    if (!may_hide(p.chain)) return;
    first_end = most_rows(p) == 1 ? p.kv_len / 2 : p.kv_len;
    if (most_rows(p) > 2) last_begin = count - p.kv_len;
  }
  bool holds(std::int64_t at) const { return at < first_end || at >= last_begin; }
};

float least(const Problem& p) {
  if (p.chain.reads(ChainOperand::kTensor32)) return std::numeric_limits<float>::lowest();
  return p.q_type == DType::kBF16 ? -0x1.fep127F : -65504.F;
}

template <typename Element, typename Store>
std::vector<std::uint8_t> scores(const Problem& p, std::int64_t count, std::uint64_t seed, const Store& stored) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * sizeof(Element));
  const bool hides = may_hide(p.chain);
  const LeastRuns runs(p, count);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const bool hidden = hides && mix(seed + i) % kHidden == 0;
    const float number = hidden ? -std::numeric_limits<float>::infinity() : normal(seed, i);
    const Element element = stored(runs.holds(static_cast<std::int64_t>(i)) ? least(p) : number);
    std::memcpy(&bytes[i * sizeof(Element)], &element, sizeof(Element));
  }
  return bytes;
}

}  // namespace

TrialArrays trial_arrays(const Problem& p, std::uint64_t seed) {
  TrialArrays made;
  if (p.chain.reads(ChainOperand::kHead)) made.factors = factors(p.q_heads, seed);
  if (p.chain.reads(ChainOperand::kRow)) {
    made.factor_strides = {1, 1, p.q_len};  // a batch's begin one after the other's
    made.factors = factors(std::int64_t{p.q_heads} * p.q_len + p.batch - 1, seed + 1);
  }
  if (!p.chain.reads_tensor()) return made;
  made.score_strides = strides_of_scores(p);
  const Strides& s = made.score_strides;
  const std::int64_t count = s.batch * (p.batch - 1) + s.head * (p.q_heads - 1) + s.row * (p.q_len - 1) + p.kv_len;
  made.scores = p.chain.reads(ChainOperand::kTensor32)
                    ? scores<float>(p, count, seed + 2, [](float value) { return value; })
                    : scores<std::uint16_t>(p, count, seed + 2, [&](float value) { return store(p.q_type, value); });
  return made;
}

TrialOperands operands_of(const TrialArrays& arrays) {
  TrialOperands made;
  add_operand(Role::kScoreScale, arrays.factors, arrays.factor_strides, &made);
  add_operand(Role::kBias, arrays.scores, arrays.score_strides, &made);
  return made;
}

}  // namespace gqa
