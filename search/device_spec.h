// device_spec.h: what search needs to know of a device.
// Owns: DeviceSpec, the numbers the pruning and the cost model use and the identity a cache row is bound to.
// Never: asks a driver; runtime/ fills it from a live device, for_arch from a table for compile-only work.
// Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gqa {

enum class DeviceKind : std::uint8_t { kCuda, kHost };

constexpr int kReservedSmemPerCta = 1024;  // bytes of shared memory the driver takes for each CTA

struct DeviceSpec {
  DeviceKind kind = DeviceKind::kCuda;
  std::string arch;            // "sm_90a" with its suffix; host: "x86-64-avx512" and the like
  int compute_capability = 0;  // 10 * major + minor; host: 0
  int sms = 0;                 // host: the threads used, each of which stands for one
  int smem_per_block = 0;      // bytes a block can opt in to; host: L2 bytes a core
  int smem_per_sm = 0;         // bytes; host: 0
  int registers_per_sm = 65536;
  int threads_per_sm = 2048;
  std::int64_t l2_bytes = 0;    // host: last-level cache
  double tensor_flops = 0;      // dense 16-bit FLOP/s of mma.sync at its peak (host: vector units), an estimate
  double wgmma_flops = 0;       // the same of wgmma; 0 where the architecture has none
  double memory_bandwidth = 0;  // bytes/s, an estimate
  // As the driver gives them: two cards that agree in all of the above may differ here, and in what is fastest. 0 where
  // it does not say; host: 0.
  int memory_gb_per_s = 0;  // the memory's clock times its bus
  int clock_mhz = 0;        // the SM clock's maximum
  // The driver's version, kept beside what was measured with it, and no part of the identity; "" where there is none.
  std::string driver;

  // What a winner is bound to: arch, SM count, shared memory and L2 sizes, rates of memory and clock; never the
  // product's name. A rate of 0 is left out.
  std::string identity() const;

  // A typical device of an architecture ("sm_80", "sm_90a", ...), for compile-only work; nullopt if unknown. From
  // compute capability 9.0 on cards ask for the `a` form: it stands for the plain one, too.
  static std::optional<DeviceSpec> for_arch(std::string_view arch);
  static std::vector<std::string> known_archs();
};

}  // namespace gqa
