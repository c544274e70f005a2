// signature.h: what a winner is kept under.
// Owns: Signature, a problem with its sizes rounded up, so that a decode whose keys grow by one each token finds the
// winner of its bucket. A type of its own: nobody looks up what was not rounded.
// Never: knows a device; runtime/workload/keys.h puts the two together.
// Threads: a value; hashing and comparing allocate nothing.
#pragma once

#include <cstdint>

#include "search/problem/problem.h"

namespace gqa {

// batch, q_len and kv_len are rounded up to 1, 2, 3, 4, 6, 8, 12, 16, 24, ..., kv_len to at least 16. A single query
// drops its causal mask, which hides nothing, and align 2 its tma; what shapes machine code stays otherwise, and lse.
class Signature {
 public:
  Signature() = default;
  explicit Signature(const Problem& problem);

  // A problem with the sizes of the bucket: what is tuned. Its signature is this one; it passes check() if and only if
  // the problem did.
  const Problem& problem() const { return problem_; }
  friend bool operator==(const Signature&, const Signature&) = default;

 private:
  Problem problem_;
};

inline std::uint64_t hash(const Signature& signature) { return hash(signature.problem()); }
inline std::string to_text(const Signature& signature) { return to_text(signature.problem()); }

std::int32_t bucket(std::int32_t length);

}  // namespace gqa
