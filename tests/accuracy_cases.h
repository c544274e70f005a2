// accuracy_cases.h: the shapes and inputs on which every arithmetic of the space is held against FlashAttention-2's.
// Owns: the list; search_tests holds it against the space, so that no arithmetic is left out, and the GPU tests
// measure. Never: knows a candidate. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/full_run.h"

namespace gqa::test {

// The deviations of q; those of k and v are 1.
struct AccuracyCase {
  std::string problem;
  std::vector<int> deviations;
};

inline std::string dim(int head_dim) { return ",d=" + std::to_string(head_dim); }

// Whole problems of one head dim: lengths, heads of their own and shared ones, both types, with and without a mask.
inline std::vector<AccuracyCase> prefill_cases(int head_dim, bool full) {
  const std::vector<int> lengths = full ? std::vector<int>{512, 2048, 4096, 16384} : std::vector<int>{2048};
  const std::vector<int> deviations = full ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1, 4};
  const std::vector<std::string> heads =
      full ? std::vector<std::string>{"hq=8,hk=8", "hq=8,hk=1"} : std::vector<std::string>{"hq=8,hk=8"};
  std::vector<AccuracyCase> cases;
  for (const int length : lengths)
    for (const std::string& head : heads)
      for (const char* type : {",dtype=bf16", ",dtype=f16"})
        for (const char* mask : {"", ",causal"})
          cases.push_back({head + ",sq=" + std::to_string(length) + dim(head_dim) + type + mask, deviations});
  // The arithmetics that only shorter and longer walks have: one of each in a short run.
  if (!full && head_dim == 64)
    for (const char* rest :
         {"sq=1000,dtype=f16", "sq=8192,dtype=bf16", "sq=8192,dtype=f16", "sq=8192,dtype=f16,causal"})
      cases.push_back({"hq=4,hk=4,d=64," + std::string(rest), deviations});
  return cases;
}

inline std::vector<AccuracyCase> other_head_dim_cases(bool full) {
  std::vector<AccuracyCase> cases;
  for (const int head_dim : full ? std::vector<int>{32, 80, 96, 112, 192} : std::vector<int>{32, 192})
    for (const char* type : {",dtype=bf16", ",dtype=f16"})
      for (const char* mask : {"", ",causal"})
        cases.push_back({"hq=8,hk=2,sq=4096" + dim(head_dim) + type + mask, {1, 4}});
  return cases;
}

// Few queries on long caches, whose sequences may have lengths of their own.
inline std::vector<AccuracyCase> cached_cases(bool full) {
  std::vector<AccuracyCase> cases;
  for (const int head_dim : full ? std::vector<int>{64, 128, 256} : std::vector<int>{128})
    for (const char* type : {",dtype=bf16", ",dtype=f16"})
      for (const char* sizes : {"b=64,hq=8,hk=8,sq=1,sk=16384", "b=8,hq=64,hk=8,sq=1,sk=4096,lens",
                                "b=8,hq=16,hk=2,sq=16,sk=16384,causal", "hq=8,hk=1,sq=128,sk=16384,causal"})
        cases.push_back({sizes + dim(head_dim) + type, full ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1, 4}});
  return cases;
}

// float32, whose products are sums of terms: prefill, and a cache in parts.
inline std::vector<AccuracyCase> float32_cases(bool full) {
  std::vector<AccuracyCase> cases;
  const std::vector<int> deviations = full ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1, 8};
  for (const int head_dim : full ? std::vector<int>{16, 32, 64, 80, 128, 256} : std::vector<int>{64, 128})
    for (const char* sizes : {"hq=8,hk=2,sq=2048", "hq=8,hk=2,sq=2048,causal", "b=8,hq=32,hk=8,sq=1,sk=4096",
                              "b=8,hq=32,hk=8,sq=1,sk=4096,lens"})
      cases.push_back({sizes + dim(head_dim) + ",dtype=f32", deviations});
  return cases;
}

inline std::vector<AccuracyCase> accuracy_cases(bool full) {
  std::vector<AccuracyCase> all = cached_cases(full);
  const auto add = [&](const std::vector<AccuracyCase>& more) { all.insert(all.end(), more.begin(), more.end()); };
  for (const int head_dim : {64, 128, 256}) add(prefill_cases(head_dim, full));
  add(other_head_dim_cases(full));
  add(float32_cases(full));
  return all;
}

}  // namespace gqa::test
