// cache_args.cc: see cache_args.h.
#include "runtime/api/args/cache_args.h"

#include <algorithm>
#include <limits>
#include <string>

#include "search/problem/mask.h"

namespace gqa {
namespace {

Status check_maximum(const char* name, std::int64_t most, const char* list, bool packed) {
  if (packed ? most >= 0 && most <= std::numeric_limits<std::int32_t>::max() : most == 0) return {};
  return {Code::kSize, std::string("gqa_call.") + name + " is " + std::to_string(most) + ", expected " +
                           (packed ? "0 to 2147483647, the most that a sequence of " + std::string(list) + " has"
                                   : "0, since there is no " + std::string(list))};
}

}  // namespace

Status check_packing(const gqa_call& call, const Operands& operands) {
  const bool q_packed = operands.has(Role::kQStarts), k_packed = operands.has(Role::kKStarts);
  if (Status status = check_maximum("max_seqlen_q", call.max_seqlen_q, "cu_seqlens_q", q_packed); !status.ok())
    return status;
  if (Status status = check_maximum("max_seqlen_k", call.max_seqlen_k, "cu_seqlens_k", k_packed); !status.ok())
    return status;
  if (!operands.has(Role::kQLengths) || q_packed) return {};
  return {Code::kOption, std::string(row_of(Role::kQLengths).name) + " is given without " +
                             row_of(Role::kQStarts).name + ", expected both or neither"};
}

Status check_window(const char* name, const std::int32_t* window) {
  if (window == nullptr || (window[0] >= -1 && window[1] >= -1)) return {};
  return {Code::kOption, std::string(name) + " is {" + std::to_string(window[0]) + ", " + std::to_string(window[1]) +
                             "}, expected keys before and after the query's own, or -1 for all of them"};
}

void fill_mask(bool causal, const std::int32_t* window, Problem* p) {
  const std::int32_t left = window != nullptr ? window[0] : -1, right = window != nullptr ? window[1] : -1;
  set_call_window(left, causal ? 0 : right, p);
}

void fill_sequences(const Operands& operands, const Sizes& sizes, const gqa_call* options, Problem* p) {
  // A problem has sequences and rows, even where a call has none.
  const auto most = [](std::int64_t given) { return static_cast<std::int32_t>(std::max<std::int64_t>(given, 1)); };
  p->kv_lengths = operands.has(Role::kKStarts)     ? Lengths::kPacked
                  : operands.has(Role::kKvLengths) ? Lengths::kEach
                                                   : Lengths::kOne;
  p->set_q_packed(operands.has(Role::kQStarts));
  p->keys = operands.has(Role::kPageTable) ? KeyLayout::kPaged : KeyLayout::kDense;
  p->page = static_cast<std::int32_t>(sizes[Dim::kPage]);
  p->batch = most(sizes[Dim::kBatch]);
  p->q_len = most(p->q_packed() ? options->max_seqlen_q : sizes[Dim::kQLen]);
  p->kv_len = most(p->k_packed() ? options->max_seqlen_k : sizes[Dim::kKvLen]);
}

}  // namespace gqa
