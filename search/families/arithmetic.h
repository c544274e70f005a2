// arithmetic.h: which candidates round alike, so that tests of exactness leave none of them out.
// Owns: arithmetic(), the name of how a candidate computes: its family, the form of its softmax, how its exponentials
// are made, whether parts of a row are joined; and a candidate of each, with the smallest and the largest key tile.
// Never: knows a family's field, or says how exact one is.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "search/families/space.h"

namespace gqa {

// "warpgroup ones_column stream_k", "split joined": of what rounds a score, a weight or a sum, and of nothing else.
std::string arithmetic(const Candidate& candidate);

struct ArithmeticExample {
  std::string arithmetic;
  Candidate candidate;
};

// Each arithmetic that the space offers, by name: its candidates with the fewest and with the most keys a step; one
// where these are as many. The first of several by Candidate order, so that neighbouring problems share kernels.
std::vector<ArithmeticExample> arithmetic_examples(const Space& space);

}  // namespace gqa
