// keys.cc: see keys.h.
#include "runtime/workload/keys.h"

#include <vector>

#include "jit/closure.h"
#include "search/graph/tile/kernel_plan.h"
#include "search/version.h"

namespace gqa {
namespace {

cache::WinnerKey winner_key_of(const Device& device, std::string signature) {
  return {std::move(signature), device.spec().identity(),
          "search " + std::to_string(kSearchVersion) + ", " + device.timing_method()};
}

}  // namespace

cache::WinnerKey winner_key(const Device& device, const Problem& problem) {
  return winner_key_of(device, to_text(signature(problem)));
}

std::string kernel_key(const Device& device, const Problem& problem, const Candidate& candidate) {
  return kernel_key(device, device.source(problem, candidate));
}

cache::WinnerKey winner_key(const Device& device, const Digest& graph, const std::string& config) {
  return winner_key_of(device,
                       std::string(kGraphSignature) + to_text(graph) + (config.empty() ? "" : " config=" + config));
}

std::string kernel_key(const Device& device, const PlannedKernel& kernel) {
  return kernel_key(device, device.program_source(kernel));
}

std::string kernel_key(const Device& device, std::string_view source) {
  cache::KernelRow row;
  name_kernel(device, source, &row);
  return row.key;
}

void name_kernel(const Device& device, std::string_view source, cache::KernelRow* row) {
  row->closure = closure_hash(source);
  row->arch = device.spec().arch;
  row->compiler = device.compiler();
  row->key = cache::kernel_key(row->closure, row->arch, row->compiler);
}

std::string_view family_of(const PlannedKernel& kernel) {
  return kernel.family ? name(kernel.family->candidate.skeleton) : kBlockFamily;
}

std::string families_of(const Candidate& candidate) {
  const std::string_view family[] = {name(candidate.skeleton)};
  return families_text(family);
}

std::string families_of(const KernelPlan& plan) {
  std::vector<std::string_view> families;
  for (const PlannedKernel& kernel : plan.kernels) families.push_back(family_of(kernel));
  return families_text(families);
}

std::string outdated(const cache::WinnerRow& row) { return outdated_families(row.families); }
bool up_to_date(const cache::WinnerRow& row) { return outdated(row).empty(); }

}  // namespace gqa
