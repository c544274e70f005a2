// cache_args.h: what a call says of a key/value cache: lengths, pages and a window.
// Owns: the rules about gqa_call's cache_seqlens, page_table and window_size (and gqa_shape's), and what they make of a
// Problem and a Call.
// Never: reads a list: its numbers lie on the device, and checked.h judges them where that is asked for.
// Threads: pure functions; nothing is allocated unless it is refused.
#pragma once

#include <cstdint>

#include "runtime/api/gqa.h"
#include "runtime/api/tensors/view.h"
#include "runtime/device.h"
#include "search/problem/problem.h"
#include "search/status.h"

namespace gqa {

// Null where a call has none.
struct CacheLists {
  const DLTensor* lengths = nullptr;
  const DLTensor* table = nullptr;
};
CacheLists lists_of(const gqa_call* options);

struct ListViews {
  View lengths, table;
};

// `window`: null, or the two numbers; `name`: "gqa_call.window_size".
Status check_window(const char* name, const std::int32_t* window);
Status check_lists_present(const CacheLists& lists);
// What the lists are, and that they have a row for each of `batch` sequences.
Status check_list_tensors(const Device& device, const CacheLists& lists, std::int64_t batch);
// That the table's rows stand for no more keys than 32 bits count.
Status check_table_keys(const DLTensor& table, std::int64_t page);
Status read_lists(const CacheLists& lists, ListViews* views);
Status check_apart_from(const View& written, const CacheLists& lists, const ListViews& views);

// After the problem's kv_len and q_len: a side that hides nothing of so many keys is as good as none.
void fill_mask(bool causal, const std::int32_t* window, Problem* problem);
void fill_lists(const CacheLists& lists, const ListViews& views, std::int64_t pages, Call* call);

}  // namespace gqa
