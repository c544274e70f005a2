// codegen.h: a candidate as CUDA source.
// Owns: the text of a kernel: a banner with problem and candidate, the Config of named constants, the entry point.
// Never: compiles, asks a device or looks at a clock: source() is a pure function, held by golden tests.
// Threads: pure functions.
#pragma once

#include <string>

#include "search/families/candidate.h"
#include "search/problem/problem.h"

namespace gqa {

// The entry point's name in every generated kernel.
inline constexpr const char* kEntryPoint = "gqa_attention";

// Source of the attention kernel. Depends on the candidate's compiled fields and on the problem's dtype, head dims,
// mask, alignment, layout of keys and chain on scores; lengths, strides, batch, heads and the chain's numbers are
// run-time arguments.
std::string attention_source(const Problem& problem, const Candidate& candidate);

// The features of a problem that shape code: "d=128,dv=128,dtype=bf16,causal,align=16,ktrans". Whether log-sum-exp is
// asked for is not among them: the same code writes it or not, so calls with and without it share kernels.
std::string feature_text(const KernelTraits& traits);

// Source of the kernels that verify and time: inputs, poison, reference, comparison (device/check.cuh).
std::string check_source();

// Source of the kernel that merges states (device/merge/merge_states.cuh), and its entry point's name.
std::string merge_source();
inline constexpr const char* kMergeEntryPoint = "gqa_merge_states";
// Source of the kernel that appends to a cache (device/append/append.cuh), and its entry point's name.
std::string append_source();
inline constexpr const char* kAppendEntryPoint = "gqa_append";

}  // namespace gqa
