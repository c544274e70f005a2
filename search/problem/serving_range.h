// serving_range.h: the calls that an engine makes while it serves, as ranges of sizes.
// Owns: ServingRange and its text; which signatures its calls have.
// Never: lists buckets: signature.h's rounding finds them, as it does for a call; knows models.
// Threads: values; pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "search/problem/problem.h"
#include "search/problem/signature.h"
#include "search/status.h"

namespace gqa {

// From first to last; none where last is 0.
struct SizeRange {
  std::int32_t first = 0, last = 0;

  bool any() const { return last > 0; }
  friend bool operator==(const SizeRange&, const SizeRange&) = default;
};

// Three kinds of calls, each causal and of `batch` sequences. Those on a cache give cache_seqlens, and hold `kv` keys a
// sequence at most: with pages, a page times the table's columns, so that a last page may stand past the range's end.
struct ServingRange {
  SizeRange batch, kv;
  SizeRange q;        // on a cache, queries (batch, q, ...)
  SizeRange chunk;    // on a cache, packed queries (cu_seqlens_q), `chunk` of a sequence at most
  SizeRange prefill;  // no cache: queries and keys packed (cu_seqlens_q, cu_seqlens_k), `prefill` of a sequence at most
  std::int32_t page = 0;  // keys a page; 0: the cache is dense
  ElementType dtype = ElementType::kBF16;
  bool lse = false;

  friend bool operator==(const ServingRange&, const ServingRange&) = default;
};

// "batch=1..256,kv=1..32k,page=16": a range is N or N..N, a k behind a number stands for 1024. batch is required, and
// kv beside q and chunk; where none of q, chunk and prefill is given, q is 1. On an error *range is left as it was.
Status parse(std::string_view text, ServingRange* range);

// The signatures of a layer's calls, each once: heads, head dims, window, score chain and sink are the layer's, all
// else is the range's. Rows are 16-byte aligned and suit TMA.
std::vector<Signature> signatures(const ServingRange& range, const Problem& layer);

}  // namespace gqa
