// checked.cc: see checked.h.
#include "runtime/checked.h"

#include <string>

namespace gqa {
namespace {

Status wrong_length(const Problem& p, std::int32_t sequence, std::int32_t length) {
  return {Code::kOption, "cache_seqlens[" + std::to_string(sequence) + "] is " + std::to_string(length) +
                             ", expected 0 to " + std::to_string(p.kv_len) +
                             (p.paged() ? ": the keys that a row of page_table stands for" : ": the keys there are")};
}

Status wrong_page(const Problem& p, std::int32_t sequence, std::int32_t at, std::int32_t page, std::int32_t pages,
                  std::int32_t length) {
  return {Code::kOption, "page_table[" + std::to_string(sequence) + "][" + std::to_string(at) + "] is " +
                             std::to_string(page) + ", expected 0 to " + std::to_string(pages - 1) + ": sequence " +
                             std::to_string(sequence) + " has " + std::to_string(length) + " keys in pages of " +
                             std::to_string(p.page)};
}

}  // namespace

Status check_lists(const Problem& p, const std::int32_t* lengths, const std::int32_t* table, std::int64_t stride,
                   std::int32_t pages) {
  for (std::int32_t sequence = 0; sequence < p.batch; ++sequence) {
    const std::int32_t length = lengths != nullptr ? lengths[sequence] : p.kv_len;
    if (length < 0 || length > p.kv_len) return wrong_length(p, sequence, length);
    if (table == nullptr) continue;
    const std::int32_t* row = table + sequence * stride;
    const std::int64_t reached = (std::int64_t{length} + p.page - 1) / p.page;
    for (std::int32_t at = 0; at < reached; ++at)
      if (row[at] < 0 || row[at] >= pages) return wrong_page(p, sequence, at, row[at], pages, length);
  }
  return {};
}

}  // namespace gqa
