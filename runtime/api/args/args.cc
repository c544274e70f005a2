// args.cc: see args.h; tensor_rules.cc has the rules of one tensor, cache_args.cc those of lengths, pages and windows,
// score_args.cc those of a soft cap, append_args.cc those of appending, struct_args.cc the C structs alone. Checks run
// from what a tensor is (there, rank, dtype, device, sizes) to how tensors agree (shapes, heads) to where they lie
// (strides, alignment, overlap); the first that fails answers.
#include "runtime/api/args/args.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>

#include "runtime/api/args/append_args.h"
#include "runtime/api/args/cache_args.h"
#include "runtime/api/args/recent_calls.h"
#include "runtime/api/args/score_args.h"
#include "runtime/api/c_struct.h"
#include "runtime/api/tensors/dtype.h"
#include "runtime/api/tensors/tensor_rules.h"
#include "runtime/api/tensors/view.h"

namespace gqa {
namespace {

constexpr Role kQ = {"q", 4, "(batch, q_len, q_heads, head_dim)"};
constexpr Role kK = {"k", 4, "(batch, kv_len, kv_heads, head_dim)"};
constexpr Role kV = {"v", 4, "(batch, kv_len, kv_heads, head_dim_v)"};
constexpr Role kOut = {"out", 4, "(batch, q_len, q_heads, head_dim_v)"};
constexpr Role kPagedK = {"k", 4, "(pages, page, kv_heads, head_dim)"};
constexpr Role kPagedV = {"v", 4, "(pages, page, kv_heads, head_dim_v)"};
constexpr Role kLse = {"lse", 3, "(batch, q_heads, q_len)"};
// With cu_seqlens_q or cu_seqlens_k.
constexpr Role kPackedQ = {"q", 3, "(total_q, q_heads, head_dim)"};
constexpr Role kPackedOut = {"out", 3, "(total_q, q_heads, head_dim_v)"};
constexpr Role kPackedLse = {"lse", 2, "(q_heads, total_q)"};
constexpr Role kJoinedK = {"k", 3, "(total_k, kv_heads, head_dim)"};
constexpr Role kJoinedV = {"v", 3, "(total_k, kv_heads, head_dim_v)"};

// What a caller handed in.
struct GivenTensors {
  const DLTensor &q, &k, &v, &out;
  const DLTensor* lse;  // may be null
  ScoreTensors scores;
  CacheLists lists;
  const gqa_call* appending;  // null where nothing is appended
  bool no_keys;               // PlaceholderKeys
  bool no_query;              // StandInQuery

