// forecast.cc: see forecast.h.
#include "runtime/tuner/forecast.h"

#include <algorithm>
#include <vector>

#include "runtime/thread_limits.h"
#include "runtime/tuner/shortlist.h"
#include "runtime/workload/keys.h"

namespace gqa {
namespace {

// Fitted to the 17 shapes of llama-3-8b, tuned in 15 s on an H200 with 16 cores (docs/benchmarks.md): a kernel's
// compilation takes one core about so long, verifying and timing a shape about so long beside its runs.
constexpr double kCompileSeconds = 1.0, kTrialSeconds = 0.65;
// How often verifying and timing an option run it, about.
constexpr double kRuns = 60;

}  // namespace

bool Forecast::is_ready(const Workload& workload) {
  if (work_ == Work::kCompile) return false;
  const std::vector<cache::WinnerRow> rows =
      store_.find_winners(winner_key(device_, workload.signature()), device_.compiler());
  return std::any_of(rows.begin(), rows.end(),
                     [](const cache::WinnerRow& row) { return outdated(row).empty() && !row.provisional; });
}

void Forecast::add_kernel(const Source& source) {
  const std::string key = kernel_key(device_, source);
  if (!kernels_.insert(key).second) return;
  ++outlook_.kernels;
  if (!store_.find_kernel_of_any_compiler(key)) ++outlook_.to_compile;
}

Status Forecast::add(Workload& workload) {
  ++outlook_.workloads;
  if (is_ready(workload)) {
    ++outlook_.ready;
    return {};
  }
  const Effort effort(policy_.budget_seconds);
  Options options;
  if (Status status = workload.options(0, device_.spec(), effort, {}, &options); !status.ok()) return status;
  std::vector<Program> programs(options.ranked.size());
  const auto usable = [&](std::size_t at) { return options.ranked[at].make(&programs[at]).ok(); };
  const auto most = static_cast<std::size_t>(std::max(1, policy_.max_candidates));
  double runs_us = 0;
  for (const std::size_t at : shortlist(options.ranked, most, most, usable).own) {
    runs_us += kRuns * options.ranked[at].predicted_us;
    for (const Source& source : programs[at].sources) add_kernel(source);
  }
  if (work_ == Work::kTune) timing_seconds_ += std::min(policy_.budget_seconds, kTrialSeconds + runs_us * 1e-6);
  return {};
}

Outlook Forecast::outlook() const {
  Outlook outlook = outlook_;
  const int cores = policy_.compile_threads > 0 ? policy_.compile_threads : usable_threads();
  const bool compiles = device_.spec().kind == DeviceKind::kCuda;  // the host's kernels are compiled with the library
  outlook.most_seconds = policy_.budget_seconds * static_cast<double>(outlook.workloads - outlook.ready);
  const double compiling = compiles ? kCompileSeconds * static_cast<double>(outlook.to_compile) / cores : 0;
  outlook.seconds = std::min(outlook.most_seconds, compiling + timing_seconds_);
  return outlook;
}

}  // namespace gqa
