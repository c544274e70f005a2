// agreement.h: whether a candidate's kernel, compiled for the emulator, computes a problem as float64 does.
// Owns: the steps from two texts to that answer. Never: plants a fault; headers are given. Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/simt/kernels/attention_launch.h"
#include "tests/simt/kernels/judged.h"

namespace gqa::simt {

// A case of a kernel's, under every schedule.
inline ::testing::AssertionResult attention_agrees(const Kernel& kernel, const Candidate& candidate,
                                                   test::AttentionCase* attention) {
  const Status status = run_attention(kernel, candidate, attention);
  if (!status.ok()) return ::testing::AssertionFailure() << status.message();
  return test::matches_float64(*attention);
}

// Under every schedule. `slots`: the chain's numbers, where they are not the case's own.
inline ::testing::AssertionResult agrees_with_float64(const std::string& problem_text,
                                                      const std::string& candidate_text,
                                                      const std::vector<EmbeddedHeader>& headers = embedded_headers(),
                                                      const ScoreSlots* slots = nullptr) {
  const Problem problem = test::problem_of(problem_text);
  Candidate candidate;
  if (!parse(candidate_text, &candidate).ok()) return ::testing::AssertionFailure() << candidate_text;
  return judged({attention_source(problem, candidate), headers}, [&](const Kernel& kernel) {
    test::AttentionCase attention(problem);
    if (slots != nullptr) attention.call.slots = *slots;
    return attention_agrees(kernel, candidate, &attention);
  });
}

}  // namespace gqa::simt
