// served.h: which element types, masks, key layouts, lengths and score chains a family's kernels serve.
// Owns: Served, the sets that a family names, and the words of what refuses all else. What a family does not name it
// refuses: a new kind reaches no kernel that was not written for it.
// Never: knows a family. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "search/problem/problem.h"

namespace gqa {

struct Served {
  KindSet<ElementType> types;
  KindSet<Mask> masks;
  KindSet<KeyLayout> keys;
  KindSet<Lengths> q_lengths, kv_lengths;
  bool chain = false;  // steps on each score
  bool sink = false;
  bool chain_arrays = false;  // steps that read arrays of heads, rows or scores
};

// What a kernel serves whose loops ask a walk for keys, a key source for their addresses, and the chain for scores.
inline constexpr Served kServedByParts = {{ElementType::kF16, ElementType::kBF16, ElementType::kF32},
                                          kIntervalMasks,
                                          kCopiedKeys,
                                          {Lengths::kOne, Lengths::kPacked},
                                          {Lengths::kOne, Lengths::kEach, Lengths::kPacked},
                                          true,
                                          true,
                                          true};

// Whether a kernel that copies its keys can append what a launch brings (jit/device/attention/common/new_keys.cuh):
// each sequence has a place for it behind its own keys.
bool can_append(const KernelTraits& traits);

// "flash serves no paged keys"; "" where the problem is served.
std::string not_served(const Problem& problem, const Served& served, std::string_view family);

}  // namespace gqa
