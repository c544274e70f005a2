// cache_args.cc: see cache_args.h.
#include "runtime/api/cache_args.h"

#include <limits>
#include <string>

#include "runtime/api/tensors/tensor_rules.h"
#include "search/problem/mask.h"

namespace gqa {
namespace {

constexpr Role kLengths = {"cache_seqlens", 1, "(batch)"};
constexpr Role kTable = {"page_table", 2, "(batch, pages a sequence)"};
constexpr DLDataType kListType = {kDLInt, 32, 1};
constexpr int kListElement = 4;  // bytes

Status check_list(const Device& device, const Role& role, const DLTensor* list, std::int64_t batch) {
  if (list == nullptr) return {};
  Status status = check_tensor(device, role, *list, kListType);
  if (status.ok()) status = check_equal(role, list->shape[0], "batch", "q", batch);
  return status;
}

Status read_list(const Role& role, const DLTensor* list, const char* last, View* view) {
  return list == nullptr ? Status() : read_view(role, *list, kListElement, last, view);
}

}  // namespace

CacheLists lists_of(const gqa_call* options) {
  return options == nullptr ? CacheLists() : CacheLists{options->cache_seqlens, options->page_table};
}

Status check_window(const char* name, const std::int32_t* window) {
  if (window == nullptr || (window[0] >= -1 && window[1] >= -1)) return {};
  return {Code::kOption, std::string(name) + " is {" + std::to_string(window[0]) + ", " + std::to_string(window[1]) +
                             "}, expected keys before and after the query's own, or -1 for all of them"};
}

Status check_lists_present(const CacheLists& lists) {
  Status status;
  if (lists.lengths != nullptr) status = check_present(kLengths, lists.lengths);
  if (status.ok() && lists.table != nullptr) status = check_present(kTable, lists.table);
  return status;
}

Status check_list_tensors(const Device& device, const CacheLists& lists, std::int64_t batch) {
  Status status = check_list(device, kLengths, lists.lengths, batch);
  if (status.ok()) status = check_list(device, kTable, lists.table, batch);
  return status;
}

Status check_table_keys(const DLTensor& table, std::int64_t page) {
  const std::int64_t width = table.shape[1];  // both are below 2^31
  if (width * page <= std::numeric_limits<std::int32_t>::max()) return {};
  return {Code::kSize, "page_table has " + std::to_string(width) + " pages a sequence, of " + std::to_string(page) +
                           " keys each: expected at most 2147483647 keys a sequence; hand in fewer columns"};
}

Status read_lists(const CacheLists& lists, ListViews* views) {
  Status status = read_list(kLengths, lists.lengths, "it", &views->lengths);
  if (status.ok()) status = read_list(kTable, lists.table, "each row", &views->table);
  return status;
}

Status check_apart_from(const View& written, const CacheLists& lists, const ListViews& views) {
  Status status;
  if (lists.lengths != nullptr) status = check_apart(written, views.lengths);
  if (status.ok() && lists.table != nullptr) status = check_apart(written, views.table);
  return status;
}

void fill_mask(bool causal, const std::int32_t* window, Problem* p) {
  std::int32_t left = window != nullptr ? window[0] : -1, right = window != nullptr ? window[1] : -1;
  if (causal) right = 0;
  if (left >= p->kv_len - 1) left = -1;
  if (right > 0 && right >= p->q_len - 1) right = -1;
  set_window(left, right, p);
}

void fill_lists(const CacheLists& lists, const ListViews& views, std::int64_t pages, Call* call) {
  if (lists.lengths != nullptr) call->kv_lengths = reinterpret_cast<const std::int32_t*>(views.lengths.data);
  if (lists.table == nullptr) return;
  call->page_table = reinterpret_cast<const std::int32_t*>(views.table.data);
  call->page_table_stride = views.table.stride[0];
  call->pages = static_cast<std::int32_t>(pages);
}

}  // namespace gqa
