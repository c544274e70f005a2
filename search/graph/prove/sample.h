// sample.h: a graph at a few of its rows: small enough to compute, with the same numbers as the whole has there.
// Owns: which dimensions can be sampled (those that no operator sums or normalises along, wherever they run), which of
// their indices are looked at, and the graph of those alone.
// Never: gathers values or evaluates.
// Threads: pure functions.
#pragma once

#include <vector>

#include "search/graph/ir/kernel_graph.h"
#include "search/graph/prove/operators.h"

namespace gqa {

struct SampledGraph {
  KernelGraph graph;
  std::vector<Place> places;                          // one a node: EvaluateOptions::places
  std::vector<std::vector<Indices>> inputs, outputs;  // one a tensor, in it one a dimension: the whole's indices
  bool whole = true;                                  // all of them
};

// A sample whose evaluation costs about `most` multiply-adds (an exponential counts as several): batches are thinned
// out before rows and columns, and of each at least kFewestSampled are left, whatever that costs. Equal graphs and
// bounds, equal samples.
inline constexpr std::int64_t kFewestSampled = 4;
SampledGraph sample(const KernelGraph& graph, double most);

// `count` of the indices below `size`, ascending, or all: the first and the last, one in each 16 of the first and of
// the last 64, both sides of the first multiple of 64, and the rest one in each of equal parts, at no fixed distance.
Indices sample_indices(std::int64_t size, std::int64_t count);

}  // namespace gqa
