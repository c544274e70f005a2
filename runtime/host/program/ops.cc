// ops.cc: see ops.h.
#include "runtime/host/program/ops.h"

#include <string_view>

#include "runtime/host/attention/tile.h"

namespace gqa {

namespace baseline {
extern const HostOps kOps;
}
namespace avx2 {
extern const HostOps kOps;
}
namespace avx512 {
extern const HostOps kOps;
}

namespace {

// variant: an instruction set that tile.cc found to run here. Null where it has no operators of its own.
const HostOps* ops_of(std::string_view variant) {
  if (variant == "baseline") return &baseline::kOps;
#if defined(__x86_64__)
  if (variant == "avx2") return &avx2::kOps;
#endif
#if defined(GQA_HOST_AVX512)
  if (variant == "avx512") return &avx512::kOps;
#endif
  return nullptr;
}

}  // namespace

std::vector<const HostOps*> usable_host_ops() {
  std::vector<const HostOps*> usable;
  for (const TileKernels* kernels : usable_tile_kernels()) {
    if (const HostOps* ops = ops_of(kernels->name)) usable.push_back(ops);
  }
  return usable;
}

const HostOps& host_ops() {
  static const HostOps& best = *usable_host_ops().back();
  return best;
}

}  // namespace gqa
