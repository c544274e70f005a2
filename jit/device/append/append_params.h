// append_params.h: the argument of the kernel that appends, laid out the same by the host compiler and by NVRTC, and
// where its rows come from and go to.
// Owns: AppendParams, and the rules that the device's kernel and the host's loop share: how many keys a sequence has,
// and which row of the cache a new key takes.
// Never: copies a row. Leaves the cache, whatever the lists hold: a wrong number costs an answer, not a fault.
// Threads: plain data and pure functions.
#pragma once

#include "append/new_tokens.h"

namespace gqa {

constexpr int kAppendThreads = 128;
// Heads of a row that a warp copies: of 128 elements each, four are 16 bytes a lane of each half. Where there are many
// rows, a warp takes a row's heads one after the other, and finds the row's place and its angles once.
constexpr int kFewHeads = 4, kManyHeads = 32;

struct AppendParams {
  const void* q;  // rotated into q_out; null: q is left alone
  void* q_out;
  void *k, *v;  // the cache
  NewTokens tokens;
  TensorStrides q_strides, q_out_strides, k_strides, v_strides;
  long long table_stride;
  // What lists say of each sequence, null where there is no such list: keys in the cache, row of the cache, keys before
  // the first, where new keys begin, pages; where queries begin, and how many are used.
  const int *lengths, *batch_idx, *leftpad, *new_starts, *table, *q_starts, *q_lengths;
  // Written: keys of each sequence, the new ones with them; its first row, or null; its pages, or null.
  int *out_lengths, *out_starts, *out_table;
  int batch, q_rows, q_len, q_heads, new_rows, kv_heads, head_dim, head_dim_v;
  int kv_len, page, page_count;
  int cache_batch, cache_batch_rows;  // rows of the cache, or of the table; of a dense one, from a row's first slot to
                                      // the next's
  int out_page, out_columns;          // of out_table: `page`, or 1 where sequences are padded
  int type;                           // an ElementType
  int warp_heads;                     // kFewHeads or kManyHeads
  // Last: elsewhere they cost the assembler registers for sm_80, and rows of the heads are spilt.
  int cache_batch_values;  // as cache_batch_rows, of values
  int* out_value_starts;   // as out_starts, of values, where they are not as many rows apart; or null
};

static_assert(sizeof(AppendParams) == 4 * 8 + sizeof(NewTokens) + 4 * 24 + 12 * 8 + 18 * 4,
              "host and device must agree on AppendParams");

// Groups of heads that warps take of a row, and the heads of one.
GQA_BOTH int append_groups(const AppendParams& p, int heads) { return (heads + p.warp_heads - 1) / p.warp_heads; }
GQA_BOTH int heads_of_group(const AppendParams& p, int heads, int group) {
  const int left = heads - group * p.warp_heads;
  return left < p.warp_heads ? left : p.warp_heads;
}

// One sequence of the call, in its cache.
struct AppendSequence {
  int row;      // of the cache, or of the table
  int leftpad;  // slots before its first key
  int cached;   // slots in use before the call, those before the first key with them
  int added;    // new keys that there is room for
};

GQA_BOTH int new_keys_of(const AppendParams& p, int sequence) {
  if (p.tokens.k == nullptr) return 0;
  if (p.new_starts == nullptr) return p.tokens.count;
  return within(p.new_starts[sequence + 1] - p.new_starts[sequence], p.new_rows);
}

GQA_BOTH AppendSequence append_sequence(const AppendParams& p, int sequence) {
  AppendSequence s;
  s.row = p.batch_idx == nullptr ? sequence : within(p.batch_idx[sequence], p.cache_batch - 1);
  s.cached = p.lengths == nullptr ? p.kv_len : within(p.lengths[sequence], p.kv_len);
  s.leftpad = p.leftpad == nullptr ? 0 : within(p.leftpad[sequence], s.cached);
  s.added = within(new_keys_of(p, sequence), p.kv_len - s.cached);
  return s;
}

GQA_BOTH int keys_after(const AppendSequence& s) { return s.cached - s.leftpad + s.added; }
GQA_BOTH int first_row_of(const AppendSequence& s, int batch_rows) { return s.row * batch_rows + s.leftpad; }

// The page that holds a slot of a row of the table; without one each row of the cache is a page.
GQA_BOTH int page_of_slot(const AppendParams& p, int row, int slot) {
  if (p.table == nullptr) return row;
  return within(p.table[row * p.table_stride + slot / p.page], p.page_count - 1);
}

// Elements from the cache's first to a slot of its row.
GQA_BOTH long long slot_offset(const AppendParams& p, const TensorStrides& strides, int row, int slot) {
  if (p.table == nullptr) return row * strides.batch + slot * strides.row;
  return page_of_slot(p, row, slot) * strides.batch + slot % p.page * strides.row;
}

// Entry `column` of the sequence's row of out_table: where its keys from column * out_page on lie. -1: none of its.
GQA_BOTH int out_entry(const AppendParams& p, const AppendSequence& s, int column) {
  const int key = column * p.out_page, slot = s.leftpad + key;
  if (key >= keys_after(s)) return -1;
  const int page = page_of_slot(p, s.row, slot);
  return p.out_page == 1 ? page * p.page + slot % p.page : page;
}

// A sequence's own numbers for the attention that follows.
GQA_BOTH void write_lists(const AppendParams& p, int sequence) {
  const AppendSequence s = append_sequence(p, sequence);
  p.out_lengths[sequence] = keys_after(s);
  if (p.out_starts != nullptr) p.out_starts[sequence] = first_row_of(s, p.cache_batch_rows);
  if (p.out_value_starts != nullptr) p.out_value_starts[sequence] = first_row_of(s, p.cache_batch_values);
}

// Which row of a packed tensor, or of one with a batch, is whose: position `at` of sequence `sequence`. -1: nobody's.
struct AppendPlace {
  int sequence, at;
};

// starts ascends: the last sequence that begins at the row or before has it, if any has.
GQA_BOTH AppendPlace place_of_row(const int* starts, int batch, int row, int rows_each) {
  if (starts == nullptr) return {row / rows_each, row % rows_each};
  int first = 0, last = batch;
  while (first < last) {
    const int middle = first + (last - first) / 2;
    if (starts[middle + 1] <= row)
      first = middle + 1;
    else
      last = middle;
  }
  return first == batch || starts[first] > row ? AppendPlace{-1, 0} : AppendPlace{first, row - starts[first]};
}

// Elements from a tensor's first to such a row; `row`: of all rows, where the tensor is packed.
GQA_BOTH long long row_offset(const TensorStrides& s, const int* starts, const AppendPlace& place, int row, int head) {
  const long long in_tensor = starts == nullptr ? place.sequence * s.batch + place.at * s.row : row * s.row;
  return in_tensor + head * s.head;
}

}  // namespace gqa
