// tile.cc: see tile.h.
#include "runtime/host/attention/tile.h"

#include <algorithm>

#include "runtime/host/host_limits.h"
#include "search/families/resources.h"
#include "search/problem/mask.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gqa {
namespace {

#if defined(__x86_64__)
// By CPUID: Clang 14's builtin does not know the name. Whether the registers' state is kept, AVX2's check says.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool runs_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }
#endif

#if defined(GQA_HOST_AVX512)
bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

// AMX-TILE, AMX-BF16 and AVX512-BF16 by CPUID; and Linux gives the tile registers' state only to a process that asks.
bool runs_amx() {
  constexpr unsigned kBf16 = 1U << 22, kTile = 1U << 24, kAvx512Bf16 = 1U << 5;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!runs_avx512() || __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kBf16) == 0 || (edx & kTile) == 0) return false;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0 || (eax & kAvx512Bf16) == 0) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

// Whole blocks of 32, as the AMX build pads.
std::size_t padded(int value) { return (static_cast<std::size_t>(value) + 31) / 32 * 32; }

}  // namespace

SeenByRow seen_by_row(const Tile& tile, int row) {
  const KeyRange seen = seen_keys(tile.call->problem, tile.sequence.size, row / tile.pack);
  return {seen.first, seen.end};
}

std::size_t tile_scratch(const Problem& problem, const Candidate& candidate) {
  const CandidateShape shape = shape_of(candidate);
  const std::size_t m = padded(shape.rows), n = padded(shape.keys);
  const std::size_t d = padded(problem.head_dim), dv = padded(problem.head_dim_v);
  // Queries, keys, values, scores, probabilities in 16 bits, accumulated rows, four words of state a row, alignment.
  return m * d + n * (d + dv) + m * n + m * n / 2 + m * dv + 4 * m + 16;
}

std::vector<const TileKernels*> usable_tile_kernels() {
  std::vector<const TileKernels*> usable = {&baseline::kKernels};
#if defined(__x86_64__)
  if (runs_avx2()) usable.push_back(&avx2::kKernels);
#endif
#if defined(GQA_HOST_AVX512)
  if (runs_avx512()) usable.push_back(&avx512::kKernels);
  if (runs_amx()) usable.push_back(&amx::kKernels);
#endif
  const auto forbidden = [](const TileKernels* kernels) { return !host_limits().allow(kernels->name); };
  usable.erase(std::remove_if(usable.begin(), usable.end(), forbidden), usable.end());
  return usable;
}

const TileKernels& tile_kernels() {
  static const TileKernels& best = *usable_tile_kernels().back();
  return best;
}

}  // namespace gqa
