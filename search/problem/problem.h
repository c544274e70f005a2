// problem.h: what is to be computed.
// Owns: Problem, the plain description of one attention call: equality, hash, canonical text, and the length buckets
// that make a signature of it.
// Never: knows a device, a pointer or a stride. What changes the generated code or the winner is here, nothing else.
// Threads: a value; hashing and comparing allocate nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "search/status.h"

namespace gqa {

enum class DType : std::uint8_t { kF16, kBF16 };
// Which keys a query sees; walk.h has the rule. All masks are aligned bottom-right.
enum class Mask : std::uint8_t { kNone, kCausal, kWindow };
// How k and v lie. Dense: a sequence's keys follow each other. Transposed: k lies as (head_dim, keys), v is dense.
// Paged: blocks of `page` keys, found by a table of each sequence.
enum class KeyLayout : std::uint8_t { kDense, kTransposed, kPaged };
// How many keys sequences have: one number for all, or each its own, read on the device.
enum class Lengths : std::uint8_t { kOne, kEach };

struct Problem {
  DType dtype = DType::kBF16;
  Mask mask = Mask::kNone;
  // Bytes that every row of q, k, v and out is aligned to: 16 (vector copies) or 2 (element by element).
  std::uint16_t align = 16;
  // Strides that a tensor map can express, so that TMA may load and store. False wherever align is 2.
  bool tma = true;
  KeyLayout keys = KeyLayout::kDense;
  Lengths kv_lengths = Lengths::kOne;
  // The log-sum-exp of each row is asked for. Where it is not, kernels serve whose own is too coarse to be given out.
  bool lse = false;
  std::int32_t head_dim = 0;    // of q and k
  std::int32_t head_dim_v = 0;  // of v and out
  std::int32_t batch = 0;
  std::int32_t q_heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t q_len = 0;
  std::int32_t kv_len = 0;  // of each sequence; where each has its own, or pages, the most there can be
  std::int32_t page = 0;    // keys a page holds; 0 where there are none
  // Keys before and after the query's own that a window shows; -1: all of them. -1 and -1 unless mask is kWindow.
  std::int32_t window_left = -1, window_right = -1;

  int group() const { return q_heads / kv_heads; }
  bool causal() const { return mask == Mask::kCausal; }
  bool windowed() const { return mask == Mask::kWindow; }
  bool keys_transposed() const { return keys == KeyLayout::kTransposed; }
  bool paged() const { return keys == KeyLayout::kPaged; }
  bool lengths_differ() const { return kv_lengths == Lengths::kEach; }
  friend bool operator==(const Problem&, const Problem&) = default;
};

// A hash of the fields, the same in every process.
std::uint64_t hash(const Problem& problem);

// The problem with batch, q_len and kv_len rounded up to 1, 2, 3, 4, 6, 8, 12, 16, 24, ...: what a winner is kept
// under, so that a decode whose KV grows by one each token finds the winner of its bucket. kv_len is at least 16
// there, a single query drops its causal mask, which hides nothing, and align 2 its tma; lse stays. Idempotent; a
// problem passes check() if its signature does.
Problem signature(const Problem& problem);
std::int32_t bucket(std::int32_t length);

// "b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,dv=128,dtype=bf16,causal,align=16,notma,ktrans,lse". What is at its default is
// left out: dv (d), causal, left, right, align (16), notma (and where align=2 says it already), ktrans, page, lens,
// lse.
std::string to_text(const Problem& problem);

// Reads to_text's form, in any order; hq, sq and d are required (b defaults to 1, hk to hq, sk to sq, dv to d, dtype to
// bf16). What is read has passed check(). Says which key was wrong, what was given and what was expected; on an error
// *problem is left as it was.
Status parse(std::string_view text, Problem* problem);

// The rules every entry point shares: positive sizes, supported head dims, q_heads a multiple of kv_heads, counts that
// fit 32 bits, a page and a window where there are such.
Status check(const Problem& problem);

std::string_view name(DType dtype);  // "f16", "bf16"

// Whether a launch says more than lengths and strides: jit/device/attention/common/cache_params.h.
inline bool needs_cache_params(const Problem& problem) {
  return problem.paged() || problem.lengths_differ() || problem.windowed();
}

// Floating-point operations (2 per multiply-add, masked scores not counted) and the fewest bytes to and from memory.
// Where lengths differ, as if all were the longest.
double flops(const Problem& problem);
double bytes(const Problem& problem);

}  // namespace gqa
