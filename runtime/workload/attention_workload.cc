// attention_workload.cc: see attention_workload.h.
#include "runtime/workload/attention_workload.h"

#include "runtime/workload/nearest_call.h"
#include "runtime/workload/programs.h"
#include "search/families/space.h"

namespace gqa {

Status AttentionWorkload::options(int, const DeviceSpec& device, const Effort&,
                                  const std::function<void(const SearchCounts&)>&, Options* options) {
  const Space space = enumerate(problem(), device);
  for (const Ranked& ranked : space.ranked) {
    Option& option = options->ranked.emplace_back();
    option.name = to_text(ranked.candidate);
    option.predicted_us = ranked.predicted_us;
    option.moved_bytes = moved_bytes(problem(), ranked.candidate, device);
    option.kernels = {kernel_text(ranked.candidate)};
    option.make = [this, candidate = ranked.candidate, kind = device.kind](Program* program) {
      *program = program_of(problem(), candidate, kind);
      return Status();
    };
  }
  for (const Rejected& rejected : space.rejected)
    options->rejected.push_back({to_text(rejected.candidate), rejected.reason});
  options->counts.pruned = static_cast<std::int64_t>(space.rejected.size());
  options->counts.enumerated = static_cast<std::int64_t>(space.rejected.size() + space.ranked.size());
  if (!space.ranked.empty()) return {};
  if (const auto nearest = served_call(problem(), device))
    options->report = "; the nearest call that is served: with " + nearest->change + ", " + nearest->problem;
  return {};
}

Status AttentionWorkload::program(const std::string& text, const DeviceSpec& device, Program* program) {
  Candidate candidate;
  if (Status status = parse(text, &candidate); !status.ok()) return status;
  if (std::string reason = reject_reason(problem(), candidate, device); !reason.empty())
    return {Code::kInternal, reason};
  *program = program_of(problem(), candidate, device.kind);
  return {};
}

}  // namespace gqa
