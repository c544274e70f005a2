// args.cc: see args.h; operands.cc has the rules of each tensor, sizes.cc how sizes agree, views.cc how memory does,
// cache_args.cc, score_args.cc and append_args.cc what a group of fields says, struct_args.cc the C structs alone.
// Checks run from what a tensor is (there, rank, dtype, device, sizes) to how tensors agree (shapes, heads) to where
// they lie (strides, alignment, overlap); the first that fails answers.
#include "runtime/api/args/args.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>

#include "runtime/api/args/append_args.h"
#include "runtime/api/args/cache_args.h"
#include "runtime/api/args/operands.h"
#include "runtime/api/args/recent_calls.h"
#include "runtime/api/args/score_args.h"
#include "runtime/api/args/sizes.h"
#include "runtime/api/args/views.h"
#include "runtime/api/c_struct.h"
#include "runtime/api/tensors/dtype.h"
#include "runtime/api/tensors/tensor_rules.h"

namespace gqa {
namespace {

// Where a call of an older header ended: it had no lengths, pages and windows, no packed sequences, no softcap, no new
// keys, no arrays of scores or no tuning yet.
constexpr std::size_t kOlderSizes[] = {offsetof(gqa_call, cache_seqlens), offsetof(gqa_call, cu_seqlens_q),
                                       offsetof(gqa_call, softcap),       offsetof(gqa_call, k_new),
                                       offsetof(gqa_call, score_scale),   offsetof(gqa_call, tuning)};

// ---- what options say alone

Status check_call(const gqa_call& call, const Operands& operands) {
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
  if (Status status = check_scores(call, operands); !status.ok()) return status;
  if (Status status = check_packing(call, operands); !status.ok()) return status;
  if (appends(operands))
    if (Status status = check_append_fields(call, operands); !status.ok()) return status;
  return check_window("gqa_call.window_size", call.window_size);
}

// ---- what there is to do

// Which of a call's parts there is any work for.
struct Work {
  bool attends = true;  // there is a query, of a sequence
  bool adds = false;    // there is a new key, of a sequence
  Roles rowless;        // tensors that have no row, which nothing reads or writes
};

Work work_of(const Operands& operands) {
  const DLTensor& q = operands[Role::kQ];
  const DLTensor* q_starts = operands.at(Role::kQStarts);
  const bool no_sequence = q_starts != nullptr ? has_no_sequence(q_starts) : has_no_row(q) && q.shape[0] == 0;
  Work work;
  work.attends = !has_no_row(q) && !no_sequence;
  // Rows of new keys that are nobody's are not added.
  work.adds = adds_keys(operands) && !(no_sequence && has_no_sequence(operands.at(Role::kNewStarts)));
  if (!work.attends) work.rowless = Roles(Role::kQ) | Role::kOut;
  // Keys of no row are those of a call none of whose sequences has a key.
  if (operands.has(Role::kKStarts) && has_no_row(operands[Role::kK]) && has_no_row(operands[Role::kV]))
    work.rowless = work.rowless | Role::kK | Role::kV;
  if (operands.has(Role::kNewK) && !adds_keys(operands)) work.rowless = work.rowless | Role::kNewK | Role::kNewV;
  return work;
}

// A call that attends to nothing and appends nothing is asked what q and out are; nothing else is looked at.
Status check_q_and_out(const Device& device, const Operands& operands) {
  const DLTensor &q = operands[Role::kQ], &out = operands[Role::kOut];
  Status status = check_rank(operands.expected(Role::kQ), q);
  if (status.ok()) status = check_rank(operands.expected(Role::kOut), out);
  ElementType dtype{};
  if (status.ok()) status = check_type(q, &dtype);
  const Form& form = operands.form(Role::kQ);
  for (int at = 0; at + 1 < q.ndim && status.ok(); ++at)
    status = check_equal("out", out.shape[at], name_of(form.sizes[static_cast<std::size_t>(at)].dim), "q", q.shape[at]);
  if (status.ok()) status = check_on_device(device, "q", q.device);
  if (status.ok()) status = check_on_device(device, "out", out.device);
  return status;
}

// ---- filling the call

// How rows lie decides which kernels serve.
void fill_layout(const Views& views, Problem* problem) {
  bool aligned = true, mappable = true;
  for (const Role role : kRequiredRoles) {
    aligned = aligned && views[role].rows_aligned(kVectorBytes);
    mappable = mappable && views[role].mappable();
  }
  problem->align = aligned ? kVectorBytes : 2;
  problem->tma = aligned && mappable;
}

void fill_problem(const Operands& operands, const Sizes& sizes, const Views& views, const gqa_call* options,
                  Problem* problem) {
  const auto size = [&](Dim dim) { return static_cast<std::int32_t>(sizes[dim]); };
  ElementType dtype{};
  is_element(operands[Role::kQ].dtype, &dtype);
  problem->set_types(dtype);
  for (const Role role : kAskedRoles) problem->*row_of(role).asked.flag = operands.has(role);
  problem->q_heads = size(Dim::kQHeads);
  problem->kv_heads = size(Dim::kKvHeads);
  problem->head_dim = size(Dim::kHeadDim);
  problem->head_dim_v = size(Dim::kHeadDimV);
  fill_layout(views, problem);
  fill_sequences(operands, sizes, options, problem);
  if (options != nullptr) fill_mask(options->causal == 1, options->window_size, problem);
  fill_scores(score_traits_of(options, operands), problem);
}

void fill_call(const Operands& operands, const Views& views, const gqa_call* options, Call* call) {
  for (const Role role : operands.present())
    call->set(role, views.data<void>(role), strides_of(views[role], operands.form(role), row_of(role).plain));
  call->q_rows = views[Role::kQ].size[1];
  call->k_rows = views[Role::kK].size[1];
  if (operands.has(Role::kPageTable)) call->pages = static_cast<std::int32_t>(views[Role::kK].size[0]);
  const float scale = options != nullptr ? options->scale : 0;
  call->scale = scale != 0 ? scale : 1.0f / std::sqrt(static_cast<float>(call->problem.head_dim));
  if (options != nullptr) call->slots[kSoftcapSlot] = options->softcap;
  call->stream = options != nullptr ? options->stream : nullptr;
}

// Keys and values without a row: a row of q's and one of out's in their place, which is not read, as no list can point
// to it.
void place_keys(Call* call) {
  call->set(Role::kK, call->at(Role::kQ), {0, 0, call->strides(Role::kQ).head});
  call->set(Role::kV, call->at(Role::kOut), {0, 0, call->strides(Role::kOut).head});
  call->k_rows = 0;
}

}  // namespace

const gqa_call* of_today(const gqa_call* options, gqa_call* whole) {
  if (options == nullptr || options->size == sizeof(gqa_call) ||
      std::find(std::begin(kOlderSizes), std::end(kOlderSizes), options->size) == std::end(kOlderSizes))
    return options;
  *whole = {};
  std::memcpy(whole, options, options->size);
  whole->size = sizeof(gqa_call);
  return whole;
}

bool has_known_tuning(const gqa_call& call) {
  return number(call.tuning) >= GQA_CALL_TUNE_AS_HANDLE && number(call.tuning) <= GQA_CALL_TUNE_CACHED_ONLY;
}

std::optional<Tuning> tuning_of(const gqa_call* call) {
  switch (call != nullptr && call->size > offsetof(gqa_call, tuning) ? call->tuning : GQA_CALL_TUNE_AS_HANDLE) {
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
                 const gqa_call* given, Call* call) {
  gqa_call whole;
  const gqa_call* options = of_today(given, &whole);
  // A struct that is too small for its fields is refused below.
  Operands operands(q, k, v, out, options != nullptr && options->size < sizeof(gqa_call) ? nullptr : options);
  if (find_recent_call(device, operands, options, call)) return {};
  *call = {};
  if (Status status = check_present(operands, kRequiredRoles); !status.ok()) return status;
  if (options != nullptr)
    if (Status status = check_call(*options, operands); !status.ok()) return status;
  if (Status status = check_present(operands, operands.present()); !status.ok()) return status;
  const Work work = work_of(operands);
  if (!work.attends) {
    operands.leave_out(kScoreRoles | Role::kLse);
    if (Status status = check_q_and_out(device, operands); !status.ok() || !work.adds) return status;
  }
  Sizes sizes;
  Status status = check_elements(device, operands, work.rowless);
  if (status.ok()) status = check_score_forms(operands);
  if (status.ok()) status = sizes.agree(operands);
  if (status.ok()) status = check_rotary(operands, sizes);
  Views views;
  if (status.ok()) status = views.read(operands, work.rowless);
  if (status.ok()) status = views.check_written(operands, work.adds);
  if (!status.ok()) return status;
  fill_problem(operands, sizes, views, options, &call->problem);
  fill_call(operands, views, options, call);
  if (work.rowless.has(Role::kK)) place_keys(call);
  if (appends(operands)) status = fill_append(*options, operands, views, call);
  if (status.ok()) status = check(call->problem);
  if (status.ok() && work.rowless.empty()) remember_call(operands, options, *call);
  return status;
}

}  // namespace gqa
