// cache_args.h: what a call says of its sequences beyond the tensors: lengths, packing, pages and a window.
// Owns: the rules about gqa_call's lists, their maxima and window_size (and gqa_shape's), and what they make of a
// Problem and a Call.
// Never: reads a list: its numbers lie on the device, and checked.h judges them where that is asked for.
// Threads: pure functions; nothing is allocated unless it is refused.
#pragma once

#include <cstdint>

#include "runtime/api/gqa.h"
#include "runtime/api/tensors/tensor_rules.h"
#include "runtime/api/tensors/view.h"
#include "runtime/device.h"
#include "search/problem/problem.h"
#include "search/status.h"

namespace gqa {

// Null where a call has none.
struct CacheLists {
  const DLTensor* lengths = nullptr;
  const DLTensor* table = nullptr;
  const DLTensor* q_starts = nullptr;
  const DLTensor* k_starts = nullptr;
  const DLTensor* q_lengths = nullptr;

  // How many sequences the call has, where queries do not lie in a batch of `batch`.
  std::int64_t sequences(std::int64_t batch) const { return q_starts == nullptr ? batch : q_starts->shape[0] - 1; }
};
CacheLists lists_of(const gqa_call* options);

struct ListViews {
  View lengths, table, q_starts, k_starts, q_lengths;
};

// A tensor of packed sequences, (rows, ...), as one with a batch of 1; any other, or none, as it is.
class Unsqueezed {
 public:
  Unsqueezed(const DLTensor* given, bool packed);
  Unsqueezed(const Unsqueezed&) = delete;
  Unsqueezed& operator=(const Unsqueezed&) = delete;
  const DLTensor* get() const { return tensor_; }

 private:
  const DLTensor* tensor_;  // the given one, or lifted_
  DLTensor lifted_;
  std::int64_t shape_[4], strides_[4];
};

// Packed keys and values without a row, as a call has them none of whose sequences has a key: a row of q's and one of
// out's in their place, which is not read, as no list can point to it. Any others, and those of the wrong rank, as they
// are.
class PlaceholderKeys {
 public:
  PlaceholderKeys(const DLTensor& q, const DLTensor& k, const DLTensor& v, const DLTensor& out,
                  const CacheLists& lists);
  PlaceholderKeys(const PlaceholderKeys&) = delete;
  PlaceholderKeys& operator=(const PlaceholderKeys&) = delete;
  bool used() const { return used_; }
  const DLTensor* k() const { return k_; }
  const DLTensor* v() const { return v_; }

 private:
  struct Row {
    DLTensor tensor;
    std::int64_t shape[3], strides[3];
    // One of so many heads and elements as `of`, in the first of `memory`.
    const DLTensor* take(const DLTensor& of, const DLTensor& memory);
  };
  bool used_;
  Row k_row_, v_row_;
  const DLTensor *k_, *v_;
};

// A list, or none, has a number a sequence; starts have one more. Then what a list's view is, and where its numbers
// are: null where there is none.
Status check_list(const Device& device, const Role& role, const DLTensor* list, std::int64_t sequences);
Status check_starts(const Device& device, const Role& role, const DLTensor* starts, std::int64_t sequences);
Status read_list(const Role& role, const DLTensor* list, const char* last, View* view);
inline const std::int32_t* list_of(const View& view) { return reinterpret_cast<const std::int32_t*>(view.data); }

// Whether a tensor of rows, in a batch or packed, has none.
bool has_no_row(const DLTensor& tensor);
// Whether a list of starts, or null, names no sequence: where the first would begin, and nothing else.
bool has_no_sequence(const DLTensor* starts);

// q and out of a call that brings new keys and no query: a row of each, of no memory of the caller's, so that all else
// is checked as of any call. Nothing reads or writes the row. Any others as they are.
class StandInQuery {
 public:
  StandInQuery(const DLTensor& q, const DLTensor& out, bool used);
  StandInQuery(const StandInQuery&) = delete;
  StandInQuery& operator=(const StandInQuery&) = delete;
  bool used() const { return used_; }
  const DLTensor* q() const { return q_; }
  const DLTensor* out() const { return out_; }

 private:
  struct Row {
    DLTensor tensor;
    std::int64_t shape[4], strides[4];
    const DLTensor* take(const DLTensor& of);
  };
  bool used_;
  Row q_row_, out_row_;
  const DLTensor *q_, *out_;
};

// That maxima are there for packed sequences, and only for those.
Status check_packing(const gqa_call& call);

// `window`: null, or the two numbers; `name`: "gqa_call.window_size".
Status check_window(const char* name, const std::int32_t* window);
Status check_lists_present(const CacheLists& lists);
// What the lists are, and that they have a row for each sequence; `batch`: of q, where it has one.
// any_table: the table's rows may be others than the sequences.
Status check_list_tensors(const Device& device, const CacheLists& lists, std::int64_t batch, bool any_table = false);
// That the table's rows stand for no more keys than 32 bits count.
Status check_table_keys(const DLTensor& table, std::int64_t page);
Status read_lists(const CacheLists& lists, ListViews* views);
Status check_apart_from(const View& written, const CacheLists& lists, const ListViews& views);

// After the problem's kv_len and q_len: a side that hides nothing of so many keys is as good as none.
void fill_mask(bool causal, const std::int32_t* window, Problem* problem);
// Lengths, and of packed sequences their number and maxima.
void fill_lengths(const CacheLists& lists, const gqa_call* options, Problem* problem);
void fill_lists(const CacheLists& lists, const ListViews& views, std::int64_t pages, Call* call);

}  // namespace gqa
