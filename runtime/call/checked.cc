// checked.cc: see checked.h.
#include "runtime/call/checked.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/call/roles.h"

namespace gqa {
namespace {

std::string item(const char* list, std::int32_t at, std::int32_t number) {
  return std::string(list) + "[" + std::to_string(at) + "] is " + std::to_string(number);
}

// Packed queries or keys.
struct PackedRows {
  const char *starts_name, *lengths_name, *tensor, *maximum_name, *what;
  const std::int32_t *starts, *lengths;
  std::int64_t rows;     // of the tensor
  std::int32_t maximum;  // of a sequence
};

Status check_first(const PackedRows& p) {
  if (p.starts[0] == 0) return {};
  return {Code::kOption, item(p.starts_name, 0, p.starts[0]) +
                             ", expected 0: the list says where each sequence begins and where the last one ends, so "
                             "lengths are to be summed up, from 0 on"};
}

Status check_start(const PackedRows& p, std::int32_t at) {
  const std::int32_t least = p.starts[at - 1];
  if (p.starts[at] >= least && p.starts[at] <= p.rows) return {};
  return {Code::kOption, item(p.starts_name, at, p.starts[at]) + ", expected " + std::to_string(least) + " to " +
                             std::to_string(p.rows) + ": sequence " + std::to_string(at - 1) + " begins there, and " +
                             p.tensor + " has " + std::to_string(p.rows) + " rows"};
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
  if (Status status = check_first(p); !status.ok()) return status;
  for (std::int32_t sequence = 0; sequence < sequences; ++sequence) {
    if (Status status = check_start(p, sequence + 1); !status.ok()) return status;
    if (Status status = check_length(p, sequence); !status.ok()) return status;
  }
  return {};
}

// Starts that check_packed() let pass, but that leave rows to nobody.
void look_at_end(const PackedRows& p, std::int32_t sequences, std::string* odd) {
  if (p.starts == nullptr || p.starts[sequences] == p.rows || !odd->empty()) return;
  *odd = std::string(p.starts_name) + " ends at " + std::to_string(p.starts[sequences]) + ", and " + p.tensor +
         " has " + std::to_string(p.rows) + " rows: those from there on belong to no sequence";
}

Status wrong_length(const Call& call, std::int32_t sequence, std::int32_t length) {
  return {Code::kOption,
          item("cache_seqlens", sequence, length) + ", expected 0 to " + std::to_string(call.problem.kv_len) +
              (call.has(Role::kPageTable) ? ": the keys that a row of page_table stands for" : ": the keys there are")};
}

// A sequence's row of the page table.
struct TableRow {
  const std::int32_t* entries;
  std::int64_t row;
  std::int32_t page, pages;
};

TableRow table_of(const Call& call, std::int32_t sequence) {
  const std::int32_t* rows = call.list(Role::kBatchIdx);
  const std::int64_t row = rows != nullptr ? rows[sequence] : sequence;
  return {call.list(Role::kPageTable) + row * call.strides(Role::kPageTable).batch, row,
          call.appends() ? call.append.page : call.problem.page, call.appends() ? call.append.pages : call.pages};
}

// Those that so many keys reach, from the first that is no padding on.
Status check_pages_of(const TableRow& table, std::int32_t sequence, std::int32_t padding, std::int32_t keys) {
  const std::int64_t reached = padding == keys ? 0 : (std::int64_t{keys} + table.page - 1) / table.page;
  for (std::int32_t at = padding / table.page; at < reached; ++at) {
    const std::int32_t page = table.entries[at];
    if (page >= 0 && page < table.pages) continue;
    return {Code::kOption, "page_table[" + std::to_string(table.row) + "]" + item("", at, page) + ", expected 0 to " +
                               std::to_string(table.pages - 1) + ": sequence " + std::to_string(sequence) + " has " +
                               std::to_string(keys) + " keys in pages of " + std::to_string(table.page)};
  }
  return {};
}

std::int32_t new_keys_of(const Call& call, std::int32_t sequence) {
  if (!call.has(Role::kNewK)) return 0;
  const std::int32_t* starts = call.list(Role::kNewStarts);
  return starts == nullptr ? call.append.count : starts[sequence + 1] - starts[sequence];
}

std::int32_t queries_of(const Call& call, std::int32_t sequence) {
  const std::int32_t *starts = call.list(Role::kQStarts), *lengths = call.list(Role::kQLengths);
  if (starts == nullptr) return call.has(Role::kOut) ? call.problem.q_len : 0;
  return lengths != nullptr ? lengths[sequence] : starts[sequence + 1] - starts[sequence];
}

// Positions of the new keys and of the queries; `length`: before the new ones.
Status check_rotation_of(const Call& call, std::int32_t sequence, std::int32_t length) {
  const Append& a = call.append;
  const std::int32_t* starts = call.list(Role::kRotaryStarts);
  const std::int32_t first = starts != nullptr ? starts[sequence] : length;
  const std::int32_t queries = queries_of(call, sequence);
  const std::int32_t positions = std::max(new_keys_of(call, sequence), a.advances ? queries : std::min(queries, 1));
  if (positions == 0 || (first >= 0 && std::int64_t{first} + positions <= a.rotary_len)) return {};
  return {Code::kOption, item(starts != nullptr ? "rotary_seqlens" : "cache_seqlens", sequence, first) +
                             ", and its tokens are rotated by position " + std::to_string(first) + " to " +
                             std::to_string(std::int64_t{first} + positions - 1) + ", expected 0 to " +
                             std::to_string(a.rotary_len - 1) + ": rotary_cos has " + std::to_string(a.rotary_len) +
                             " positions"};
}

// Beyond the length, which is right.
Status check_append_of(const Call& call, std::int32_t sequence, std::int32_t length) {
  const Append& a = call.append;
  const std::int32_t *rows = call.list(Role::kBatchIdx), *leftpad = call.list(Role::kLeftpad);
  const std::int32_t added = new_keys_of(call, sequence), room = call.problem.kv_len - length;
  if (added < 0 || added > room)
    return {Code::kOption, "sequence " + std::to_string(sequence) + " is given " + std::to_string(added) +
                               " new keys, expected 0 to " + std::to_string(room) + ": it has " +
                               std::to_string(length) + " in a cache of " + std::to_string(call.problem.kv_len)};
  if (rows != nullptr && (rows[sequence] < 0 || rows[sequence] >= a.cache_batch))
    return {Code::kOption, item("cache_batch_idx", sequence, rows[sequence]) + ", expected 0 to " +
                               std::to_string(a.cache_batch - 1) + ": the rows that the cache has"};
  if (leftpad != nullptr && (leftpad[sequence] < 0 || leftpad[sequence] > length))
    return {Code::kOption, item("cache_leftpad", sequence, leftpad[sequence]) + ", expected 0 to " +
                               std::to_string(length) + ": the slots that it has in use"};
  return a.rotary_dim > 0 ? check_rotation_of(call, sequence, length) : Status();
}

// New keys that are packed.
PackedRows new_keys(const Call& call) {
  const std::int32_t rows = call.append.rows;
  return {"cu_seqlens_k_new", "", "k_new", "the cache", "new keys", call.list(Role::kNewStarts), nullptr, rows, rows};
}

// Where a new key is written: counted from the cache's first slot on.
struct Written {
  std::int64_t slot;
  std::int32_t sequence;
  bool operator<(const Written& other) const {
    return std::pair(slot, sequence) < std::pair(other.slot, other.sequence);
  }
};

// Lists that are right otherwise write no slot twice, for which of the two keys would stay is left to chance.
Status check_slots_written(const Call& call) {
  std::vector<Written> all;
  for (std::int32_t sequence = 0; sequence < call.problem.batch; ++sequence) {
    const TableRow row = table_of(call, sequence);
    for (std::int32_t at = 0; at < new_keys_of(call, sequence); ++at) {
      const std::int32_t slot = call.list(Role::kKvLengths)[sequence] + at;
      const bool paged = call.has(Role::kPageTable);
      all.push_back({paged ? std::int64_t{row.entries[slot / row.page]} * row.page + slot % row.page
                           : row.row * call.problem.kv_len + slot,
                     sequence});
    }
  }
  std::sort(all.begin(), all.end());
  const auto twice =
      std::adjacent_find(all.begin(), all.end(), [](const Written& a, const Written& b) { return a.slot == b.slot; });
  if (twice == all.end()) return {};
  return {Code::kOption, "sequences " + std::to_string(twice->sequence) + " and " +
                             std::to_string((twice + 1)->sequence) +
                             " are both given a new key in one slot, expected a slot for each: copy a shared page or "
                             "row before two sequences append to it"};
}

Status check_keys_of(const Call& call, std::int32_t sequence) {
  const Problem& p = call.problem;
  const std::int32_t *lengths = call.list(Role::kKvLengths), *leftpad = call.list(Role::kLeftpad);
  const std::int32_t cached = lengths != nullptr ? lengths[sequence] : p.kv_len;
  if (cached < 0 || cached > p.kv_len) return wrong_length(call, sequence, cached);
  if (call.appends())
    if (Status status = check_append_of(call, sequence, cached); !status.ok()) return status;
  const std::int32_t length = cached + new_keys_of(call, sequence);
  if (!call.has(Role::kPageTable)) return {};
  return check_pages_of(table_of(call, sequence), sequence, leftpad != nullptr ? leftpad[sequence] : 0, length);
}

}  // namespace

Status check_lists(const Call& call, std::string* odd) {
  const Problem& p = call.problem;
  const auto packed = [&](Role starts, Role lengths, Role tensor, const char* maximum_name, const char* what,
                          std::int64_t rows, std::int32_t maximum) -> PackedRows {
    return {row_of(starts).name,
            row_of(lengths).name,
            row_of(tensor).name,
            maximum_name,
            what,
            call.list(starts),
            call.list(lengths),
            rows,
            maximum};
  };
  const PackedRows queries =
      packed(Role::kQStarts, Role::kQLengths, Role::kQ, "max_seqlen_q", "queries", call.q_rows, p.q_len);
  const PackedRows keys =
      packed(Role::kKStarts, Role::kKvLengths, Role::kK, "max_seqlen_k", "keys", call.k_rows, p.kv_len);
  if (Status status = check_packed(queries, p.batch); !status.ok()) return status;
  const bool k_packed = p.k_packed() && !call.appends();
  if (call.appends())
    if (Status status = check_packed(new_keys(call), p.batch); !status.ok()) return status;
  if (k_packed)
    if (Status status = check_packed(keys, p.batch); !status.ok()) return status;
  for (std::int32_t sequence = 0; !k_packed && sequence < p.batch; ++sequence)
    if (Status status = check_keys_of(call, sequence); !status.ok()) return status;
  if (call.appends())
    if (Status status = check_slots_written(call); !status.ok()) return status;
  if (odd == nullptr) return {};
  odd->clear();
  look_at_end(queries, p.batch, odd);
  if (k_packed) look_at_end(keys, p.batch, odd);
  if (call.appends()) look_at_end(new_keys(call), p.batch, odd);
  return {};
}

}  // namespace gqa
