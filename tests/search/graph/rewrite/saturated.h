// saturated.h: what the rules make of a graph, in one line.
// Owns: Saturated and saturated(). Never: asserts. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "search/graph/rewrite/rewrite.h"
#include "tests/search/graph/graphs.h"

namespace gqa {

struct Saturated {
  std::vector<Rewritten> graphs;
  SearchReport report;
};

inline Saturated saturated(const std::string& text, std::size_t most = 64) {
  Saturated result;
  AbstractSpace abstract;
  result.graphs = saturate(graph_of(text), most, &abstract, &result.report);
  return result;
}

}  // namespace gqa
