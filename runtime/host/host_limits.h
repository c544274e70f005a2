// host_limits.h: the CPU as a lesser one, so that any machine can show what another would do.
// Owns: GQA_HOST_MAX_ISA and GQA_HOST_L2, what they may say, and the words of a refusal.
// Never: looks at the CPU; tile.cc and host_device.cc do, and stay within these limits.
// Threads: the environment is read once, at the first use.
#pragma once

#include <cstdint>
#include <string_view>

#include "search/status.h"

namespace gqa {

// The builds of the host's kernels, the least first.
inline constexpr std::string_view kHostIsas[] = {"baseline", "avx2", "avx512", "amx"};

struct HostLimits {
  std::string_view max_isa = kHostIsas[3];
  std::int64_t l2_bytes = 0;  // what a core is said to have; 0: what it has

  bool allow(std::string_view isa) const;
};

// max_isa, l2: the variables' texts; null: not set.
Status parse_host_limits(const char* max_isa, const char* l2, HostLimits* limits);

// This process's; no limits where the environment is wrong, which open_host_device() refuses.
const HostLimits& host_limits();
Status host_limits_status();

}  // namespace gqa
