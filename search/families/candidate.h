// candidate.h: one way to compute a problem, as data.
// Owns: Candidate, of one of the kernel families, each in a folder beside this file: text, parse, hash, order.
// Never: names a family's field, or holds code or anything that depends on a device. resources.h and space.h have the
// questions that are asked of a candidate; jit/families/ its code.
// Threads: a value.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "search/families/mma_flash/mma_flash.h"
#include "search/families/split_kv/split_kv.h"
#include "search/families/wgmma_flash/wgmma_flash.h"
#include "search/status.h"

namespace gqa {

struct Candidate {
  std::variant<MmaFlash, SplitKv, WgmmaFlash> of;

  // By family, then by what its text gives.
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

std::uint64_t hash(const Candidate& candidate);
std::string_view name(const Candidate& candidate);  // its family's: "flash", "split", "warpgroup"
std::vector<std::string_view> family_names();

// "flash m=128 n=64 warps=4 stages=2 pack=1 splits=1 head_swizzle=0"
std::string to_text(const Candidate& candidate);
// Only the fields that shape the code: candidates that agree here share one kernel.
std::string kernel_text(const Candidate& candidate);
// Refuses what is no candidate of the family, on whatever device and for whatever problem, and says why.
Status parse(std::string_view text, Candidate* candidate);

}  // namespace gqa
