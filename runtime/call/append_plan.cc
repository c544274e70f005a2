// append_plan.cc: see append_plan.h.
#include "runtime/call/append_plan.h"

#include <algorithm>

namespace gqa {
namespace {

constexpr std::int64_t kPieceBytes = 256;  // what pieces of the memory between are aligned to
constexpr int kVectorBytes = 16;
constexpr int kManyRows = 4096;  // a warp each fills the largest GPUs
constexpr int kLists = 3;        // lengths, and where keys and values begin

std::int64_t padded(std::int64_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes; }

std::int64_t list_bytes(const Call& call) { return padded(std::int64_t{4} * call.problem.batch); }

// The table that is made has a column a page, or, of padded sequences, a key.
std::int32_t out_page(const Call& call) { return call.has(Role::kLeftpad) ? 1 : call.append.page; }
std::int32_t out_columns(const Call& call) {
  return makes_table(call) ? (call.problem.kv_len + out_page(call) - 1) / out_page(call) : 0;
}
std::int64_t table_bytes(const Call& call) { return padded(std::int64_t{4} * call.problem.batch * out_columns(call)); }

// Query rows of all sequences.
std::int64_t query_rows(const Call& call) {
  return call.problem.q_packed() ? call.q_rows : std::int64_t{call.problem.batch} * call.problem.q_len;
}

// From a sequence to the next, or a page: where a slot is a page of its own, from a slot to the next.
std::int64_t attended_batch(const Call& call, Role role) {
  const Strides& s = call.strides(role);
  if (makes_starts(call)) return 0;
  return makes_table(call) && out_page(call) != call.append.page ? s.row : s.batch;
}

void set_queries(const Call& call, char* copy, AppendParams* p) {
  const Problem& problem = call.problem;
  p->q = call.at(Role::kQ);
  p->q_out = copy;
  p->q_strides = tensor_strides(call.strides(Role::kQ));
  const std::int64_t row = std::int64_t{problem.q_heads} * problem.head_dim;
  p->q_out_strides = {problem.q_packed() ? 0 : problem.q_len * row, row, problem.head_dim};
}

}  // namespace

bool makes_starts(const Call& call) { return call.begins_anywhere() && call.append.page == 0; }
bool makes_table(const Call& call) { return call.begins_anywhere() && call.append.page > 0; }
bool values_apart(const Call& call) {
  return makes_starts(call) && call.append.cache_batch_values != call.append.cache_batch_rows;
}

bool is_plain_append(const Call& call) {
  const Problem& problem = call.problem;
  if (call.begins_anywhere() || call.has(Role::kNewStarts) || problem.q_packed()) return false;
  if (call.append.count <= 0 || call.append.count > problem.q_len) return false;
  const int vector = kVectorBytes / element_bytes(problem.q_type);  // elements
  const auto whole = [&](Role role) {
    const Strides& s = call.strides(role);
    return !call.has(role) || (reinterpret_cast<std::uintptr_t>(call.at(role)) % kVectorBytes == 0 &&
                               (s.batch | s.row | s.head) % vector == 0);
  };
  return whole(Role::kNewK) && whole(Role::kNewV) && whole(Role::kCos) && whole(Role::kSin);
}

std::int64_t append_bytes(const Call& call) {
  const std::int64_t queries =
      call.append.rotary_dim == 0 ? 0 : query_rows(call) * call.problem.q_heads * call.problem.head_dim;
  return kLists * list_bytes(call) + table_bytes(call) + queries * element_bytes(call.problem.q_type);
}

NewTokens new_tokens(const Call& call) {
  if (!call.appends()) return {};
  const Append& a = call.append;
  return {call.at(Role::kNewK),
          call.at(Role::kNewV),
          call.at(Role::kCos),
          call.at(Role::kSin),
          tensor_strides(call.strides(Role::kNewK)),
          tensor_strides(call.strides(Role::kNewV)),
          call.strides(Role::kCos).row,
          call.strides(Role::kSin).row,
          call.list(Role::kRotaryStarts),
          a.count,
          a.rotary_dim,
          a.rotary_len,
          a.interleaved,
          a.advances};
}

AppendParams append_params(const Call& call, char* between) {
  const Append& a = call.append;
  const Problem& problem = call.problem;
  AppendParams p{};
  if (a.rotary_dim > 0) set_queries(call, between + kLists * list_bytes(call) + table_bytes(call), &p);
  p.tokens = new_tokens(call);
  p.k = call.to(Role::kK);
  p.v = call.to(Role::kV);
  p.k_strides = tensor_strides(call.strides(Role::kK));
  p.v_strides = tensor_strides(call.strides(Role::kV));
  p.lengths = call.list(Role::kKvLengths);
  p.batch_idx = call.list(Role::kBatchIdx);
  p.leftpad = call.list(Role::kLeftpad);
  p.new_starts = call.list(Role::kNewStarts);
  p.table = call.list(Role::kPageTable);
  p.table_stride = call.strides(Role::kPageTable).batch;
  p.q_starts = call.list(Role::kQStarts);
  p.q_lengths = call.list(Role::kQLengths);
  p.out_lengths = reinterpret_cast<int*>(between);
  if (makes_starts(call)) p.out_starts = reinterpret_cast<int*>(between + list_bytes(call));
  if (values_apart(call)) p.out_value_starts = reinterpret_cast<int*>(between + 2 * list_bytes(call));
  if (makes_table(call)) p.out_table = reinterpret_cast<int*>(between + kLists * list_bytes(call));
  p.out_page = out_page(call);
  p.out_columns = out_columns(call);
  p.batch = problem.batch;
  p.q_rows = static_cast<int>(query_rows(call));
  p.q_len = problem.q_len;
  p.q_heads = problem.q_heads;
  p.new_rows = a.rows;
  p.kv_heads = problem.kv_heads;
  p.head_dim = problem.head_dim;
  p.head_dim_v = problem.head_dim_v;
  p.kv_len = problem.kv_len;
  p.page = a.page;
  p.page_count = a.pages;
  p.cache_batch = a.cache_batch;
  p.cache_batch_rows = a.cache_batch_rows;
  p.cache_batch_values = a.cache_batch_values;
  p.type = static_cast<int>(problem.q_type);
  p.warp_heads = std::max(p.q_rows, p.new_rows) < kManyRows ? kFewHeads : kManyHeads;
  return p;
}

std::int64_t append_items(const AppendParams& p) {
  const std::int64_t queries = p.q == nullptr ? 0 : std::int64_t{p.q_rows} * append_groups(p, p.q_heads);
  return queries + std::int64_t{p.new_rows} * append_groups(p, p.kv_heads);
}

unsigned append_blocks(const AppendParams& p) {
  constexpr std::int64_t kWarps = kAppendThreads / 32;
  const std::int64_t of_lists = (p.batch + kAppendThreads - 1) / kAppendThreads;
  return static_cast<unsigned>(std::max(of_lists, (append_items(p) + kWarps - 1) / kWarps));
}

Call attended_call(const Call& call, const AppendParams& p) {
  Call attended = call;
  attended.leave_out(kAppendedRoles);
  for (const Role role : {Role::kK, Role::kV}) attended.strides(role).batch = attended_batch(call, role);
  attended.place(Role::kKvLengths, p.out_lengths);
  attended.place(Role::kKStarts, p.out_starts);
  attended.v_starts = p.out_value_starts;
  attended.k_in_slots = p.out_starts != nullptr;
  if (p.out_table != nullptr) attended.set(Role::kPageTable, p.out_table, {p.out_columns, 0, 0});
  if (p.q == nullptr) return attended;
  attended.set(Role::kQ, p.q_out, {p.q_out_strides.batch, p.q_out_strides.row, p.q_out_strides.head});
  return attended;
}

}  // namespace gqa
