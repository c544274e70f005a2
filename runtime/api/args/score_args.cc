// score_args.cc: see score_args.h.
#include "runtime/api/args/score_args.h"

#include <cmath>
#include <string>

#include "runtime/api/args/append_args.h"
#include "runtime/api/c_struct.h"
#include "runtime/api/tensors/dtype.h"
#include "runtime/api/tensors/tensor_rules.h"
#include "search/graph/ir/op.h"

namespace gqa {
namespace {

constexpr Role kSink = {"sink", 1, "(q_heads)"};
constexpr Role kHeadScale = {"score_scale", 1, "(q_heads)"};
constexpr Role kRowScale = {"score_scale", 3, "(batch or 1, q_heads or 1, q_len)"};
constexpr Role kBias = {"bias", 4, "(batch or 1, q_heads or 1, q_len or 1, kv_len)"};
constexpr int kFloat32Bytes = 4;

bool of_heads(const DLTensor& scale) { return scale.ndim == 1; }
const Role& role_of_scale(const DLTensor& scale) { return of_heads(scale) ? kHeadScale : kRowScale; }

Status check_equal_or_one(const Role& role, std::int64_t size, const char* dim, std::int64_t expected) {
  if (size == expected || size == 1) return {};
  return {Code::kShape, std::string(role.name) + " has " + dim + " " + std::to_string(size) + ", expected " +
                            std::to_string(expected) + (expected == 1 ? "" : " or 1") + ": " + role.dims};
}

Status check_scale(const Device& device, const DLTensor& scale, const ScoredSizes& sizes) {
  const Role& role = role_of_scale(scale);
  if (Status status = check_tensor(device, role, scale, kFloat32); !status.ok()) return status;
  if (of_heads(scale)) return check_equal(role, scale.shape[0], "q_heads", "q", sizes.q_heads);
  if (sizes.packed)
    return {Code::kOption, "score_scale of each row with packed sequences, expected " + std::string(kHeadScale.dims)};
  Status status = check_equal_or_one(role, scale.shape[0], "batch", sizes.batch);
  if (status.ok()) status = check_equal_or_one(role, scale.shape[1], "q_heads", sizes.q_heads);
  return status.ok() ? check_equal(role, scale.shape[2], "q_len", "q", sizes.q_len) : status;
}

Status check_bias(const Device& device, const DLTensor& bias, const ScoredSizes& sizes, DLDataType q_type) {
  if (Status status = check_rank(kBias, bias); !status.ok()) return status;
  if (!same(bias.dtype, kFloat32))
    if (Status status = check_tensor(device, kBias, bias, q_type, ", expected float32 or, as q, "); !status.ok())
      return status;
  Status status = check_tensor(device, kBias, bias, bias.dtype);
  if (status.ok()) status = check_equal_or_one(kBias, bias.shape[0], "batch", sizes.batch);
  if (status.ok()) status = check_equal_or_one(kBias, bias.shape[1], "q_heads", sizes.q_heads);
  if (status.ok()) status = check_equal_or_one(kBias, bias.shape[2], "q_len", sizes.q_len);
  return status.ok() ? check_equal(kBias, bias.shape[3], "kv_len", "k", sizes.kv_len) : status;
}

// A dimension of one element is not stepped along.
Strides strides_of_rows(const View& view) { return {view.stride[0], view.stride[2], view.stride[1]}; }

void add(ScoreChain* chain, ChainStep step) { chain->steps[chain->count++] = step; }

Status too_many(const char* of) {
  return {Code::kOption,
          std::string(of) + " has softcap, score_scale and bias, expected at most two of them: multiply q"};
}

}  // namespace

Status check_scores(const gqa_call& call) {
  if (!is_zero_or_normal(call.softcap))
    return {Code::kOption, "gqa_call.softcap is " + float_text(call.softcap) +
                               ", expected a finite number of at least 1.17549e-38, or 0 for none"};
  if (call.bias == nullptr) return {};
  if (call.softcap != 0 && call.score_scale != nullptr) return too_many("gqa_call");
  if (call.cu_seqlens_q != nullptr || call.cu_seqlens_k != nullptr || appends(&call))
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

ScoreTensors score_tensors_of(const gqa_call* options) {
  if (options == nullptr) return {};
  return {options->sink, options->score_scale, options->bias};
}

Status check_present(const ScoreTensors& given) {
  Status status = given.sink == nullptr ? Status() : check_present(kSink, given.sink);
  if (status.ok() && given.scale != nullptr) status = check_present(role_of_scale(*given.scale), given.scale);
  return status.ok() && given.bias != nullptr ? check_present(kBias, given.bias) : status;
}

Status check_score_tensors(const Device& device, const ScoreTensors& given, const ScoredSizes& sizes,
                           DLDataType q_type) {
  Status status;
  if (given.sink != nullptr) {
    status = check_tensor(device, kSink, *given.sink, kFloat32);
    if (status.ok()) status = check_equal(kSink, given.sink->shape[0], "q_heads", "q", sizes.q_heads);
  }
  if (status.ok() && given.scale != nullptr) status = check_scale(device, *given.scale, sizes);
  return status.ok() && given.bias != nullptr ? check_bias(device, *given.bias, sizes, q_type) : status;
}

Status read_views(const ScoreTensors& given, ScoreViews* views) {
  Status status;
  if (given.sink != nullptr) status = read_view(kSink, *given.sink, kFloat32Bytes, "it", &views->sink);
  if (status.ok() && given.scale != nullptr)
    status = read_view(role_of_scale(*given.scale), *given.scale, kFloat32Bytes,
                       of_heads(*given.scale) ? "it" : nullptr, &views->scale);
  if (!status.ok() || given.bias == nullptr) return status;
  return read_view(kBias, *given.bias, given.bias->dtype.bits / 8, "its keys", &views->bias);
}

ScoreTraits score_traits_of(const gqa_call* options, const ScoreTensors& given) {
  ScoreTraits traits;
  traits.softcap = options != nullptr && options->softcap != 0;
  traits.sink = given.sink != nullptr;
  if (given.scale != nullptr) traits.scale = of_heads(*given.scale) ? ChainOperand::kHead : ChainOperand::kRow;
  if (given.bias != nullptr)
    traits.bias = same(given.bias->dtype, kFloat32) ? ChainOperand::kTensor32 : ChainOperand::kTensor;
  return traits;
}

ScoreTraits score_traits_of(const gqa_shape& shape) {
  constexpr ChainOperand kScales[] = {ChainOperand::kNone, ChainOperand::kHead, ChainOperand::kRow};
  constexpr ChainOperand kBiases[] = {ChainOperand::kNone, ChainOperand::kTensor, ChainOperand::kTensor32};
  return {shape.softcap == 1, shape.sink == 1, kScales[shape.score_scale], kBiases[shape.bias]};
}

// The factor comes after the cap's division, which then joins the scale: the same, since both multiply.
void fill_scores(const ScoreTraits& traits, Problem* problem) {
  ScoreChain chain;
  const ScoreChain cap = softcap_chain();
  if (traits.softcap) add(&chain, cap.steps[0]);
  if (traits.scale != ChainOperand::kNone) add(&chain, {Op::kMul, traits.scale});
  for (int at = 1; traits.softcap && at < cap.count; ++at) add(&chain, cap.steps[static_cast<std::size_t>(at)]);
  if (traits.bias != ChainOperand::kNone) add(&chain, {Op::kAdd, traits.bias});
  problem->chain = chain;
  problem->sink = traits.sink;
}

void fill_score_numbers(const gqa_call* options, const ScoreViews& views, Call* call) {
  call->slots = {};
  call->arrays = {};
  call->sink = nullptr;
  if (options == nullptr) return;
  call->slots[kSoftcapSlot] = options->softcap;
  if (options->sink != nullptr) call->sink = reinterpret_cast<const float*>(views.sink.data);
  const auto* scale = reinterpret_cast<const float*>(views.scale.data);
  (views.scale.rank == 1 ? call->arrays.heads : call->arrays.rows) = scale;
  if (views.scale.rank == 3) call->arrays.row_strides = strides_of_rows(views.scale);
  call->arrays.scores = reinterpret_cast<const void*>(views.bias.data);
  if (options->bias != nullptr) call->arrays.score_strides = strides_of_rows(views.bias);
}

}  // namespace gqa
