// full_run.h: what a run of the tests covers.
// Owns: the two answers: a full run (tools/test --full, which sets GQA_FULL_RUN) plants every fault and compiles every
// head dim; any other plants one fault a mechanism and compiles three head dims, one kernel a tile.
// Never: decides when a run is full: tools/test does.
// Threads: any.
#pragma once

#include <cstdlib>

namespace gqa::test {

inline bool full_run() { return std::getenv("GQA_FULL_RUN") != nullptr; }

inline bool in_this_run(int head_dim) { return full_run() || head_dim == 64 || head_dim == 128 || head_dim == 256; }

constexpr const char* kFullRunOnly = "in full runs only: tools/test --full";

}  // namespace gqa::test
