// key_layout.h: what belongs to each way that keys and values lie.
// Owns: how many keys lie together and how many such slabs there are, the rules of a layout, its words of the problem's
// text. Never: knows strides or addresses: jit/device/attention/common/key_source.cuh does, and the host's kernel.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/problem/problem.h"
#include "search/problem/text_items.h"

namespace gqa {

// Keys that follow each other in k and v: a sequence's, or a page's.
inline std::int32_t keys_together(const Problem& p) { return p.paged() ? p.page : p.kv_len; }
// Pages that so many keys take; 0 where there are none.
inline std::int32_t pages_of(const Problem& p, std::int32_t keys) {
  return p.paged() ? static_cast<std::int32_t>((std::int64_t{keys} + p.page - 1) / p.page) : 0;
}

Status check_keys(const Problem& problem);

// What machine code knows of the layout beside its name.
struct KeyNumber {
  std::string_view name;  // "Page": kPage there
  std::int32_t value;
};
std::vector<KeyNumber> key_numbers(const KernelTraits& traits);

// The layout's words of the problem's text: ",page=16".
std::string keys_text(const KernelTraits& traits);
Status read_keys(TextItems* items, Problem* problem);

}  // namespace gqa
