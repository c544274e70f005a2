// keys.h: what kernels and winners are kept under.
// Owns: winner_key and kernel_key, of attention and of graphs. Change what a device compiles with, how it times or how
// code is generated, and old rows are simply not found.
// Never: holds a path, a product name or a driver version.
// Threads: pure functions.
#pragma once

#include <string>

#include "cache/store.h"
#include "runtime/device.h"
#include "search/graph/ir/canonical.h"

namespace gqa {

cache::WinnerKey winner_key(const Device& device, const Problem& problem);
std::string kernel_key(const Device& device, const Problem& problem, const Candidate& candidate);

// A graph's signature is "graph " and its digest; " config=..." follows where one was asked for.
inline constexpr std::string_view kGraphSignature = "graph ";
cache::WinnerKey winner_key(const Device& device, const Digest& graph, const std::string& config);
std::string kernel_key(const Device& device, const PlannedKernel& kernel);

}  // namespace gqa