  bool paged() const { return lists.table != nullptr; }
  bool any_batch() const { return appending != nullptr && appending->cache_batch_idx != nullptr; }
  AppendGiven append() const { return {*appending, q, k, v, lists.sequences(q.shape[0])}; }
  // After check_shapes(): of sequences in a batch.
  ScoredSizes scored_sizes() const {
    const std::int64_t keys = paged() ? k.shape[1] * lists.table->shape[1] : k.shape[1];
    return {lists.sequences(q.shape[0]), q.shape[1], q.shape[2], keys,
            lists.q_starts != nullptr || lists.k_starts != nullptr};
  }
  const Role& k_role() const { return paged() ? kPagedK : kK; }
  const Role& v_role() const { return paged() ? kPagedV : kV; }
};

// ---- how tensors agree

Status check_shapes(const GivenTensors& given) {
  const DLTensor &q = given.q, &k = given.k, &v = given.v, &out = given.out;
  const CacheLists& lists = given.lists;
  const bool paged = given.paged();
  if (!paged && lists.k_starts == nullptr && !given.any_batch()) {
    const char* of = lists.q_starts != nullptr ? "cu_seqlens_q" : "q";
    const std::int64_t batch = lists.sequences(q.shape[0]);
    if (Status status = check_equal(kK, k.shape[0], "batch", of, batch); !status.ok()) return status;
    if (Status status = check_equal(kV, v.shape[0], "batch", of, batch); !status.ok()) return status;
  }
  const struct {
    const Role& role;
    const DLTensor& tensor;
    int at;
    const char* dim;
    const char* other_name;
    const DLTensor& other;
  } pairs[] = {{kV, v, 0, "pages", "k", k},
               {kOut, out, 0, "batch", "q", q},
               {kV, v, 1, paged ? "page" : "kv_len", "k", k},
               {kOut, out, 1, "q_len", "q", q},
               {kV, v, 2, "kv_heads", "k", k},
               {kOut, out, 2, "q_heads", "q", q},
               {kK, k, 3, "head_dim", "q", q},
               {kOut, out, 3, "head_dim_v", "v", v}};
  for (const auto& pair : pairs) {
    Status status =
        check_equal(pair.role, pair.tensor.shape[pair.at], pair.dim, pair.other_name, pair.other.shape[pair.at]);
    if (!status.ok()) return status;
  }
  return paged ? check_table_keys(*lists.table, k.shape[1]) : Status();
}

Status check_heads(const DLTensor& q, const DLTensor& k) {
  if (q.shape[2] % k.shape[2] == 0) return {};
  return {Code::kHeads, "k has kv_heads " + std::to_string(k.shape[2]) + ", but q has q_heads " +
                            std::to_string(q.shape[2]) + ": q_heads must be a multiple of kv_heads"};
}

Status check_lse_shape(const DLTensor& lse, const DLTensor& q) {
  Status status = check_equal(kLse, lse.shape[0], "batch", "q", q.shape[0]);
  if (status.ok()) status = check_equal(kLse, lse.shape[1], "q_heads", "q", q.shape[2]);
  if (status.ok()) status = check_equal(kLse, lse.shape[2], "q_len", "q", q.shape[1]);
  return status;
}

// ---- where tensors lie

struct Views {
  View q, k, v, out, lse;
  ScoreViews scores;
  bool no_keys = false;
  ListViews lists;
  AppendViews append;
};

Status check_written(const View& written, const Views& views, const CacheLists& lists) {
  if (Status status = check_distinct(written); !status.ok()) return status;
  for (const View* other :
       {&views.q, &views.k, &views.v, &views.scores.sink, &views.scores.scale, &views.scores.bias}) {
    if (other->data == 0 || (views.no_keys && (other == &views.k || other == &views.v))) continue;  // none of its own
    if (Status status = check_apart(written, *other); !status.ok()) return status;
  }
  return check_apart_from(written, lists, views.lists);
}

Status check_all_written(const Views& views, bool lse, const CacheLists& lists) {
  Status status = check_written(views.out, views, lists);
  if (status.ok() && lse) status = check_written(views.lse, views, lists);
  if (status.ok() && lse) status = check_apart(views.lse, views.out);
  return status;
}

// ---- filling the call

// A call of the header that had no lengths, pages and windows, no packed sequences, no softcap, no new keys, no bias or
// no tuning yet ends before them: NULL and 0.
constexpr std::size_t kCallWithoutCache = offsetof(gqa_call, cache_seqlens);
constexpr std::size_t kCallWithoutPacking = offsetof(gqa_call, cu_seqlens_q);
constexpr std::size_t kCallWithoutScores = offsetof(gqa_call, softcap);
constexpr std::size_t kCallWithoutAppending = offsetof(gqa_call, k_new);
constexpr std::size_t kCallWithoutArrays = offsetof(gqa_call, score_scale);
constexpr std::size_t kCallWithoutTuning = offsetof(gqa_call, tuning);

Status check_call(const gqa_call& call) {
  if (Status status = check_struct(call, "gqa_call"); !status.ok()) return status;
  if (!is_zero_or_normal(call.scale))
    return {Code::kOption, "gqa_call.scale is " + float_text(call.scale) +
                               ", expected a finite number of at least 1.17549e-38, or 0 for 1/sqrt(head_dim)"};
  if (call.causal != 0 && call.causal != 1) {
    return {Code::kOption, "gqa_call.causal is " + std::to_string(call.causal) + ", expected 0 or 1"};
  }
  if (!has_known_tuning(call)) {
    return {Code::kOption, "gqa_call.tuning is " + std::to_string(number(call.tuning)) +
                               ", expected 0 (as the handle's option), 1 (now), 2 (guess) or 3 (cached only)"};
  }
  if (Status status = check_scores(call); !status.ok()) return status;
  if (Status status = check_packing(call); !status.ok()) return status;
  if (Status status = check_append_fields(call); appends(&call) && !status.ok()) return status;
  return check_window("gqa_call.window_size", call.window_size);
}

Status check_all_present(const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out,
                         const gqa_call* options) {
  Status status = check_present(kQ, q);
  if (status.ok()) status = check_present(kK, k);
  if (status.ok()) status = check_present(kV, v);
  if (status.ok()) status = check_present(kOut, out);
  if (status.ok() && options != nullptr) status = check_call(*options);
  if (status.ok() && options != nullptr && options->lse != nullptr) status = check_present(kLse, options->lse);
  if (status.ok()) status = check_lists_present(lists_of(options));
  if (status.ok()) status = check_present(score_tensors_of(options));
  if (status.ok() && appends(options)) status = check_append_present(*options);
  return status;
}

Status check_liftable(const Role& role, const DLTensor* tensor) {
  Status status = check_present(role, tensor);
  return status.ok() ? check_rank(role, *tensor) : status;
}

Status no_half(const DLTensor& q) {
  return {Code::kDtype, "q is " + dtype_text(q.dtype) + ", expected float16 or bfloat16: cast it"};
}

// A call that attends to nothing is asked what q and out are. If it appends nothing either, nothing else is looked at.
Status check_q_and_out(const Device& device, const DLTensor& q, const DLTensor& out, bool packed) {
  const Role &q_role = packed ? kPackedQ : kQ, &out_role = packed ? kPackedOut : kOut;
  Status status = check_rank(q_role, q);
  if (status.ok()) status = check_rank(out_role, out);
  if (!status.ok()) return status;
  DType dtype{};
  if (!is_half(q.dtype, &dtype)) return no_half(q);
  constexpr const char* kDims[] = {"batch", "q_len", "q_heads"};
  for (int at = 0; at + 1 < q.ndim && status.ok(); ++at)
    status = check_equal(out_role, out.shape[at], kDims[packed ? at + 1 : at], "q", q.shape[at]);
  if (status.ok()) status = check_on_device(device, "q", q.device);
  if (status.ok()) status = check_on_device(device, "out", out.device);
  return status;
}

// Packed tensors are checked before they are taken for such with a batch.
Status check_packed(const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out, const DLTensor* lse,
                    const CacheLists& lists) {
  Status status;
  if (lists.q_starts != nullptr) {
    status = check_liftable(kPackedQ, q);
    if (status.ok()) status = check_liftable(kPackedOut, out);
    if (status.ok() && lse != nullptr) status = check_liftable(kPackedLse, lse);
  }
  if (lists.k_starts == nullptr) return status;
  if (status.ok()) status = check_liftable(kJoinedK, k);
  if (status.ok()) status = check_liftable(kJoinedV, v);
  return status;
}

Status check_tensors(const Device& device, const GivenTensors& given, DType* dtype) {
  constexpr const char* kLikeQ = ", but q is ";
  const auto& [q, k, v, out, lse, scores, lists, appending, no_keys, no_query] = given;
  if (Status status = check_rank(kQ, q); !status.ok()) return status;
  if (!is_half(q.dtype, dtype)) return no_half(q);
  Status status = check_tensor(device, kQ, q, q.dtype, kLikeQ);
  if (status.ok()) status = check_tensor(device, given.k_role(), k, q.dtype, kLikeQ);
  if (status.ok()) status = check_tensor(device, given.v_role(), v, q.dtype, kLikeQ);
  if (status.ok()) status = check_tensor(device, kOut, out, q.dtype, kLikeQ);
  if (status.ok() && lse != nullptr) status = check_tensor(device, kLse, *lse, DLDataType{kDLFloat, 32, 1});
  if (status.ok()) status = check_list_tensors(device, lists, q.shape[0], given.any_batch());
  if (status.ok()) status = check_shapes(given);
  if (status.ok()) status = check_heads(q, k);
  if (status.ok() && lse != nullptr) status = check_lse_shape(*lse, q);
  if (status.ok()) status = check_score_tensors(device, scores, given.scored_sizes(), q.dtype);
  if (status.ok() && appending != nullptr) status = check_append_tensors(device, given.append());
  return status;
}

Status read_views(const GivenTensors& given, Views* views) {
  constexpr const char* kDim = "the head dimension";
  views->no_keys = given.no_keys;
  Status status = read_view(kQ, given.q, 2, kDim, &views->q);
  if (status.ok()) status = read_view(given.k_role(), given.k, 2, kDim, &views->k);
  if (status.ok()) status = read_view(given.v_role(), given.v, 2, kDim, &views->v);
  if (status.ok()) status = read_view(kOut, given.out, 2, kDim, &views->out);
  if (status.ok() && given.lse != nullptr) status = read_view(kLse, *given.lse, 4, nullptr, &views->lse);
  if (status.ok()) status = read_lists(given.lists, &views->lists);
  if (status.ok()) status = read_views(given.scores, &views->scores);
  if (given.no_query) views->out = {};  // nobody's memory
  if (status.ok() && !given.no_query) status = check_all_written(*views, given.lse != nullptr, given.lists);
  if (status.ok() && given.appending != nullptr)
    status = read_append(given.append(), views->k, views->v, views->out, views->lse, &views->append);
  return status;
}

void fill_problem(const GivenTensors& given, const Views& views, DType dtype, Problem* problem) {
  const auto size = [](const View& view, int at) { return static_cast<std::int32_t>(view.size[at]); };
  problem->set_types(dtype);
  problem->lse = given.lse != nullptr;
  problem->batch = size(views.q, 0);
  problem->q_len = size(views.q, 1);
  problem->q_heads = size(views.q, 2);
  problem->head_dim = size(views.q, 3);
  problem->keys = given.paged() ? KeyLayout::kPaged : KeyLayout::kDense;
  problem->page = given.paged() ? size(views.k, 1) : 0;
  problem->kv_len = given.paged() ? problem->page * size(views.lists.table, 1) : size(views.k, 1);
  problem->kv_heads = size(views.k, 2);
  problem->head_dim_v = size(views.v, 3);
  bool aligned = true, mappable = true;
  for (const View* view : {&views.q, &views.k, &views.v, &views.out}) {
    aligned = aligned && view->rows_aligned(kVectorBytes);
    mappable = mappable && view->mappable();
  }
  problem->align = aligned ? kVectorBytes : 2;
  problem->tma = aligned && mappable;
}

Strides strides(const View& view) { return {view.stride[0], view.stride[1], view.stride[2]}; }

void fill_call(const Views& views, const gqa_call* options, Call* call) {
  call->q = reinterpret_cast<const void*>(views.q.data);
  call->k = reinterpret_cast<const void*>(views.k.data);
  call->v = reinterpret_cast<const void*>(views.v.data);
  call->out = reinterpret_cast<void*>(views.out.data);
  call->q_strides = strides(views.q);
  call->k_strides = strides(views.k);
  call->v_strides = strides(views.v);
  call->out_strides = strides(views.out);
  call->q_rows = views.q.size[1];
  call->k_rows = views.no_keys ? 0 : views.k.size[1];
  call->lse = reinterpret_cast<float*>(views.lse.data);
  call->lse_batch_stride = views.lse.stride[0];
  call->lse_head_stride = views.lse.stride[1];
  call->lse_row_stride = views.lse.stride[2];
  const float given = options != nullptr ? options->scale : 0;
  call->scale = given != 0 ? given : 1.0f / std::sqrt(static_cast<float>(call->problem.head_dim));
  call->stream = options != nullptr ? options->stream : nullptr;
}

// A call that appends and has no query attends to nothing.
void leave_out_queries(Call* call) {
  call->q = call->out = nullptr;
  call->q_rows = 0;
}

}  // namespace

bool has_known_tuning(const gqa_call& call) {
  return number(call.tuning) >= GQA_CALL_TUNE_AS_HANDLE && number(call.tuning) <= GQA_CALL_TUNE_CACHED_ONLY;
}

std::optional<Tuning> tuning_of(const gqa_call* call) {
  switch (call != nullptr && call->size > kCallWithoutTuning ? call->tuning : GQA_CALL_TUNE_AS_HANDLE) {
    case GQA_CALL_TUNE_NOW:
      return Tuning::kNow;
    case GQA_CALL_TUNE_GUESS:
      return Tuning::kGuess;
    case GQA_CALL_TUNE_CACHED_ONLY:
      return Tuning::kCachedOnly;
    default:
      return std::nullopt;
  }
}

Status make_call(const Device& device, const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out,
                 const gqa_call* options, Call* call, std::optional<Append>* append) {
  if (options != nullptr && (options->size == kCallWithoutCache || options->size == kCallWithoutPacking ||
                             options->size == kCallWithoutScores || options->size == kCallWithoutAppending ||
                             options->size == kCallWithoutArrays || options->size == kCallWithoutTuning)) {
    gqa_call whole{};
    std::memcpy(&whole, options, options->size);
    whole.size = sizeof(whole);
    return make_call(device, q, k, v, out, &whole, call, append);
  }
  const GivenCall given = {q, k, v, out, options};
  if (find_recent_call(device, given, call)) return {};
  if (Status status = check_all_present(q, k, v, out, options); !status.ok()) return status;
  const CacheLists lists = lists_of(options);
  const bool q_packed = lists.q_starts != nullptr, k_packed = lists.k_starts != nullptr;
  const bool no_sequence = has_no_sequence(lists.q_starts) || (!q_packed && has_no_row(*q) && q->shape[0] == 0);
  const bool attends = !has_no_row(*q) && !no_sequence;
  // Rows of new keys that are nobody's are not added.
  const bool adds = adds_keys(options) && !(no_sequence && has_no_sequence(options->cu_seqlens_k_new));
  if (!attends)
    if (Status status = check_q_and_out(device, *q, *out, q_packed); !status.ok() || !adds) return status;
  const DLTensor* lse = options != nullptr && attends ? options->lse : nullptr;
  if (Status status = check_packed(q, k, v, out, lse, lists); !status.ok()) return status;
  const StandInQuery query(*q, *out, !attends);
  const PlaceholderKeys keys(*query.q(), *k, *v, *query.out(), lists);
  const Unsqueezed whole_q(query.q(), q_packed), whole_k(keys.k(), k_packed), whole_v(keys.v(), k_packed),
      whole_out(query.out(), q_packed), whole_lse(lse, q_packed);
  const GivenTensors tensors = {*whole_q.get(),  *whole_k.get(),
                                *whole_v.get(),  *whole_out.get(),
                                whole_lse.get(), attends ? score_tensors_of(options) : ScoreTensors(),
                                lists,           append != nullptr && appends(options) ? options : nullptr,
                                keys.used(),     query.used()};
  DType dtype{};
  if (Status status = check_tensors(device, tensors, &dtype); !status.ok()) return status;
  Views views;
  if (Status status = read_views(tensors, &views); !status.ok()) return status;
  fill_problem(tensors, views, dtype, &call->problem);
  fill_lengths(tensors.lists, options, &call->problem);
  if (options != nullptr) fill_mask(options->causal == 1, options->window_size, &call->problem);
  fill_scores(score_traits_of(options, tensors.scores), &call->problem);
  fill_call(views, options, call);
  fill_lists(tensors.lists, views.lists, views.k.size[0], call);
  fill_score_numbers(options, views.scores, call);
  if (tensors.appending != nullptr) {
    Status status = fill_append(*options, views.append, views.k, views.v, &append->emplace(), call);
    if (status.ok()) status = check(call->problem);
    if (!attends) leave_out_queries(call);
    return status;
  }
  if (Status status = check(call->problem); !status.ok()) return status;
  if (!keys.used()) remember_call(given, *call);
  return {};
}

}  // namespace gqa
