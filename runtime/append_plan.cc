// append_plan.cc: see append_plan.h.
#include "runtime/append_plan.h"

#include <algorithm>

#include "runtime/tensor_strides.h"

namespace gqa {
namespace {

constexpr std::int64_t kPieceBytes = 256;      // what pieces of the memory between are aligned to
constexpr int kVectorBytes = 16, kVector = 8;  // elements
constexpr int kManyRows = 4096;                // a warp each fills the largest GPUs
constexpr int kLists = 3;                      // lengths, and where keys and values begin

std::int64_t padded(std::int64_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes; }

std::int64_t list_bytes(const Call& call) { return padded(std::int64_t{4} * call.problem.batch); }

// The table that is made has a column a page, or, of padded sequences, a key.
std::int32_t out_page(const Append& a) { return a.leftpad != nullptr ? 1 : a.page; }
std::int32_t out_columns(const Call& call) {
  const Append& a = *call.append;
  return a.makes_table() ? (call.problem.kv_len + out_page(a) - 1) / out_page(a) : 0;
}
std::int64_t table_bytes(const Call& call) { return padded(std::int64_t{4} * call.problem.batch * out_columns(call)); }

// Query rows of all sequences.
std::int64_t query_rows(const Call& call) {
  return call.problem.q_packed() ? call.q_rows : std::int64_t{call.problem.batch} * call.problem.q_len;
}

TensorStrides cache_strides(const Strides& s, std::int64_t batch) { return {batch, s.row, s.head}; }

// As tensors of the caller's: written through Call's addresses, which kernels of attention only read.
void* cache(const void* tensor) { return const_cast<void*>(tensor); }

void set_queries(const Call& call, char* copy, AppendParams* p) {
  const Problem& problem = call.problem;
  p->q = call.q;
  p->q_out = copy;
  p->q_strides = tensor_strides(call.q_strides);
  const std::int64_t row = std::int64_t{problem.q_heads} * problem.head_dim;
  p->q_out_strides = {problem.q_packed() ? 0 : problem.q_len * row, row, problem.head_dim};
}

}  // namespace

bool is_plain_append(const Call& call) {
  const Append& a = *call.append;
  const Problem& problem = call.problem;
  if (a.anywhere() || a.starts != nullptr || problem.q_packed()) return false;
  if (a.count <= 0 || a.count > problem.q_len) return false;
  const auto whole = [](const void* rows, const Strides& s) {
    return reinterpret_cast<std::uintptr_t>(rows) % kVectorBytes == 0 && (s.batch | s.row | s.head) % kVector == 0;
  };
  return whole(a.k, a.k_strides) && whole(a.v, a.v_strides) && whole(a.cos, {0, a.cos_stride, 0}) &&
         whole(a.sin, {0, a.sin_stride, 0});
}

std::int64_t append_bytes(const Call& call) {
  const std::int64_t queries =
      call.append->rotary_dim == 0 ? 0 : query_rows(call) * call.problem.q_heads * call.problem.head_dim;
  return kLists * list_bytes(call) + table_bytes(call) + queries * element_bytes(call.problem.q_type);
}

NewTokens new_tokens(const Append& a) {
  return {a.k,
          a.v,
          a.cos,
          a.sin,
          tensor_strides(a.k_strides),
          tensor_strides(a.v_strides),
          a.cos_stride,
          a.sin_stride,
          a.rotary_starts,
          a.count,
          a.rotary_dim,
          a.rotary_len,
          a.interleaved,
          a.advances};
}

AppendParams append_params(const Call& call, char* between) {
  const Append& a = *call.append;
  const Problem& problem = call.problem;
  AppendParams p{};
  if (a.rotary_dim > 0) set_queries(call, between + kLists * list_bytes(call) + table_bytes(call), &p);
  p.tokens = new_tokens(a);
  p.k = cache(call.k);
  p.v = cache(call.v);
  p.k_strides = cache_strides(call.k_strides, a.k_batch_stride);
  p.v_strides = cache_strides(call.v_strides, a.v_batch_stride);
  p.lengths = call.kv_lengths;
  p.batch_idx = a.batch_idx;
  p.leftpad = a.leftpad;
  p.new_starts = a.starts;
  p.table = call.page_table;
  p.table_stride = call.page_table_stride;
  p.q_starts = call.q_starts;
  p.q_lengths = call.q_lengths;
  p.out_lengths = reinterpret_cast<int*>(between);
  if (a.makes_starts()) p.out_starts = reinterpret_cast<int*>(between + list_bytes(call));
  if (a.values_apart()) p.out_value_starts = reinterpret_cast<int*>(between + 2 * list_bytes(call));
  if (a.makes_table()) p.out_table = reinterpret_cast<int*>(between + kLists * list_bytes(call));
  p.out_page = out_page(a);
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
  p.bf16 = problem.q_type == DType::kBF16;
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
  attended.append = nullptr;
  attended.kv_lengths = p.out_lengths;
  attended.k_starts = p.out_starts;
  attended.v_starts = p.out_value_starts;
  attended.k_in_slots = p.out_starts != nullptr;
  if (p.out_table != nullptr) {
    attended.page_table = p.out_table;
    attended.page_table_stride = p.out_columns;
  }
  if (p.q == nullptr) return attended;
  attended.q = p.q_out;
  attended.q_strides = {p.q_out_strides.batch, p.q_out_strides.row, p.q_out_strides.head};
  return attended;
}

}  // namespace gqa
