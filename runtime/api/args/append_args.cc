// append_args.cc: see append_args.h.
#include "runtime/api/args/append_args.h"

#include <limits>
#include <string>

namespace gqa {
namespace {

constexpr int kRotaryStep = 16;  // rotary_dim is a multiple of it

Status needs(const Operands& operands, Role what, Role other) {
  if (!operands.has(what) || operands.has(other)) return {};
  return {Code::kOption,
          std::string(row_of(what).name) + " is given without " + row_of(other).name + ", expected both"};
}

Status together(const Operands& operands, Role one, Role other) {
  if (operands.has(one) == operands.has(other)) return {};
  const bool first = operands.has(one);
  return {Code::kOption, std::string(row_of(first ? one : other).name) + " is given without " +
                             row_of(first ? other : one).name + ", expected both or neither"};
}

// Whether a dense cache's sequences that begin anywhere are packed: from one's first row to the next's is a whole
// number of rows; `all`: up to the last one's last.
bool rows_between(const View& cache, std::int32_t* rows, std::int64_t* all) {
  const std::int64_t batch = cache.stride[0], row = cache.stride[1];
  if (row > 0 ? batch % row != 0 : batch != 0) return false;
  const std::int64_t between = row > 0 ? batch / row : 0;
  *all = between * (cache.size[0] - 1) + cache.size[1];
  if (between < 0 || *all > std::numeric_limits<std::int32_t>::max()) return false;
  *rows = static_cast<std::int32_t>(between);
  return true;
}

// Fills in what a dense cache needs whose sequences begin anywhere.
Status fill_rows(const View& k, const View& v, Call* call) {
  Problem& problem = call->problem;
  Append& append = call->append;
  if (rows_between(k, &append.cache_batch_rows, &call->k_rows) &&
      rows_between(v, &append.cache_batch_values, &call->v_rows)) {
    problem.kv_lengths = Lengths::kPacked;
    return {};
  }
  if (call->has(Role::kLeftpad) && problem.kv_len > 1)
    return {Code::kStride, "k has strides " + std::to_string(k.stride[0]) + " and " + std::to_string(k.stride[1]) +
                               " of batch and kv_len, v " + std::to_string(v.stride[0]) + " and " +
                               std::to_string(v.stride[1]) +
                               ": beside cache_leftpad a batch stride of a whole number of rows is expected, fewer "
                               "than 2147483647 in all"};
  // Each row of the cache is a page, and a sequence has one.
  problem.keys = KeyLayout::kPaged;
  problem.page = append.page = problem.kv_len;
  call->pages = append.pages = append.cache_batch;
  return {};
}

void fill_new(const Operands& operands, const Views& views, Append* append) {
  const View& k = views[Role::kNewK];
  append->count = operands.has(Role::kNewStarts) ? 0 : static_cast<std::int32_t>(k.size[1]);
  append->rows = static_cast<std::int32_t>(k.size[0] * k.size[1]);
}

// Whether queries have places of their own: as the caller says it, though a window may hide nothing of so few keys.
bool orders_queries(const gqa_call& options) {
  const std::int32_t* window = options.window_size;
  return options.causal == 1 || (window != nullptr && (window[0] >= 0 || window[1] >= 0));
}

void fill_rotary(const gqa_call& options, const View& cos, Append* append) {
  append->rotary_len = static_cast<std::int32_t>(cos.size[0]);
  append->rotary_dim = static_cast<std::int32_t>(2 * cos.size[1]);
  append->interleaved = options.rotary_interleaved == 1;
  append->advances = orders_queries(options);
}

// Where sequences are padded, each slot becomes a page of its own.
Status fill_pages(const View& table, const View& k, const View& v, Call* call) {
  Problem& problem = call->problem;
  Append& append = call->append;
  append.page = problem.page;
  append.pages = call->pages;
  append.cache_batch = static_cast<std::int32_t>(table.size[0]);
  if (!call->has(Role::kLeftpad)) return {};
  const std::int64_t slots = std::int64_t{append.pages} * append.page;
  const auto gapless = [&](const View& view) {
    return view.size[0] == 1 || view.size[1] == 1 || view.stride[0] == view.stride[1] * view.size[1];
  };
  if (!gapless(k) || !gapless(v) || slots > std::numeric_limits<std::int32_t>::max())
    return {Code::kStride,
            "k has strides " + std::to_string(k.stride[0]) + " and " + std::to_string(k.stride[1]) +
                " of pages and page, v " + std::to_string(v.stride[0]) + " and " + std::to_string(v.stride[1]) +
                ": beside cache_leftpad pages of " + std::to_string(append.page) +
                " are expected to follow each other without a gap, of fewer than 2147483648 slots in all"};
  problem.page = 1;
  call->pages = static_cast<std::int32_t>(slots);
  return {};
}

}  // namespace

Status check_append_fields(const gqa_call& options, const Operands& operands) {
  if (options.rotary_interleaved != 0 && options.rotary_interleaved != 1)
    return {Code::kOption,
            "gqa_call.rotary_interleaved is " + std::to_string(options.rotary_interleaved) + ", expected 0 or 1"};
  Status status = together(operands, Role::kNewK, Role::kNewV);
  if (status.ok()) status = needs(operands, Role::kNewK, Role::kKvLengths);
  if (status.ok()) status = needs(operands, Role::kNewStarts, Role::kNewK);
  if (status.ok()) status = together(operands, Role::kCos, Role::kSin);
  if (status.ok()) status = needs(operands, Role::kCos, Role::kNewK);
  if (status.ok()) status = needs(operands, Role::kRotaryStarts, Role::kCos);
  if (!status.ok() || !operands.has(Role::kKStarts)) return status;
  return {
      Code::kOption,
      "k_new, cache_batch_idx or cache_leftpad is given beside cu_seqlens_k, expected one of them: a cache has a row "
      "a sequence"};
}

Status check_rotary(const Operands& operands, const Sizes& sizes) {
  if (!operands.has(Role::kCos)) return {};
  const std::int64_t columns = sizes[Dim::kRotaryHalf], head_dim = sizes[Dim::kHeadDim];
  if (2 * columns % kRotaryStep == 0 && 2 * columns <= head_dim) return {};
  return {Code::kShape, "rotary_cos has " + std::to_string(columns) + " columns and so rotary_dim " +
                            std::to_string(2 * columns) + ", expected a multiple of 16 up to head_dim, which is " +
                            std::to_string(head_dim)};
}

Status fill_append(const gqa_call& options, const Operands& operands, const Views& views, Call* call) {
  const View &k = views[Role::kK], &v = views[Role::kV];
  Append& append = call->append;
  if (adds_keys(operands))
    fill_new(operands, views, &append);
  else
    call->leave_out(Role::kNewStarts);
  if (operands.has(Role::kCos)) fill_rotary(options, views[Role::kCos], &append);
  append.cache_batch = static_cast<std::int32_t>(k.size[0]);
  Problem& problem = call->problem;
  problem.kv_lengths = Lengths::kEach;
  if (problem.paged()) return fill_pages(views[Role::kPageTable], k, v, call);
  return call->begins_anywhere() ? fill_rows(k, v, call) : Status();
}

}  // namespace gqa
