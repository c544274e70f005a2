// tile_plain.h: a plain operator, other than a product, as the text of its kernel: an element a thread, or a row a
// warp.
// Owns: plain_body(), plain_blocks().
// Never: tiles anything; these kernels are bound by memory.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

inline constexpr int kPlainThreads = 256;

std::string plain_body(const KernelGraph& kernel);
std::int64_t plain_blocks(const KernelGraph& kernel);

}  // namespace gqa
