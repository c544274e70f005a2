// graph_json.h: a kernel graph as JSON that reads back as an equal graph.
// Owns: the JSON form: {"version": 1, "nodes": [...], "outputs": [names]}. Inputs are nodes with "op": "input"; a
// custom operator holds "grid", "steps", "threads" (as text), "block" (its nodes) and "stores".
// Never: throws.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

std::string to_json(const KernelGraph& graph);
// Errors say what was found and what was expected, and leave *graph as it was.
Status parse_json(std::string_view text, KernelGraph* graph);

}  // namespace gqa
