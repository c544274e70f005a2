// problem.h: what is to be computed.
// Owns: Problem, the plain description of one attention call: equality, hash, canonical text, the rules that all
// callers share. Its parts have files of their own: kernel_traits.h, mask.h, key_layout.h, score_chain.h; signature.h
// makes a winner's key. Never: knows a device, a pointer or a stride. What changes the generated code or the winner is
// here, nothing else. Threads: a value; hashing and comparing allocate nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "search/problem/kernel_traits.h"
#include "search/status.h"

namespace gqa {

// What shapes machine code, what a caller promises of its tensors, and sizes.
struct Problem : KernelTraits {
  // Strides that a tensor map can express, so that TMA may load and store. False wherever align is 2.
  bool tma = true;
  // The log-sum-exp of each row is asked for. Where it is not, kernels serve whose own is too coarse to be given out.
  bool lse = false;
  std::int32_t batch = 0;  // sequences
  std::int32_t q_heads = 0;
  std::int32_t kv_heads = 0;
  // Lengths of each sequence; where each has its own, or pages, the most there can be.
  std::int32_t q_len = 0, kv_len = 0;
  // Keys before and after the query's own that a window shows; -1: all of them. -1 and -1 unless mask is kWindow.
  std::int32_t window_left = -1, window_right = -1;

  int group() const { return q_heads / kv_heads; }
  friend bool operator==(const Problem&, const Problem&) = default;
};

// A hash of the fields, the same in every process.
std::uint64_t hash(const Problem& problem);

// "b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,dv=128,dtype=bf16,causal,align=16,notma,ktrans,lse". What is at its default is
// left out: dv (d), kvdtype and outdtype (dtype), causal, left, right, align (16), notma (and where align=2 says it
// already), ktrans, page, lens, packk, packq, softcap or scores, sink, lse.
std::string to_text(const Problem& problem);
// The part of it that says the types of elements: "bf16", ",kvdtype=f16" and ",outdtype=f32" where they are not q's.
std::string types_text(const KernelTraits& traits);
// The part of it that says whose lengths differ: ",lens".
std::string lengths_text(const KernelTraits& traits);
// The part of it that says that there is a sink: ",sink".
std::string sink_text(const KernelTraits& traits);

// Reads to_text's form, in any order; hq, sq and d are required (b defaults to 1, hk to hq, sk to sq, dv to d, dtype to
// bf16). What is read has passed check(). Says which key was wrong, what was given and what was expected; on an error
// *problem is left as it was.
Status parse(std::string_view text, Problem* problem);

// The rules every entry point shares: positive sizes, supported head dims, q_heads a multiple of kv_heads, counts that
// fit 32 bits, a page and a window where there are such.
Status check(const Problem& problem);

// Floating-point operations (2 per multiply-add, masked scores not counted) and the fewest bytes to and from memory.
// Where lengths differ, as if all were the longest.
double flops(const Problem& problem);
double bytes(const Problem& problem);

}  // namespace gqa
