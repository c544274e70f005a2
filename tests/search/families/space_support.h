// space_support.h: what tests of the space, its limits and its ranking begin with.
// Owns: the devices, shapes of every kind, and why a candidate is refused.
// Never: asserts.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search/families/space.h"
#include "tests/search/from_text.h"

namespace gqa {

inline DeviceSpec h200() { return *DeviceSpec::for_arch("sm_90a"); }

inline DeviceSpec host() {
  DeviceSpec spec;
  spec.kind = DeviceKind::kHost;
  spec.arch = "x86-64-avx512";
  spec.sms = 16;
  spec.smem_per_block = 2 << 20;
  spec.l2_bytes = 64 << 20;
  spec.tensor_flops = 1.5e12;
  spec.memory_bandwidth = 2e11;
  return spec;
}

// Why a candidate is refused: by itself, or for the problem on the device. "": it is not.
inline std::string reason(std::string_view problem, std::string_view text, const DeviceSpec& device = h200()) {
  Candidate candidate;
  const Status status = parse(text, &candidate);
  return status.ok() ? reject_reason(problem_of(problem), candidate, device) : status.message();
}

inline constexpr const char* kShapes[] = {
    "hq=32,hk=8,sq=4096,d=128,causal",
    "hq=32,hk=8,sq=16384,d=128,causal",
    "hq=32,hk=32,sq=16384,d=64",
    "hq=8,sq=16384,d=256,causal",
    "hq=16,sq=100,sk=7,d=80,causal",
    "b=3,hq=7,hk=1,sq=33,sk=2000,d=96,dtype=f16",
    "hq=128,hk=1,sq=2,sk=5000,d=192,dv=128,causal",
    "hq=32,hk=8,sq=1,sk=8192,d=128",
    "b=128,hq=64,hk=8,sq=1,sk=8192,d=128",
    "hq=1,sq=1,sk=1,d=32,align=2",
    "b=70000,hq=5,sq=1,sk=16,d=256",
    "b=2,hq=6,hk=1,sq=1048576,sk=1048576,d=112,causal",
    "b=4,hq=32,hk=8,sq=512,sk=8192,d=128,causal,lens,page=16",
    "b=4,hq=8,sq=300,sk=900,d=64,lens,page=1",
};

inline std::vector<DeviceSpec> devices() {
  std::vector<DeviceSpec> found = {host()};
  for (const std::string& arch : DeviceSpec::known_archs()) found.push_back(*DeviceSpec::for_arch(arch));
  return found;
}

}  // namespace gqa
