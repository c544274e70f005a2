// keys.cc: what kernels and winners are kept under.
// Owns: winner_key and kernel_key. Change what a device compiles with, how it times or how code is generated, and old
// rows are simply not found.
// Never: holds a path, a product name or a driver version.
// Threads: pure functions.
#include "jit/embedded.h"
#include "runtime/tuner.h"

namespace gqa {

cache::WinnerKey winner_key(const Device& device, const Problem& problem) {
  return {to_text(signature(problem)), device.spec().identity(), device.compiler(), generator_fingerprint(),
          device.timing_method()};
}

std::string kernel_key(const Device& device, const Problem& problem, const Candidate& candidate) {
  // Lengths before texts: no two sets of parts run together to the same bytes.
  std::string all;
  for (const std::string& part : {device.source(problem, candidate), std::string(generator_fingerprint()),
                                  device.spec().arch, device.compiler()}) {
    all += std::to_string(part.size()) + ":" + part;
  }
  return cache::hash128(all);
}

}  // namespace gqa
