// score_args.cc: see score_args.h.
#include "runtime/api/score_args.h"

#include <cmath>
#include <string>

#include "runtime/api/tensors/tensor_rules.h"

namespace gqa {
namespace {

constexpr Role kSink = {"sink", 1, "(q_heads)"};
constexpr DLDataType kSinkType = {kDLFloat, 32, 1};
constexpr int kSinkElement = 4;  // bytes

}  // namespace

Status check_scores(const gqa_call& call) {
  if (std::isfinite(call.softcap) && call.softcap >= 0) return {};
  return {Code::kOption,
          "gqa_call.softcap is " + std::to_string(call.softcap) + ", expected a finite number above 0, or 0 for none"};
}

Status check_sink_present(const DLTensor* sink) { return sink == nullptr ? Status() : check_present(kSink, sink); }

Status check_sink(const Device& device, const DLTensor* sink, std::int64_t q_heads) {
  if (sink == nullptr) return {};
  Status status = check_tensor(device, kSink, *sink, kSinkType);
  return status.ok() ? check_equal(kSink, sink->shape[0], "q_heads", "q", q_heads) : status;
}

Status read_sink(const DLTensor* sink, View* view) {
  return sink == nullptr ? Status() : read_view(kSink, *sink, kSinkElement, "it", view);
}

void fill_scores(const ScoreTraits& traits, Problem* problem) {
  problem->chain = traits.softcap ? softcap_chain() : ScoreChain();
  problem->sink = traits.sink;
}

void fill_score_numbers(const gqa_call* options, const View& sink, Call* call) {
  call->slots = {};
  call->sink = nullptr;
  if (options == nullptr) return;
  call->slots[kSoftcapSlot] = options->softcap;
  if (options->sink != nullptr) call->sink = reinterpret_cast<const float*>(sink.data);
}

}  // namespace gqa
