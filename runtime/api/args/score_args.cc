// score_args.cc: see score_args.h.
#include "runtime/api/args/score_args.h"

#include <string>

#include "runtime/api/c_struct.h"
#include "runtime/api/tensors/dtype.h"
#include "runtime/api/tensors/tensor_rules.h"
#include "search/graph/ir/op.h"

namespace gqa {
namespace {

void add(ScoreChain* chain, ChainStep step) { chain->steps[chain->count++] = step; }

Status too_many(const char* of) {
  return {Code::kOption,
          std::string(of) + " has softcap, score_scale and bias, expected at most two of them: multiply q"};
}

}  // namespace

Status check_scores(const gqa_call& call, const Operands& operands) {
  if (!is_zero_or_normal(call.softcap))
    return {Code::kOption, "gqa_call.softcap is " + float_text(call.softcap) +
                               ", expected a finite number of at least 1.17549e-38, or 0 for none"};
  if (!operands.has(Role::kBias)) return {};
  if (call.softcap != 0 && operands.has(Role::kScoreScale)) return too_many("gqa_call");
  if (operands.any_packed() || appends(operands))
    return {Code::kOption, "gqa_call.bias with packed sequences or k_new, expected none"};
  return {};
}

Status check_scores(const gqa_shape& shape) {
  const int scale = number(shape.score_scale), bias = number(shape.bias);
  if (scale < GQA_SCORE_SCALE_NONE || scale > GQA_SCORE_SCALE_ROWS)
    return {Code::kOption, "gqa_shape.score_scale is " + std::to_string(scale) +
                               ", expected GQA_SCORE_SCALE_NONE, GQA_SCORE_SCALE_HEADS or GQA_SCORE_SCALE_ROWS"};
  if (bias < GQA_BIAS_NONE || bias > GQA_BIAS_FLOAT32)
    return {Code::kOption, "gqa_shape.bias is " + std::to_string(bias) +
                               ", expected GQA_BIAS_NONE, GQA_BIAS_OF_Q or GQA_BIAS_FLOAT32"};
  const bool packed = shape.cu_seqlens_q == 1 || shape.cu_seqlens_k == 1;
  if (packed && scale == GQA_SCORE_SCALE_ROWS)
    return {Code::kOption, "gqa_shape.score_scale of each row with packed sequences, expected that of heads"};
  if (bias == GQA_BIAS_NONE) return {};
  if (shape.softcap == 1 && scale != GQA_SCORE_SCALE_NONE) return too_many("gqa_shape");
  return packed ? Status(Code::kOption, "gqa_shape.bias with packed sequences, expected none") : Status();
}

Status check_score_forms(const Operands& operands) {
  if (!operands.any_packed() || !operands.has(Role::kScoreScale) || operands.packed(Role::kScoreScale)) return {};
  return {Code::kOption,
          "score_scale of each row with packed sequences, expected " + dims_text(row_of(Role::kScoreScale).packed)};
}

ScoreTraits score_traits_of(const gqa_call* options, const Operands& operands) {
  ScoreTraits traits;
  traits.softcap = options != nullptr && options->softcap != 0;
  if (operands.has(Role::kScoreScale))
    traits.scale = operands.packed(Role::kScoreScale) ? ChainOperand::kHead : ChainOperand::kRow;
  if (operands.has(Role::kBias))
    traits.bias = same(operands[Role::kBias].dtype, kFloat32) ? ChainOperand::kTensor32 : ChainOperand::kTensor;
  return traits;
}

ScoreTraits score_traits_of(const gqa_shape& shape) {
  constexpr ChainOperand kScales[] = {ChainOperand::kNone, ChainOperand::kHead, ChainOperand::kRow};
  constexpr ChainOperand kBiases[] = {ChainOperand::kNone, ChainOperand::kTensor, ChainOperand::kTensor32};
  return {shape.softcap == 1, kScales[shape.score_scale], kBiases[shape.bias]};
}

// The factor comes after the cap's division, which then joins the scale: the same, since both multiply.
void fill_scores(const ScoreTraits& traits, Problem* problem) {
  ScoreChain chain;
  const ScoreChain cap = softcap_chain();
  if (traits.softcap) add(&chain, cap.steps[0]);
  if (traits.scale != ChainOperand::kNone) add(&chain, {Op::kMul, traits.scale});
  for (int at = 1; traits.softcap && at < cap.count; ++at) add(&chain, cap.steps[static_cast<std::size_t>(at)]);
  // Scores of float32 have one name whichever way a caller says it.
  const bool wide = problem->q_type == ElementType::kF32 && traits.bias == ChainOperand::kTensor;
  if (traits.bias != ChainOperand::kNone) add(&chain, {Op::kAdd, wide ? ChainOperand::kTensor32 : traits.bias});
  problem->chain = chain;
}

}  // namespace gqa
