// agreement.h: whether a candidate's kernel, compiled for the emulator, computes a problem as float64 does.
// Owns: the steps from two texts to that answer. Never: plants a fault; headers are given. Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jit/codegen.h"
#include "tests/simt/kernels/attention_launch.h"

namespace gqa::simt {

// Under every schedule. `slots`: the chain's numbers, where they are not the case's own.
inline ::testing::AssertionResult agrees_with_float64(const std::string& problem_text,
                                                      const std::string& candidate_text,
                                                      const std::vector<EmbeddedHeader>& headers = embedded_headers(),
                                                      const ScoreSlots* slots = nullptr) {
  const Problem problem = test::problem_of(problem_text);
  Candidate candidate;
  if (!parse(candidate_text, &candidate).ok()) return ::testing::AssertionFailure() << candidate_text;
  std::string why;
  const auto kernel = Kernel::compile(attention_source(problem, candidate), kEntryPoint, &why, headers);
  if (kernel == nullptr) return ::testing::AssertionFailure() << why;
  test::AttentionCase attention(problem);
  if (slots != nullptr) attention.call.slots = *slots;
  if (Status s = run_attention(*kernel, candidate, &attention); !s.ok())
    return ::testing::AssertionFailure() << s.message();
  return test::matches_float64(attention);
}

}  // namespace gqa::simt
