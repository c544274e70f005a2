// graph_text.h: a kernel graph as text that reads back as an equal graph.
// Owns: the text form.
// Never: anything else.
// Threads: pure functions.
//
//   graph 1
//   q = input f16[2,256,64]
//   k = input f16[2,64,4096]
//   v = input f16[2,4096,64]
//   a = matmul(q, k)
//   s = sum(a) dim=2
//   custom(q, k, v) grid=[4,2] steps=64 threads=flash m=64 n=64
//     before:
//     q_tile = load(0) grid=[1/64,0/1]
//     loop:
//     k_tile = load(1) grid=[-,0/1] loop=2/64
//     scores = matmul(q_tile, k_tile)
//     ...
//     after:
//     d = div(rows, total)
//     store(d) -> o f16[2,256,64] grid=[1/64,0/1]
//   end
//   outputs o
//
// A line a tensor or node, in the order they were added. "1/64": dimension 1 in tiles of 64; "-": not cut.
// strides=[...] follow a tensor that has its own; the last line is left out where no output was marked.
#pragma once

#include <string>
#include <string_view>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

std::string to_text(const KernelGraph& graph);
// Errors name line, what was found and what was expected, and leave *graph as it was.
Status parse(std::string_view text, KernelGraph* graph);

}  // namespace gqa
