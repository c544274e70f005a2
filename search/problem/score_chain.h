// score_chain.h: what becomes of each score, scale times q k^T, before the mask and the softmax: a chain of elementwise
// operators, whose other operands a launch brings: numbers of the call (slots), or arrays of heads, rows or scores.
// Owns: ScoreChain, its rules, its words of the problem's text, and which of its factors join the scale.
// Never: holds an operand's number: calls that differ in these alone share kernels and winners. Knows device code.
// Threads: values; pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "search/status.h"

namespace gqa {

enum class Op : std::uint8_t;  // search/graph/ir/op.h
struct Problem;
class TextItems;

inline constexpr int kMostChainSteps = 4, kScoreSlots = 4;

// Where a step's other operand is: in a slot, or in an array of float32 a query head, of float32 a query row, or of a
// number a score, of q's type (kTensor) or float32. A launch brings one array of each kind.
enum class ChainOperand : std::uint8_t { kNone, kSlot, kHead, kRow, kTensor, kTensor32 };

// A call's numbers, by slot. Those that join the softmax's factor (folded()) are above 0.
using ScoreSlots = std::array<float, kScoreSlots>;

// x becomes op(x), op(x, operand), or within slot and the slot after it (clamp).
struct ChainStep {
  Op op = {};
  ChainOperand operand = ChainOperand::kNone;
  std::uint8_t slot = 0;  // where the operand is one
  friend bool operator==(const ChainStep&, const ChainStep&) = default;
};

struct ScoreChain {
  std::array<ChainStep, kMostChainSteps> steps;
  std::uint8_t count = 0;  // steps past it are as they are made

  bool any() const { return count > 0; }
  const ChainStep* begin() const { return steps.data(); }
  const ChainStep* end() const { return steps.data() + count; }
  bool reads(ChainOperand operand) const;
  bool reads_tensor() const { return reads(ChainOperand::kTensor) || reads(ChainOperand::kTensor32); }
  bool reads_arrays() const { return reads(ChainOperand::kHead) || reads(ChainOperand::kRow) || reads_tensor(); }
  // Quick where there is no chain, as most calls have it.
  friend bool operator==(const ScoreChain& a, const ScoreChain& b) {
    return a.count == b.count && (a.count == 0 || a.steps == b.steps);
  }
};

// cap * tanh(x / cap), the cap in slot 0.
inline constexpr int kSoftcapSlot = 0;
ScoreChain softcap_chain();

// Whether a chain may have the operator: elementwise, of a score alone or of a score and operands.
bool chain_takes(Op op);
// How many operands it reads beside the score: 0, 1, or 2, the lower bound first, which are slots.
int operands_read(Op op);
Status check_chain(const ScoreChain& chain);

// Slots' factors before the first other step join the scale, those after the last one the softmax's: kernels run the
// steps between. The order of scores stays, since the softmax's are above 0.
struct FoldedChain {
  ScoreChain before, between, after;
};
FoldedChain folded(const ScoreChain& chain);
// The product of a folded part's factors.
float factor_of(const ScoreChain& factors, const ScoreSlots& slots);

// The chain's words of the problem's text: ",softcap", or ",scores=add1+relu+multensor": an operator's name and its
// operand's.
std::string chain_text(const ScoreChain& chain);
Status read_chain(TextItems* items, Problem* problem);

}  // namespace gqa
