// device_spec.cc: see device_spec.h. The table holds a typical card of each architecture; its rates are what a good
// kernel reaches, not what a data sheet says.
#include "search/device_spec.h"

#include <iterator>

namespace gqa {
namespace {

struct ArchRow {
  std::string_view arch;
  int compute_capability, sms, smem_per_block, smem_per_sm, threads_per_sm;
  std::int64_t l2_bytes;
  double tensor_flops, memory_bandwidth;
  int memory_gb_per_s, clock_mhz;
  double wgmma_flops = 0;
};

constexpr int kKiB = 1024;
constexpr std::int64_t kMiB = 1 << 20;

constexpr ArchRow kArchs[] = {
    {"sm_80", 80, 108, 163 * kKiB, 164 * kKiB, 2048, 40 * kMiB, 300e12, 1.75e12, 2039, 1410},          // A100
    {"sm_86", 86, 84, 99 * kKiB, 100 * kKiB, 1536, 6 * kMiB, 140e12, 0.6e12, 696, 1740},               // A40
    {"sm_87", 87, 16, 163 * kKiB, 164 * kKiB, 1536, 4 * kMiB, 40e12, 0.18e12, 205, 1300},              // Orin
    {"sm_89", 89, 142, 99 * kKiB, 100 * kKiB, 1536, 96 * kMiB, 340e12, 0.76e12, 864, 2520},            // L40S
    {"sm_90a", 90, 132, 227 * kKiB, 228 * kKiB, 2048, 60 * kMiB, 600e12, 4.2e12, 4917, 1980, 990e12},  // H200
    {"sm_100a", 100, 148, 227 * kKiB, 228 * kKiB, 2048, 126 * kMiB, 700e12, 6.8e12, 7672, 1965},       // B200
    {"sm_103a", 103, 148, 227 * kKiB, 228 * kKiB, 2048, 126 * kMiB, 700e12, 6.8e12, 7672, 1965},       // B300
    {"sm_120a", 120, 170, 99 * kKiB, 100 * kKiB, 1536, 96 * kMiB, 210e12, 1.55e12, 1792, 2407},        // RTX 5090
};

DeviceSpec spec_of(const ArchRow& row) {
  DeviceSpec spec;
  spec.arch = row.arch;
  spec.compute_capability = row.compute_capability;
  spec.sms = row.sms;
  spec.smem_per_block = row.smem_per_block;
  spec.smem_per_sm = row.smem_per_sm;
  spec.threads_per_sm = row.threads_per_sm;
  spec.l2_bytes = row.l2_bytes;
  spec.tensor_flops = row.tensor_flops;
  spec.wgmma_flops = row.wgmma_flops;
  spec.memory_bandwidth = row.memory_bandwidth;
  spec.memory_gb_per_s = row.memory_gb_per_s;
  spec.clock_mhz = row.clock_mhz;
  return spec;
}

}  // namespace

std::string DeviceSpec::identity() const {
  const bool host = kind == DeviceKind::kHost;
  std::string text = std::string(host ? "host " : "cuda ") + arch + (host ? " threads=" : " sms=") +
                     std::to_string(sms) + (host ? " l2=" : " smem=") + std::to_string(smem_per_block);
  if (!host) text += "/" + std::to_string(smem_per_sm);
  text += (host ? " llc=" : " l2=") + std::to_string(l2_bytes);
  if (memory_gb_per_s != 0) text += " mem=" + std::to_string(memory_gb_per_s) + "GB/s";
  if (clock_mhz != 0) text += " clock=" + std::to_string(clock_mhz) + "MHz";
  return text;
}

std::optional<DeviceSpec> DeviceSpec::for_arch(std::string_view arch) {
  for (const ArchRow& row : kArchs) {
    if (row.arch == arch || row.arch == std::string(arch) + "a") return spec_of(row);
  }
  return std::nullopt;
}

std::vector<std::string> DeviceSpec::known_archs() {
  std::vector<std::string> archs;
  for (const ArchRow& row : kArchs) archs.emplace_back(row.arch);
  return archs;
}

}  // namespace gqa
