// host_device.cc: the CPU as a device. Its artefact is the µGraph's text: compile() writes it, load() reads the tile
// parameters back out of it and runs them. Threads: as device.h says.
#include <dlpack/dlpack.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "runtime/device.h"
#include "runtime/host/host_kernel.h"
#include "runtime/host/host_program.h"
#include "runtime/host/host_program_trial.h"
#include "runtime/host/host_trial.h"
#include "runtime/host/parallel.h"
#include "search/graph/attention/attention_program.h"
#include "search/graph/ir/graph_text.h"

namespace gqa {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

std::int64_t cache_bytes(int name, std::int64_t fallback) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : fallback;
}

// Float32 operations a second of one core, a typical figure: lanes * 2 (multiply, add) * 2 units * clock.
double flops_a_core(const std::string& variant) {
  if (variant == "amx") return 6e11;  // the matrix unit, with what surrounds it
  const double lanes = variant == "avx512" ? 16 : variant == "avx2" ? 8 : 4;
  return lanes * 4 * 2.8e9 * 0.7;
}

DeviceSpec describe(int threads) {
  DeviceSpec spec;
  const std::string variant = tile_kernels().name;
  spec.kind = DeviceKind::kHost;
#if defined(__x86_64__)
  spec.arch = "x86-64-" + variant;
#elif defined(__aarch64__)
  spec.arch = "aarch64-" + variant;
#else
  spec.arch = variant;
#endif
  spec.sms = threads;
  spec.smem_per_block = static_cast<int>(cache_bytes(_SC_LEVEL2_CACHE_SIZE, kMiB));
  spec.l2_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 8 * kMiB);
  spec.tensor_flops = flops_a_core(variant) * threads;
  spec.memory_bandwidth = std::min(10e9 * threads, 200e9);
  return spec;
}

// What the thread plan of an attention program says.
Status candidate_of(const std::string& program, Candidate* candidate) {
  KernelGraph graph;
  if (Status status = parse(program, &graph); !status.ok()) return status;
  const BlockGraph* block = graph.nodes().empty() ? nullptr : graph.nodes().front().block.get();
  if (block == nullptr) return {Code::kInternal, "the stored µGraph has no kernel, expected one of attention"};
  return parse(to_text(block->threads), candidate);
}

class HostDevice final : public Device {
 public:
  explicit HostDevice(int threads) : spec_(describe(threads)) {}

  const DeviceSpec& spec() const override { return spec_; }
  std::string compiler() const override { return "host 1"; }
  std::string timing_method() const override { return HostTrial::kMethod; }

  std::string source(const Problem& problem, const Candidate& candidate) const override {
    return to_text(attention_program(problem, candidate));
  }

  Status compile(const Problem& problem, const Candidate& candidate, Binary* binary) const override {
    binary->source = source(problem, candidate);
    return {};
  }

  // Launch parameters come from the caller, as on a GPU: one µGraph serves several.
  Status load(const Problem&, const Candidate& candidate, const Binary& binary,
              std::unique_ptr<Kernel>* kernel) override {
    Candidate stored;
    if (Status status = candidate_of(binary.source, &stored); !status.ok()) return status;
    if (kernel_text(stored) != kernel_text(candidate))
      return {Code::kInternal, "the stored µGraph is of '" + kernel_text(stored) + "', but '" + kernel_text(candidate) +
                                   "' was to be loaded"};
    Candidate runs = stored;
    runs.splits = candidate.splits;
    runs.head_swizzle = candidate.head_swizzle;
    *kernel = std::make_unique<HostKernel>(runs, spec_.sms);
    return {};
  }

  Status make_trial(const Problem& problem, std::unique_ptr<Trial>* trial) override {
    *trial = std::make_unique<HostTrial>(problem, spec_);
    return {};
  }

  std::string program_source(const PlannedKernel& kernel) const override { return to_text(kernel.graph); }

  Status compile_program(const PlannedKernel& kernel, Binary* binary) const override {
    binary->source = program_source(kernel);
    return {};
  }

  Status load_program(const KernelPlan& plan, const std::vector<Binary>& kernels,
                      std::unique_ptr<LoadedProgram>* program) override {
    bool same = plan.kernels.size() == kernels.size();
    for (std::size_t at = 0; same && at < kernels.size(); ++at)
      same = kernels[at].source == program_source(plan.kernels[at]);
    if (!same)
      return {Code::kInternal, "the " + std::to_string(kernels.size()) + " stored µGraphs of a program are not its " +
                                   std::to_string(plan.kernels.size()) + " kernels: expected the text of each"};
    std::unique_ptr<HostProgram> loaded;
    Status status = HostProgram::load(plan, host_ops(), spec_.sms, &loaded);
    if (status.ok()) *program = std::move(loaded);
    return status;
  }

  Status make_program_trial(const KernelGraph& graph, std::unique_ptr<ProgramTrial>* trial) override {
    return HostProgramTrial::make(graph, spec_, trial);
  }

  bool owns(int dl_device_type, int) const override {
    return dl_device_type == kDLCPU || dl_device_type == kDLCUDAHost;
  }

 private:
  const DeviceSpec spec_;
};

}  // namespace

Status open_host_device(int threads, std::unique_ptr<Device>* device) {
  *device = std::make_unique<HostDevice>(threads > 0 ? threads : usable_threads());
  return {};
}

}  // namespace gqa
