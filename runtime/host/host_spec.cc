// host_spec.cc: see host_spec.h.
#include "runtime/host/host_spec.h"

#include <algorithm>
#include <string>

namespace gqa {
namespace {

// Float32 operations a second of one core, a typical figure: lanes * 2 (multiply, add) * 2 units * clock.
double flops_a_core(std::string_view isa) {
  if (isa == "amx") return 6e11;  // the matrix unit, with what surrounds it
  const double lanes = isa == "avx512" ? 16 : isa == "avx2" ? 8 : 4;
  return lanes * 4 * 2.8e9 * 0.7;
}

}  // namespace

DeviceSpec host_spec(std::string_view isa, int threads, const HostCaches& caches) {
  DeviceSpec spec;
  spec.kind = DeviceKind::kHost;
#if defined(__x86_64__)
  spec.arch = "x86-64-" + std::string(isa);
#elif defined(__aarch64__)
  spec.arch = "aarch64-" + std::string(isa);
#else
  spec.arch = isa;
#endif
  spec.sms = threads;
  spec.smem_per_block = static_cast<int>(caches.l2);
  spec.l2_bytes = caches.last_level;
  spec.tensor_flops = flops_a_core(isa) * threads;
  spec.memory_bandwidth = std::min(10e9 * threads, 200e9);
  return spec;
}

}  // namespace gqa
