// tile_codegen.h: a kernel that no attention family runs, as CUDA source: a custom operator's block graph on tiles, or
// a plain operator. Owns: the text: plan and graph as a banner, buffers, passes, the entry point; how it is launched.
// Never: compiles or asks a device: pure functions, held by golden tests.
// Threads: pure functions.
//
// The entry point takes a pointer an argument, first the graph's inputs(), then its outputs(), each aligned to 16
// bytes; where thread blocks share a loop, then the memory for their partial sums and the counters of their arrivals,
// which are zero before and after a launch. It runs on a one-dimensional grid. Shapes and strides are in the source.
#pragma once

#include <cstdint>
#include <string>

#include "search/graph/ir/kernel_graph.h"
#include "search/status.h"

namespace gqa {

inline constexpr const char* kTileEntryPoint = "gqa_tile";

struct TileLaunch {
  std::int64_t blocks = 0;
  int threads = 0;
  std::int64_t shared_memory = 0;  // dynamic, bytes
  std::int64_t partial_floats = 0, counters = 0;
};

// Whether there is a tile kernel for the graph's one operator under its thread plan. Errors name what does not fit.
Status check_tile(const KernelGraph& kernel);

// Both want a kernel that check_tile() passes; the source of another says why and does not compile.
std::string tile_source(const KernelGraph& kernel);
TileLaunch tile_launch(const KernelGraph& kernel);

}  // namespace gqa
