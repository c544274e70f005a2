// full_run.h: what a run of the GPU's tests covers.
// Owns: the two answers: with GQA_FULL_RUN set all head dims are compiled, without it three.
// Never: asked by tests that need no GPU: those have verdicts (tests/harness/verdicts.h).
// Threads: any.
#pragma once

#include <cstdlib>

namespace gqa::test {

inline bool full_run() { return std::getenv("GQA_FULL_RUN") != nullptr; }

inline bool in_this_run(int head_dim) { return full_run() || head_dim == 64 || head_dim == 128 || head_dim == 256; }

constexpr const char* kFullRunOnly = "in full runs only: GQA_FULL_RUN=1 tools/test --gpu";

}  // namespace gqa::test
