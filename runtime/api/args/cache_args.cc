// cache_args.cc: see cache_args.h.
#include "runtime/api/args/cache_args.h"

#include <algorithm>
#include <limits>
#include <string>

#include "search/problem/mask.h"

namespace gqa {
namespace {

constexpr Role kLengths = {"cache_seqlens", 1, "(batch)"};
constexpr Role kQStarts = {"cu_seqlens_q", 1, "(batch + 1)"};
constexpr Role kKStarts = {"cu_seqlens_k", 1, "(batch + 1)"};
constexpr Role kQLengths = {"seqused_q", 1, "(batch)"};
constexpr Role kTable = {"page_table", 2, "(batch, pages a sequence)"};

constexpr DLDataType kListType = {kDLInt, 32, 1};
constexpr int kListElement = 4;  // bytes

Status check_maximum(const char* name, std::int64_t most, const char* list, bool packed) {
  if (packed ? most >= 0 && most <= std::numeric_limits<std::int32_t>::max() : most == 0) return {};
  return {Code::kSize, std::string("gqa_call.") + name + " is " + std::to_string(most) + ", expected " +
                           (packed ? "0 to 2147483647, the most that a sequence of " + std::string(list) + " has"
                                   : "0, since there is no " + std::string(list))};
}

// Whether its shape is (batch, length, heads, head_dim) or (rows, heads, head_dim).
bool is_rows(const DLTensor& tensor) { return (tensor.ndim == 3 || tensor.ndim == 4) && tensor.shape != nullptr; }

}  // namespace

Status check_list(const Device& device, const Role& role, const DLTensor* list, std::int64_t batch) {
  if (list == nullptr) return {};
  Status status = check_tensor(device, role, *list, kListType);
  if (status.ok()) status = check_equal(role, list->shape[0], "batch", "q", batch);
  return status;
}

Status check_starts(const Device& device, const Role& role, const DLTensor* starts, std::int64_t sequences) {
  if (starts == nullptr) return {};
  if (Status status = check_tensor(device, role, *starts, kListType); !status.ok()) return status;
  if (starts->shape[0] == sequences + 1 && sequences > 0) return {};
  const std::string expected = sequences > 0 ? std::to_string(sequences + 1) : "at least 2";
  return {Code::kShape, std::string(role.name) + " has " + std::to_string(starts->shape[0]) + " numbers, expected " +
                            expected + ": where each sequence begins, and last where the last one ends"};
}

Status read_list(const Role& role, const DLTensor* list, const char* last, View* view) {
  return list == nullptr ? Status() : read_view(role, *list, kListElement, last, view);
}

CacheLists lists_of(const gqa_call* options) {
  if (options == nullptr) return {};
  return {options->cache_seqlens, options->page_table, options->cu_seqlens_q, options->cu_seqlens_k,
          options->seqused_q};
}

Unsqueezed::Unsqueezed(const DLTensor* given, bool packed) : tensor_(given) {
  if (!packed || given == nullptr) return;
  lifted_ = *given;
  shape_[0] = 1;
  strides_[0] = 0;
  for (int i = 0; i < given->ndim; ++i) {
    shape_[i + 1] = given->shape[i];
    if (given->strides != nullptr) strides_[i + 1] = given->strides[i];
  }
  lifted_.ndim = given->ndim + 1;
  lifted_.shape = shape_;
  if (given->strides != nullptr) lifted_.strides = strides_;
  tensor_ = &lifted_;
}

bool has_no_row(const DLTensor& tensor) {
  if (!is_rows(tensor)) return false;
  return tensor.shape[0] == 0 || (tensor.ndim == 4 && tensor.shape[1] == 0);
}

bool has_no_sequence(const DLTensor* starts) {
  return starts != nullptr && starts->ndim == 1 && starts->shape != nullptr && starts->shape[0] == 1;
}

const DLTensor* StandInQuery::Row::take(const DLTensor& of) {
  alignas(16) static char row[512];  // as long as the longest head
  tensor = of;
  tensor.data = row;
  tensor.byte_offset = 0;
  for (int i = 0; i < of.ndim; ++i) {
    shape[i] = of.shape[i] == 0 ? 1 : of.shape[i];
    strides[i] = i + 1 == of.ndim ? 1 : 0;
  }
  tensor.shape = shape;
  tensor.strides = strides;
  return &tensor;
}

StandInQuery::StandInQuery(const DLTensor& q, const DLTensor& out, bool used)
    : used_(used), q_(used ? q_row_.take(q) : &q), out_(used ? out_row_.take(out) : &out) {}

const DLTensor* PlaceholderKeys::Row::take(const DLTensor& of, const DLTensor& memory) {
  const int heads = memory.ndim - 2;
  tensor = of;
  tensor.data = memory.data;
  tensor.byte_offset = memory.byte_offset;
  shape[0] = 1;
  shape[1] = of.shape[1];
  shape[2] = of.shape[2];
  strides[0] = 0;
  strides[1] = memory.strides != nullptr ? memory.strides[heads] : memory.shape[heads + 1];
  strides[2] = 1;
  tensor.shape = shape;
  tensor.strides = strides;
  return &tensor;
}

PlaceholderKeys::PlaceholderKeys(const DLTensor& q, const DLTensor& k, const DLTensor& v, const DLTensor& out,
                                 const CacheLists& lists)
    : used_(lists.k_starts != nullptr && is_rows(q) && is_rows(out) && has_no_row(k) && has_no_row(v)),
      k_(used_ ? k_row_.take(k, q) : &k),
      v_(used_ ? v_row_.take(v, out) : &v) {}

Status check_packing(const gqa_call& call) {
  const bool q_packed = call.cu_seqlens_q != nullptr, k_packed = call.cu_seqlens_k != nullptr;
  if (Status status = check_maximum("max_seqlen_q", call.max_seqlen_q, "cu_seqlens_q", q_packed); !status.ok())
    return status;
  if (Status status = check_maximum("max_seqlen_k", call.max_seqlen_k, "cu_seqlens_k", k_packed); !status.ok())
    return status;
  if (call.seqused_q == nullptr || q_packed) return {};
  return {Code::kOption, "seqused_q is given without cu_seqlens_q, expected both or neither"};
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
  if (status.ok() && lists.q_starts != nullptr) status = check_present(kQStarts, lists.q_starts);
  if (status.ok() && lists.k_starts != nullptr) status = check_present(kKStarts, lists.k_starts);
  if (status.ok() && lists.q_lengths != nullptr) status = check_present(kQLengths, lists.q_lengths);
  return status;
}

Status check_list_tensors(const Device& device, const CacheLists& lists, std::int64_t batch, bool any_table) {
  if (lists.q_starts != nullptr)
    if (Status status = check_rank(kQStarts, *lists.q_starts); !status.ok()) return status;
  const std::int64_t sequences = lists.sequences(batch);
  Status status = check_starts(device, kQStarts, lists.q_starts, sequences);
  if (status.ok()) status = check_starts(device, kKStarts, lists.k_starts, sequences);
  if (status.ok()) status = check_list(device, kLengths, lists.lengths, sequences);
  if (status.ok() && any_table && lists.table != nullptr)
    status = check_tensor(device, kTable, *lists.table, kListType);
  else if (status.ok())
    status = check_list(device, kTable, lists.table, sequences);
  if (status.ok()) status = check_list(device, kQLengths, lists.q_lengths, sequences);
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
  if (status.ok()) status = read_list(kQStarts, lists.q_starts, "it", &views->q_starts);
  if (status.ok()) status = read_list(kKStarts, lists.k_starts, "it", &views->k_starts);
  if (status.ok()) status = read_list(kQLengths, lists.q_lengths, "it", &views->q_lengths);
  return status;
}

Status check_apart_from(const View& written, const CacheLists& lists, const ListViews& views) {
  const struct {
    const DLTensor* list;
    const View& view;
  } all[] = {{lists.lengths, views.lengths},
             {lists.table, views.table},
             {lists.q_starts, views.q_starts},
             {lists.k_starts, views.k_starts},
             {lists.q_lengths, views.q_lengths}};
  for (const auto& [list, view] : all) {
    if (list == nullptr) continue;
    if (Status status = check_apart(written, view); !status.ok()) return status;
  }
  return {};
}

void fill_mask(bool causal, const std::int32_t* window, Problem* p) {
  const std::int32_t left = window != nullptr ? window[0] : -1, right = window != nullptr ? window[1] : -1;
  set_call_window(left, causal ? 0 : right, p);
}

void fill_lengths(const CacheLists& lists, const gqa_call* options, Problem* p) {
  p->kv_lengths = lists.k_starts != nullptr  ? Lengths::kPacked
                  : lists.lengths != nullptr ? Lengths::kEach
                                             : Lengths::kOne;
  p->q_lengths = lists.q_starts != nullptr ? Lengths::kPacked : Lengths::kOne;
  p->batch = static_cast<std::int32_t>(lists.sequences(p->batch));
  // A problem has rows, even where no sequence has one.
  const auto most = [](std::int64_t given) { return static_cast<std::int32_t>(std::max<std::int64_t>(given, 1)); };
  if (p->q_packed()) p->q_len = most(options->max_seqlen_q);
  if (p->k_packed()) p->kv_len = most(options->max_seqlen_k);
}

void fill_lists(const CacheLists& lists, const ListViews& views, std::int64_t pages, Call* call) {
  call->kv_lengths = list_of(views.lengths);
  call->q_starts = list_of(views.q_starts);
  call->k_starts = list_of(views.k_starts);
  call->q_lengths = list_of(views.q_lengths);
  if (lists.table == nullptr) return;
  call->page_table = list_of(views.table);
  call->page_table_stride = views.table.stride[0];
  call->pages = static_cast<std::int32_t>(pages);
}

}  // namespace gqa
