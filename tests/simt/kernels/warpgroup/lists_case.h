// lists_case.h: a warpgroup kernel's answer on packed sequences or on a cache, under every schedule.
// Owns: the cases' form, faults planted in a kernel, the judgement by the naive loop.
// Never: chooses cases. Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/simt/kernels/cache_launch.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {

// A kernel and its sequences, with so many rows of nobody after each packed one.
struct ListsCase {
  const char *problem, *candidate;
  std::vector<std::int32_t> queries = {}, keys = {};
  int gap = 0;
  int sms = 1;
  bool heads_first = false;
  bool values_apart = false;  // packed keys are slots of a cache, whose values are further apart
};

inline std::ostream& operator<<(std::ostream& out, const ListsCase& c) {
  return out << c.problem << " | " << c.candidate;
}

struct Fault {
  const char* header = "";
  std::string from = "", to = "";
};

// Whether a kernel passes, with a fault in it where one is given.
inline ::testing::AssertionResult passes(const ListsCase& c, const Fault& fault = {}) {
  Problem problem;
  Candidate candidate;
  for (const Status& s : {parse(c.problem, &problem), parse(c.candidate, &candidate)})
    if (!s.ok()) return ::testing::AssertionFailure() << s.message();
  const KernelText text = {attention_source(problem, candidate), planted(fault.header, fault.from, fault.to)};
  return judged(text, [&](const Kernel& kernel) {
    test::Packing packing = {c.queries, c.gap};
    packing.in_slots = packing.values_apart = c.values_apart;
    test::CacheCase t(c.problem, c.keys, c.heads_first, packing);
    return cache_agrees(kernel, candidate, &t, c.sms);
  });
}

}  // namespace gqa::simt
