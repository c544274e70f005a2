// host_device.cc: the CPU as a device. Its artefact is the µGraph's text: compile() writes it, load() reads the tile
// parameters back out of it and runs them.
// Threads: as device.h says.
#include <dlpack/dlpack.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/call/checked.h"
#include "runtime/device.h"
#include "runtime/host/attention/host_appender.h"
#include "runtime/host/attention/host_kernel.h"
#include "runtime/host/attention/host_merger.h"
#include "runtime/host/attention/host_operation_trial.h"
#include "runtime/host/attention/host_trial.h"
#include "runtime/host/host_limits.h"
#include "runtime/host/host_spec.h"
#include "runtime/host/program/host_program.h"
#include "runtime/host/program/host_program_trial.h"
#include "runtime/thread_limits.h"
#include "runtime/workload/workload.h"
#include "search/graph/ir/graph_text.h"

namespace gqa {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
// A race that costs far more than the calls that wait for it is no bargain: docs/performance/host.md has the figures.
constexpr double kLeastRaceSeconds = 0.5, kRaceCalls = 6;

std::int64_t cache_bytes(int name, std::int64_t fallback) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : fallback;
}

HostCaches caches() {
  const std::int64_t l2 = host_limits().l2_bytes;
  return {l2 > 0 ? l2 : cache_bytes(_SC_LEVEL2_CACHE_SIZE, kMiB), cache_bytes(_SC_LEVEL3_CACHE_SIZE, 8 * kMiB)};
}

// What the thread plan of an attention program says.
Status candidate_of(const std::string& program, Candidate* candidate) {
  KernelGraph graph;
  if (Status status = parse(program, &graph); !status.ok()) return status;
  const BlockGraph* block = graph.nodes().empty() ? nullptr : graph.nodes().front().block.get();
  if (block == nullptr) return {Code::kInternal, "the stored µGraph has no kernel, expected one of attention"};
  if (!block->threads.candidate)
    return {Code::kInternal,
            "the stored µGraph's kernel has the plan '" + to_text(block->threads) + "', expected a candidate's"};
  *candidate = *block->threads.candidate;
  return {};
}

class HostDevice final : public Device {
 public:
  explicit HostDevice(int threads)
      : Device({{kDLCPU, kDLCUDAHost}}), spec_(host_spec(tile_kernels().name, threads, caches())) {}

  const DeviceSpec& spec() const override { return spec_; }
  std::string compiler() const override { return "host 1"; }
  std::string timing_method() const override { return "steady clock, rotated inputs, v1"; }
  double race_seconds(double best_us) const override { return std::max(kLeastRaceSeconds, kRaceCalls * best_us / 1e6); }

  Status compile(const Source& source, Binary* binary) const override {
    binary->source = source.text;
    return {};
  }

  Status load(const Program& program, const std::vector<Binary>& binaries,
              std::unique_ptr<LoadedProgram>* loaded) override {
    bool same = program.sources.size() == binaries.size();
    for (std::size_t at = 0; same && at < binaries.size(); ++at) same = binaries[at].source == program.sources[at].text;
    if (!same)
      return {Code::kInternal, "the " + std::to_string(binaries.size()) + " stored µGraphs of a program are not its " +
                                   std::to_string(program.sources.size()) + " kernels: expected the text of each"};
    const Step& first = program.steps.front();
    if (const Operation* operation = first.operation()) return load_operation(*operation, loaded);
    if (const AttentionStep* attention = first.attention(); attention != nullptr && !attention->fixed)
      return load_attention(*attention, binaries[0], loaded);
    std::unique_ptr<HostProgram> made;
    Status status = HostProgram::load(program, host_ops(), spec_.sms, &made);
    if (status.ok()) *loaded = std::move(made);
    return status;
  }

  Status make_trial(const Reference& reference, const Binary&, const Effort& effort,
                    std::unique_ptr<Trial>* trial) override {
    if (const Problem* problem = std::get_if<Problem>(&reference.of))
      return HostTrial::make(*problem, spec_, effort, trial);
    if (const KernelGraph* graph = std::get_if<KernelGraph>(&reference.of))
      return HostProgramTrial::make(*graph, spec_, effort, trial);
    *trial = std::make_unique<HostOperationTrial>(std::get<Operation>(reference.of), spec_.sms, effort);
    return {};
  }

  Status copy(void* to, const void* from, std::size_t bytes, void*) const override {
    std::memcpy(to, from, bytes);
    return {};
  }
  Status check_lists(const Call& call, std::string* odd) const override { return gqa::check_lists(call, odd); }

 private:
  Status load_operation(Operation operation, std::unique_ptr<LoadedProgram>* loaded) const {
    if (operation == Operation::kAppend)
      *loaded = std::make_unique<HostAppender>(spec_.sms);
    else
      *loaded = std::make_unique<HostMerger>(spec_.sms);
    return {};
  }

  // Launch parameters come from the step, as on a GPU: one µGraph serves several.
  Status load_attention(const AttentionStep& step, const Binary& binary, std::unique_ptr<LoadedProgram>* loaded) const {
    Candidate runs;
    if (Status status = candidate_of(binary.source, &runs); !status.ok()) return status;
    if (kernel_text(runs) != kernel_text(step.candidate))
      return {Code::kInternal, "the stored µGraph is of '" + kernel_text(runs) + "', but '" +
                                   kernel_text(step.candidate) + "' was to be loaded"};
    *loaded = std::make_unique<HostKernel>(step.candidate, spec_.sms);
    return {};
  }

  const DeviceSpec spec_;
};

}  // namespace

Status open_host_device(int threads, std::unique_ptr<Device>* device) {
  if (Status status = host_limits_status(); !status.ok()) return status;
  *device = std::make_unique<HostDevice>(threads > 0 ? threads : usable_threads());
  return {};
}

}  // namespace gqa
