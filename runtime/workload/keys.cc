// keys.cc: see keys.h.
#include "runtime/workload/keys.h"

#include "jit/embedded.h"

namespace gqa {
namespace {

cache::WinnerKey winner_key_of(const Device& device, std::string signature) {
  return {std::move(signature), device.spec().identity(), device.compiler(), generator_fingerprint(),
          device.timing_method()};
}

// Lengths before texts: no two sets of parts run together to the same bytes.
std::string kernel_key_of(const Device& device, const std::string& source) {
  std::string all;
  for (const std::string& part :
       {source, std::string(generator_fingerprint()), device.spec().arch, device.compiler()}) {
    all += std::to_string(part.size()) + ":" + part;
  }
  return cache::hash128(all);
}

}  // namespace

cache::WinnerKey winner_key(const Device& device, const Problem& problem) {
  return winner_key_of(device, to_text(signature(problem)));
}

std::string kernel_key(const Device& device, const Problem& problem, const Candidate& candidate) {
  return kernel_key_of(device, device.source(problem, candidate));
}

cache::WinnerKey winner_key(const Device& device, const Digest& graph, const std::string& config) {
  return winner_key_of(device,
                       std::string(kGraphSignature) + to_text(graph) + (config.empty() ? "" : " config=" + config));
}

std::string kernel_key(const Device& device, const PlannedKernel& kernel) {
  return kernel_key_of(device, device.program_source(kernel));
}

}  // namespace gqa
