// gqa_graph_internal.h: what a gqa_graph is inside the C interface.
// Owns: gqa_graph_s: the graph, the serial number by which its values are told from another's, the last text handed
// out.
// Never: leaves runtime/'s C files.
// Threads: one graph, one thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/api/gqa_graph.h"
#include "search/graph/ir/kernel_graph.h"

struct gqa_graph_s {
  gqa::KernelGraph graph;
  std::uint32_t serial;  // never 0
  struct Texts {
    std::string text, json, dot, hash;
  } texts = {};  // last handed out, one of each kind, so that two kinds may be held at once
};

namespace gqa {

inline Status null_graph() { return {Code::kNullArgument, "graph is NULL, expected one that gqa_graph_create made"}; }

// Sizes and dtype as gqa_graph_describe and gqa_program_describe_* hand them out; each pointer may be null.
void describe(const TensorSpec& spec, int* rank, std::int64_t* dims, DLDataType* dtype);

}  // namespace gqa
