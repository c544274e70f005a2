// checked.cc: see checked.h.
#include "runtime/checked.h"

#include <algorithm>
#include <string>

namespace gqa {
namespace {

std::string item(const char* list, std::int32_t at, std::int32_t number) {
  return std::string(list) + "[" + std::to_string(at) + "] is " + std::to_string(number);
}

// Of packed queries or keys.
struct PackedRows {
  const char *starts_name, *lengths_name, *tensor, *maximum_name, *what;
  const std::int32_t *starts, *lengths;
  std::int64_t rows;     // of the tensor
  std::int32_t maximum;  // of a sequence
};

Status check_start(const PackedRows& p, std::int32_t at) {
  const std::int32_t least = at == 0 ? 0 : p.starts[at - 1];
  if (p.starts[at] >= least && p.starts[at] <= p.rows) return {};
  return {Code::kOption, item(p.starts_name, at, p.starts[at]) + ", expected " + std::to_string(least) + " to " +
                             std::to_string(p.rows) + ": " +
                             (at == 0 ? "" : "sequence " + std::to_string(at - 1) + " begins there, and ") + p.tensor +
                             " has " + std::to_string(p.rows) + " rows"};
}

// Once the sequence's starts are known to be right.
Status check_length(const PackedRows& p, std::int32_t sequence) {
  const std::int32_t rows = p.starts[sequence + 1] - p.starts[sequence];
  if (p.lengths == nullptr) {
    if (rows <= p.maximum) return {};
    return {Code::kOption, "sequence " + std::to_string(sequence) + " of " + p.starts_name + " has " +
                               std::to_string(rows) + " " + p.what + ", expected at most " + std::to_string(p.maximum) +
                               ", which is " + p.maximum_name};
  }
  const std::int32_t most = std::min(rows, p.maximum);
  if (p.lengths[sequence] >= 0 && p.lengths[sequence] <= most) return {};
  return {Code::kOption, item(p.lengths_name, sequence, p.lengths[sequence]) + ", expected 0 to " +
                             std::to_string(most) + ": the " + p.what + " there are"};
}

Status check_packed(const PackedRows& p, std::int32_t sequences) {
  if (p.starts == nullptr) return {};
  if (Status status = check_start(p, 0); !status.ok()) return status;
  for (std::int32_t sequence = 0; sequence < sequences; ++sequence) {
    if (Status status = check_start(p, sequence + 1); !status.ok()) return status;
    if (Status status = check_length(p, sequence); !status.ok()) return status;
  }
  return {};
}

Status wrong_length(const Problem& p, std::int32_t sequence, std::int32_t length) {
  return {Code::kOption, item("cache_seqlens", sequence, length) + ", expected 0 to " + std::to_string(p.kv_len) +
                             (p.paged() ? ": the keys that a row of page_table stands for" : ": the keys there are")};
}

// A sequence's row of the page table.
struct TableRow {
  const std::int32_t* entries;
  std::int64_t row;
  std::int32_t page, pages;
};

TableRow table_of(const Call& call, std::int32_t sequence) {
  const Append* a = call.append;
  const std::int64_t row = a != nullptr && a->batch_idx != nullptr ? a->batch_idx[sequence] : sequence;
  return {call.page_table + row * call.page_table_stride, row, a != nullptr ? a->page : call.problem.page,
          a != nullptr ? a->pages : call.pages};
}

// Those that so many keys reach.
Status check_pages_of(const TableRow& table, std::int32_t sequence, std::int32_t keys) {
  const std::int64_t reached = (std::int64_t{keys} + table.page - 1) / table.page;
  for (std::int32_t at = 0; at < reached; ++at) {
    const std::int32_t page = table.entries[at];
    if (page >= 0 && page < table.pages) continue;
    return {Code::kOption, "page_table[" + std::to_string(table.row) + "]" + item("", at, page) + ", expected 0 to " +
                               std::to_string(table.pages - 1) + ": sequence " + std::to_string(sequence) + " has " +
                               std::to_string(keys) + " keys in pages of " + std::to_string(table.page)};
  }
  return {};
}

std::int32_t new_keys_of(const Call& call, std::int32_t sequence) {
  if (call.append == nullptr || call.append->k == nullptr) return 0;
  const std::int32_t* starts = call.append->starts;
  return starts == nullptr ? call.append->count : starts[sequence + 1] - starts[sequence];
}

// Beyond the length, which is right.
Status check_append_of(const Call& call, std::int32_t sequence, std::int32_t length) {
  const Append& a = *call.append;
  const std::int32_t added = new_keys_of(call, sequence), room = call.problem.kv_len - length;
  if (added < 0 || added > room)
    return {Code::kOption, "sequence " + std::to_string(sequence) + " is given " + std::to_string(added) +
                               " new keys, expected 0 to " + std::to_string(room) + ": it has " +
                               std::to_string(length) + " in a cache of " + std::to_string(call.problem.kv_len)};
  if (a.batch_idx != nullptr && (a.batch_idx[sequence] < 0 || a.batch_idx[sequence] >= a.cache_batch))
    return {Code::kOption, item("cache_batch_idx", sequence, a.batch_idx[sequence]) + ", expected 0 to " +
                               std::to_string(a.cache_batch - 1) + ": the rows that the cache has"};
  if (a.leftpad != nullptr && (a.leftpad[sequence] < 0 || a.leftpad[sequence] > length))
    return {Code::kOption, item("cache_leftpad", sequence, a.leftpad[sequence]) + ", expected 0 to " +
                               std::to_string(length) + ": the slots that it has in use"};
  if (a.rotary_starts != nullptr && (a.rotary_starts[sequence] < 0 || a.rotary_starts[sequence] > a.rotary_len - added))
    return {Code::kOption, item("rotary_seqlens", sequence, a.rotary_starts[sequence]) + ", expected 0 to " +
                               std::to_string(a.rotary_len - added) + ": rotary_cos has " +
                               std::to_string(a.rotary_len) + " positions"};
  return {};
}

// Of new keys that are packed.
Status check_new_keys(const Call& call) {
  const Append& a = *call.append;
  const PackedRows keys = {"cu_seqlens_k_new", "", "k_new", "the cache", "new keys", a.starts, nullptr, a.rows, a.rows};
  return check_packed(keys, call.problem.batch);
}

Status check_keys_of(const Call& call, std::int32_t sequence) {
  const Problem& p = call.problem;
  const std::int32_t cached = call.kv_lengths != nullptr ? call.kv_lengths[sequence] : p.kv_len;
  if (cached < 0 || cached > p.kv_len) return wrong_length(p, sequence, cached);
  if (call.append != nullptr)
    if (Status status = check_append_of(call, sequence, cached); !status.ok()) return status;
  const std::int32_t length = cached + new_keys_of(call, sequence);
  return call.page_table == nullptr ? Status() : check_pages_of(table_of(call, sequence), sequence, length);
}

}  // namespace

Status check_lists(const Call& call) {
  const Problem& p = call.problem;
  const PackedRows queries = {"cu_seqlens_q", "seqused_q",    "q",         "max_seqlen_q", "queries",
                              call.q_starts,  call.q_lengths, call.q_rows, p.q_len};
  const PackedRows keys = {"cu_seqlens_k", "cache_seqlens", "k",         "max_seqlen_k", "keys",
                           call.k_starts,  call.kv_lengths, call.k_rows, p.kv_len};
  if (Status status = check_packed(queries, p.batch); !status.ok()) return status;
  if (call.append != nullptr)
    if (Status status = check_new_keys(call); !status.ok()) return status;
  if (p.k_packed() && call.append == nullptr) return check_packed(keys, p.batch);
  for (std::int32_t sequence = 0; sequence < p.batch; ++sequence)
    if (Status status = check_keys_of(call, sequence); !status.ok()) return status;
  return {};
}

}  // namespace gqa
