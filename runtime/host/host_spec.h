// host_spec.h: what the search is told of a CPU.
// Owns: a CPU's DeviceSpec of its instruction set, threads and caches, which need not be those of this machine.
// Never: asks the CPU; host_device.cc does.
// Threads: a pure function.
#pragma once

#include <cstdint>
#include <string_view>

#include "search/device_spec.h"

namespace gqa {

struct HostCaches {
  std::int64_t l2 = 0;          // bytes, of a core
  std::int64_t last_level = 0;  // bytes
};

// isa: a name of kHostIsas (host_limits.h).
DeviceSpec host_spec(std::string_view isa, int threads, const HostCaches& caches);

}  // namespace gqa
