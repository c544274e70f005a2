// trial_arrays.cc: see trial_arrays.h.
#include "runtime/verify/trial_arrays.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "jit/device/check/trial_inputs.h"
#include "runtime/element.h"
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
  if (p.chain.reads(ChainOperand::kTensor32) || p.q_type == ElementType::kF32)
    return std::numeric_limits<float>::lowest();
  return p.q_type == ElementType::kBF16 ? -0x1.fep127F : -65504.F;
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

std::vector<std::uint8_t> biases(const Problem& p, std::uint64_t seed) {
  const Strides s = strides_of_scores(p);
  const std::int64_t count = s.batch * (p.batch - 1) + s.head * (p.q_heads - 1) + s.row * (p.q_len - 1) + p.kv_len;
  if (p.chain.reads(ChainOperand::kTensor32)) return scores<float>(p, count, seed, [](float value) { return value; });
  if (p.q_type == ElementType::kF32) return scores<float>(p, count, seed, [](float value) { return value; });
  return scores<std::uint16_t>(p, count, seed, [&](float value) { return store(p.q_type, value); });
}

// Near what a row's keys sum to, so that heads differ and neither hides the other.
std::vector<float> sinks(const Problem& p) {
  std::vector<float> made;
  for (std::int32_t head = 0; head < p.q_heads; ++head)
    made.push_back(std::log(static_cast<float>(p.kv_len)) + 0.75F * static_cast<float>(head % 3 - 1));
  return made;
}

std::vector<std::uint8_t> bytes_of(const std::vector<float>& numbers) {
  std::vector<std::uint8_t> bytes(numbers.size() * sizeof(float));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

}  // namespace

TrialArrays trial_arrays(const Problem& p, std::uint64_t seed) {
  TrialArrays made;
  if (p.chain.reads(ChainOperand::kHead)) made.push_back({Role::kScoreScale, bytes_of(factors(p.q_heads, seed))});
  if (p.chain.reads(ChainOperand::kRow))  // a batch's begin one after the other's
    made.push_back({Role::kScoreScale,
                    bytes_of(factors(std::int64_t{p.q_heads} * p.q_len + p.batch - 1, seed + 1)),
                    {1, 1, p.q_len}});
  if (p.chain.reads_tensor()) made.push_back({Role::kBias, biases(p, seed + 2), strides_of_scores(p)});
  if (p.sink) made.push_back({Role::kSink, bytes_of(sinks(p))});
  return made;
}

TrialOperands operands_of(const TrialArrays& arrays) {
  TrialOperands made;
  for (const TrialArray& array : arrays) add_operand(array.role, array.bytes, array.strides, &made);
  return made;
}

}  // namespace gqa
