// tile.cc: see tile.h.
#include "runtime/host/tile.h"

namespace gqa {

std::size_t tile_scratch(const Problem& problem, const Candidate& candidate) {
  const auto m = static_cast<std::size_t>(candidate.tile_m), n = static_cast<std::size_t>(candidate.tile_n);
  const auto d = static_cast<std::size_t>(problem.head_dim), dv = static_cast<std::size_t>(problem.head_dim_v);
  return m * d + n * (d + dv) + m * n + m * dv + 2 * m;
}

const TileKernels& tile_kernels() {
#if defined(__x86_64__)
  static const TileKernels& best = [&]() -> const TileKernels& {
    const bool f16c = __builtin_cpu_supports("f16c") != 0 && __builtin_cpu_supports("fma") != 0;
    if (f16c && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
      return avx512::kKernels;
    return f16c && __builtin_cpu_supports("avx2") ? avx2::kKernels : baseline::kKernels;
  }();
  return best;
#else
  return baseline::kKernels;
#endif
}

}  // namespace gqa
