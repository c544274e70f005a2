// nvrtc_support.h: the NVRTC of this machine, for tests that compile.
// Owns: finding it, and skipping by name where there is none.
// Threads: as Nvrtc.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "jit/nvrtc.h"

namespace gqa {

inline std::shared_ptr<const Nvrtc> nvrtc_or_null() {
  std::shared_ptr<const Nvrtc> nvrtc;
  return Nvrtc::load("", {}, &nvrtc).ok() ? nvrtc : nullptr;
}

}  // namespace gqa

#define REQUIRE_NVRTC(nvrtc)               \
  const auto nvrtc = gqa::nvrtc_or_null(); \
  if (nvrtc == nullptr) GTEST_SKIP() << "no NVRTC on this machine"
