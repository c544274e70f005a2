// estimate.h: what a block graph needs of a device, and about how long a program takes.
// Owns: BlockNeeds; seconds(), a simple model: bytes moved, operations, rounds of blocks, kernels launched.
// Never: measures; who runs the best few does.
// Threads: pure functions.
#pragma once

#include <optional>

#include "search/device_spec.h"
#include "search/graph/ir/kernel_graph.h"
#include "search/graph/search_report.h"

namespace gqa {

struct BlockNeeds {
  std::int64_t shared_bytes = 0;    // tiles loaded; those of the loop twice, so that the next comes while this is used
  std::int64_t register_bytes = 0;  // accumulators and the largest intermediate tiles, in float32
};

BlockNeeds needs_of(const KernelGraph& graph, const KernelNode& node);  // a custom operator

// Why the device cannot run some operator of the graph; nothing: it can.
std::optional<Reason> misfit(const KernelGraph& graph, const DeviceSpec& device);

double seconds(const KernelGraph& graph, const DeviceSpec& device);

}  // namespace gqa
