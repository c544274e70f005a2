// merge_args.cc: see merge_args.h. The merged state is looked at first, then each part against it.
#include "runtime/api/args/merge_args.h"

#include <limits>
#include <string>

#include "runtime/api/args/args.h"
#include "runtime/api/args/operands.h"
#include "runtime/api/args/views.h"
#include "runtime/api/tensors/dtype.h"
#include "runtime/api/tensors/tensor_rules.h"
#include "runtime/call/view.h"

namespace gqa {
namespace {

// As a call's own are: in a batch, or of packed sequences.
const Form& form_of(Role role, bool packed) { return packed ? row_of(role).packed : row_of(role).plain; }
constexpr const char* kSizes[] = {"batch", "q_len", "q_heads", "head_dim_v"};

// A state's tensors in a batch, as they are read.
struct StateViews {
  View out, lse;
};

// What the merged state says that the parts must be.
struct StateTraits {
  const Device& device;
  bool packed;
  DLDataType dtype;
};

Status check_count(const GivenStates& given) {
  if (given.count < 1) return {Code::kSize, "count is " + std::to_string(given.count) + ", expected at least 1 part"};
  if (given.outs == nullptr || given.lses == nullptr)
    return {Code::kNullArgument, std::string(given.outs == nullptr ? "outs" : "lses") +
                                     " is NULL, expected an array of count pointers to tensors"};
  return {};
}

Status check_out_rank(const DLTensor* out) {
  const Form &plain = form_of(Role::kOut, false), &packed = form_of(Role::kOut, true);
  if (out == nullptr || out->ndim == plain.rank) return check_present({"out", plain}, out);
  if (out->ndim == packed.rank) return check_present({"out", packed}, out);
  return {Code::kRank, "out has " + std::to_string(out->ndim) + " dimensions, expected 4: " + dims_text(plain) +
                           ", or 3: " + dims_text(packed)};
}

Strides out_strides(const View& out) { return {out.stride[0], out.stride[1], out.stride[2]}; }
// As those of out are called: lse is (batch, heads, queries).
Strides lse_strides(const View& lse) { return {lse.stride[0], lse.stride[2], lse.stride[1]}; }

// A tensor as one with a batch, checked and read.
Status read(const StateTraits& traits, const char* name, Role role, const DLTensor* tensor, DLDataType dtype,
            View* view) {
  const Expected expected = {name, form_of(role, traits.packed)};
  if (Status s = check_present(expected, tensor); !s.ok()) return s;
  if (Status s = check_tensor(traits.device, expected, *tensor, dtype); !s.ok()) return s;
  if (Status s = read_view(expected, *tensor, view); !s.ok()) return s;
  if (traits.packed) *view = view->with_batch();
  return {};
}

Status read_state(const StateTraits& traits, const char* out_name, const char* lse_name, const DLTensor* out,
                  const DLTensor* lse, StateViews* views) {
  Status status = read(traits, out_name, Role::kOut, out, traits.dtype, &views->out);
  return status.ok() ? read(traits, lse_name, Role::kLse, lse, kFloat32, &views->lse) : status;
}

// That a state is of the merged one's sizes.
Status check_sizes(const char* out_name, const char* lse_name, const StateViews& state, const View& merged,
                   bool packed) {
  for (int at = packed ? 1 : 0; at < 4; ++at) {
    const char* dim = packed && at == 1 ? "total_q" : kSizes[at];
    if (Status s = check_equal(out_name, state.out.size[at], dim, "out", merged.size[at]); !s.ok()) return s;
  }
  constexpr int kOutAt[] = {0, 2, 1};  // lse is (batch, heads, queries)
  for (int at = packed ? 1 : 0; at < 3; ++at) {
    const char* dim = packed && at == 2 ? "total_q" : kSizes[kOutAt[at]];
    if (Status s = check_equal(lse_name, state.lse.size[at], dim, "out", merged.size[kOutAt[at]]); !s.ok()) return s;
  }
  return {};
}

Status check_merged(const StateViews& merged) {
  Status status = check_distinct(merged.out);
  if (status.ok()) status = check_distinct(merged.lse);
  if (status.ok()) status = check_apart(merged.lse, merged.out);
  const std::int64_t tokens = merged.out.size[0] * merged.out.size[1];  // of two numbers below 2^31
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (!status.ok() || tokens <= most / merged.out.size[2]) return status;
  return {Code::kSize, "out has " + std::to_string(tokens) + " queries of " + std::to_string(merged.out.size[2]) +
                           " heads, expected at most 2147483647 rows: merge some of them at a time"};
}

bool same_place(const View& a, const View& b) { return a.data == b.data && a.size == b.size && a.stride == b.stride; }

// `first`: the part that may be merged in place: each element is read before it is written, by whoever writes it, and
// no later round of parts reads it again.
Status check_apart_from_part(const StateViews& merged, const StateViews& part, bool first) {
  for (const View* written : {&merged.out, &merged.lse}) {
    for (const View* read : {&part.out, &part.lse}) {
      const bool alike = (written == &merged.out) == (read == &part.out);
      if (first && alike && same_place(*written, *read)) continue;
      if (Status status = check_apart(*written, *read); !status.ok()) return status;
    }
  }
  return {};
}

Status read_part(const StateTraits& traits, const char* out_name, const char* lse_name, const DLTensor* out,
                 const DLTensor* lse, const StateViews& merged, bool first, StateViews* views) {
  Status status = read_state(traits, out_name, lse_name, out, lse, views);
  if (status.ok()) status = check_sizes(out_name, lse_name, *views, merged.out, traits.packed);
  if (status.ok()) status = check_apart_from_part(merged, *views, first);
  return status;
}

// A part that is refused is looked at once more, under its own name.
Status read_numbered_part(const StateTraits& traits, const GivenStates& given, int at, const StateViews& merged,
                          StateViews* views) {
  const DLTensor *out = given.outs[at], *lse = given.lses[at];
  if (read_part(traits, "outs", "lses", out, lse, merged, at == 0, views).ok()) return {};
  const std::string place = "[" + std::to_string(at) + "]", out_name = "outs" + place, lse_name = "lses" + place;
  return read_part(traits, out_name.c_str(), lse_name.c_str(), out, lse, merged, at == 0, views);
}

AttentionState state_of(const StateViews& views) {
  return {reinterpret_cast<void*>(views.out.data), reinterpret_cast<float*>(views.lse.data), out_strides(views.out),
          lse_strides(views.lse)};
}

void fill_merge(const View& out, ElementType type, MergeCall* call) {
  const auto size = [&](int at) { return static_cast<std::int32_t>(out.size[at]); };
  call->type = type;
  call->batch = size(0);
  call->q_len = size(1);
  call->heads = size(2);
  call->head_dim = size(3);
}

}  // namespace

Status make_merge(const Device& device, const GivenStates& given, std::vector<AttentionState>* parts, MergeCall* call) {
  if (Status s = check_count(given); !s.ok()) return s;
  if (Status s = check_out_rank(given.out); !s.ok()) return s;
  ElementType type{};
  if (Status s = element_type("out is", given.out->dtype, &type); !s.ok()) return s;
  if (has_no_row(*given.out)) return check_on_device(device, "out", given.out->device);
  const StateTraits traits = {device, given.out->ndim == 3, given.out->dtype};
  StateViews merged;
  if (Status s = read_state(traits, "out", "lse", given.out, given.lse, &merged); !s.ok()) return s;
  if (Status s = check_sizes("out", "lse", merged, merged.out, traits.packed); !s.ok()) return s;
  if (Status s = check_merged(merged); !s.ok()) return s;
  bool aligned = merged.out.rows_aligned(kVectorBytes);
  parts->clear();
  for (int at = 0; at < given.count; ++at) {
    StateViews part;
    if (Status s = read_numbered_part(traits, given, at, merged, &part); !s.ok()) return s;
    aligned = aligned && part.out.rows_aligned(kVectorBytes);
    parts->push_back(state_of(part));
  }
  fill_merge(merged.out, type, call);
  call->parts = parts->data();
  call->count = given.count;
  call->merged = state_of(merged);
  call->vectors = aligned;
  call->stream = given.stream;
  return {};
}

}  // namespace gqa
