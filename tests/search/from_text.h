// from_text.h: problems and candidates from their text.
// Owns: both in a line, and a candidate's text with some of its fields changed.
// Never: asserts more than that a text parses.
// Threads: pure functions.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
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

// The text of a candidate with other fields: "m=64 out=0".
inline std::string with_fields(std::string_view base, std::string_view changed) {
  std::string text;
  for (std::string_view left = base; !left.empty();) {
    const std::string_view word = left.substr(0, left.find(' '));
    left.remove_prefix(std::min(left.size(), word.size() + 1));
    const auto equals = word.find('=');
    const std::string key = equals == std::string_view::npos ? "" : " " + std::string(word.substr(0, equals + 1));
    if (key.empty() || (" " + std::string(changed)).find(key) == std::string::npos)
      text += (text.empty() ? "" : " ") + std::string(word);
  }
  return changed.empty() ? text : text + " " + std::string(changed);
}

}  // namespace gqa
