// trial_arrays.cc: see trial_arrays.h.
#include "runtime/verify/trial_arrays.h"

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

template <typename Element, typename Store>
std::vector<std::uint8_t> scores(const Problem& p, std::int64_t count, std::uint64_t seed, const Store& stored) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * sizeof(Element));
  const bool hides = may_hide(p.chain);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const bool hidden = hides && mix(seed + i) % kHidden == 0;
    const Element element = stored(hidden ? -std::numeric_limits<float>::infinity() : normal(seed, i));
    std::memcpy(&bytes[i * sizeof(Element)], &element, sizeof(Element));
  }
  return bytes;
}

}  // namespace

TrialArrays trial_arrays(const Problem& p, std::uint64_t seed) {
  TrialArrays made;
  if (p.chain.reads(ChainOperand::kHead)) made.heads = factors(p.q_heads, seed);
  if (p.chain.reads(ChainOperand::kRow)) {
    made.row_strides = {1, 1, p.q_len};  // a batch's begin one after the other's
    made.rows = factors(std::int64_t{p.q_heads} * p.q_len + p.batch - 1, seed + 1);
  }
  if (!p.chain.reads_tensor()) return made;
  made.score_strides = {kBatchStep, kRowStep, kHeadStep};
  const std::int64_t count =
      kBatchStep * (p.batch - 1) + kHeadStep * (p.q_heads - 1) + kRowStep * (p.q_len - 1) + p.kv_len;
  made.scores = p.chain.reads(ChainOperand::kTensor32)
                    ? scores<float>(p, count, seed + 2, [](float value) { return value; })
                    : scores<std::uint16_t>(p, count, seed + 2, [&](float value) { return store(p.q_type, value); });
  return made;
}

ChainArrays given_arrays(const TrialArrays& arrays, const float* heads, const float* rows, const void* scores) {
  return {arrays.heads.empty() ? nullptr : heads, arrays.rows.empty() ? nullptr : rows, arrays.row_strides,
          arrays.scores.empty() ? nullptr : scores, arrays.score_strides};
}

}  // namespace gqa
