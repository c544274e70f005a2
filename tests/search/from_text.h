// from_text.h: problems and candidates from their text.
// Owns: both in a line.
// Never: asserts more than that a text parses.
// Threads: pure functions.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "search/families/candidate.h"
#include "search/problem/problem.h"

namespace gqa {

inline Problem problem_of(std::string_view text) {
  Problem problem;
  const Status status = parse(text, &problem);
  EXPECT_TRUE(status.ok()) << text << ": " << status.message();
  return problem;
}

inline Candidate candidate_of(std::string_view text) {
  Candidate candidate;
  const Status status = parse(text, &candidate);
  EXPECT_TRUE(status.ok()) << text << ": " << status.message();
  return candidate;
}

}  // namespace gqa
