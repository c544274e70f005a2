// keys.h: what kernels and winners are kept under, and whether a row still holds.
// Owns: winner_key and kernel_key, of attention and of graphs; the key of the verification kernels; the families of a
// winner's kernels, and the comparison of their versions with the present ones.
// Never: holds a path, a product name or a driver version.
// Threads: pure functions.
//
// A kernel's key is its source with all that it includes, the architecture and the compiler. A winner's is the problem,
// the device's identity and the version of the search with the way of timing. No key holds anything else: what changes
// in search/ or jit/ and changes none of these changes no key.
#pragma once

#include <string>
#include <string_view>

#include "cache/store.h"
#include "runtime/device.h"
#include "search/graph/ir/canonical.h"

namespace gqa {

cache::WinnerKey winner_key(const Device& device, const Problem& problem);
std::string kernel_key(const Device& device, const Problem& problem, const Candidate& candidate);

// A graph's signature is "graph " and its digest; " config=..." follows where one was asked for.
inline constexpr std::string_view kGraphSignature = "graph ";
cache::WinnerKey winner_key(const Device& device, const Digest& graph, const std::string& config);
std::string kernel_key(const Device& device, const PlannedKernel& kernel);

// The key that a text is kept under when the device compiles it.
std::string kernel_key(const Device& device, std::string_view source);
// The same in a row: its key, and what it is made of.
void name_kernel(const Device& device, std::string_view source, cache::KernelRow* row);

// "flash", "split", "warpgroup"; "block" for a tile kernel.
std::string_view family_of(const PlannedKernel& kernel);
// What cache::WinnerRow::families holds of these.
std::string families_of(const Candidate& candidate);
std::string families_of(const KernelPlan& plan);

// Why a row that was found may not be used any more: a family has another version by now. "": it may.
std::string outdated(const cache::WinnerRow& row);
bool up_to_date(const cache::WinnerRow& row);

}  // namespace gqa
