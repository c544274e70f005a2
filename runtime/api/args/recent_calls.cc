// recent_calls.cc: see recent_calls.h.
#include "runtime/api/args/recent_calls.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/api/args/args.h"
#include "runtime/api/args/views.h"
#include "runtime/api/tensors/tensor_rules.h"
#include "runtime/call/view.h"

namespace gqa {
namespace {

constexpr std::size_t kCalls = 8;

// A tensor but for its address; without padding, so that bytes compare.
struct Description {
  std::int64_t shape[4], strides[4];
  std::int32_t rank, device_type, device_id, dtype;
  std::int64_t has_strides;
};

// The bytes that a tensor touches, from its first element on: [low, high).
struct Reach {
  std::int64_t low = 0, high = 0;
};

// All of a call but addresses, stream and tuning; without padding, so that bytes compare. Tensors stand side by side,
// those that the call has: the others are neither made nor compared.
struct CallKey {
  std::uint32_t present = 0;
  std::int32_t scale_bits = 0, softcap_bits = 0, causal = 0, rotary_interleaved = 0;
  std::int32_t has_window = 0, window[2] = {};
  std::int64_t max_seqlen_q = 0, max_seqlen_k = 0;
  std::array<Description, kRoleCount> tensors;

  bool same(const CallKey& other) const {
    const auto count = static_cast<std::size_t>(std::popcount(present));
    return present == other.present &&
           std::memcmp(this, &other, offsetof(CallKey, tensors) + count * sizeof(Description)) == 0;
  }
};
static_assert(std::has_unique_object_representations_v<CallKey>);

// Side by side, too.
template <typename Value>
using OfPresent = std::array<Value, kRoleCount>;

struct RecentCall {
  CallKey key{};
  bool used = false;
  OfPresent<Reach> reach{};
  OfPresent<std::uintptr_t> alignment{};  // of the first element, modulo alignment_of()
  Call call;
  Prepared prepared;
};

struct RecentCalls {
  std::array<RecentCall, kCalls> calls{};
  std::size_t next = 0;
  std::uint64_t remembered = 0;
};

RecentCalls& recent_calls() {
  static thread_local RecentCalls recent;
  return recent;
}

// How rows of q, k, v and out lie decides which kernels serve, and of what is appended whether attention's own kernel
// can; of the others an element's alignment is enough.
std::uintptr_t alignment_of(Role role) { return row_of(role).elements == Elements::kOfQ ? kVectorBytes : 4; }

// False for what only args.cc can judge: no more sizes are read of a tensor than its form has.
bool describe(const DLTensor& tensor, int rank, Description* described) {
  if (tensor.shape == nullptr || tensor.ndim != rank) return false;
  *described = {};
  const auto bytes = static_cast<std::size_t>(tensor.ndim) * sizeof(std::int64_t);
  std::memcpy(described->shape, tensor.shape, bytes);
  if (tensor.strides != nullptr) std::memcpy(described->strides, tensor.strides, bytes);
  described->has_strides = tensor.strides != nullptr;
  described->rank = tensor.ndim;
  std::memcpy(&described->device_type, &tensor.device.device_type, sizeof described->device_type);
  described->device_id = tensor.device.device_id;
  static_assert(sizeof(DLDataType) == sizeof described->dtype);
  std::memcpy(&described->dtype, &tensor.dtype, sizeof described->dtype);
  return true;
}

// Options of another size than today's or with a number that is no tuning are args.cc's to judge.
bool describe(const Operands& operands, const gqa_call* options, CallKey* key) {
  if (options != nullptr && (options->size != sizeof(gqa_call) || !has_known_tuning(*options))) return false;
  if (!(kRequiredRoles.without(operands.present())).empty()) return false;
  key->present = operands.present().bits();
  std::size_t at = 0;
  for (const Role role : operands.present())
    if (!describe(operands[role], operands.form(role).rank, &key->tensors[at++])) return false;
  if (options == nullptr) return true;
  std::memcpy(&key->scale_bits, &options->scale, sizeof key->scale_bits);
  std::memcpy(&key->softcap_bits, &options->softcap, sizeof key->softcap_bits);
  key->causal = options->causal;
  key->rotary_interleaved = options->rotary_interleaved;
  key->max_seqlen_q = options->max_seqlen_q;
  key->max_seqlen_k = options->max_seqlen_k;
  if (options->window_size == nullptr) return true;
  key->has_window = 1;
  std::memcpy(key->window, options->window_size, sizeof key->window);
  return true;
}

struct Span {
  std::uintptr_t first, last;
  bool touches(const Span& other) const { return first < other.last && other.first < last; }
};

// Where the tensors of a call lie now. False where an address is not as good as the remembered call's.
bool locate(const Operands& operands, const RecentCall& recent, OfPresent<std::uintptr_t>* data) {
  std::array<Span, kRoleCount> spans;  // by role
  std::size_t at = 0;
  for (const Role role : operands.present()) {
    const DLTensor& tensor = operands[role];
    std::uintptr_t& start = (*data)[at];
    Span& span = spans[index_of(role)];
    if (tensor.data == nullptr ||
        __builtin_add_overflow(reinterpret_cast<std::uintptr_t>(tensor.data), tensor.byte_offset, &start) ||
        start % alignment_of(role) != recent.alignment[at] ||
        __builtin_add_overflow(start, recent.reach[at].low, &span.first) ||
        __builtin_add_overflow(start, recent.reach[at].high, &span.last))
      return false;
    ++at;
  }
  for (const Role to : operands.present() & written_roles(recent.call.appends()))
    for (const Role from : operands.present() & apart_from(to))
      if (spans[index_of(to)].touches(spans[index_of(from)])) return false;
  return true;
}

bool same(const DLDevice& a, const DLDevice& b) { return a.device_type == b.device_type && a.device_id == b.device_id; }

// A device is asked about the first tensor; the others most often lie beside it.
bool all_owned(const Device& device, const Operands& operands) {
  const DLDevice first = operands[Role::kQ].device;
  if (!owned(device, first)) return false;
  for (const Role role : operands.present())
    if (!same(operands[role].device, first) && !owned(device, operands[role].device)) return false;
  return true;
}

}  // namespace

bool find_recent_call(const Device& device, const Operands& operands, const gqa_call* options, Call* call) {
  CallKey wanted;
  if (!describe(operands, options, &wanted)) return false;
  if (!all_owned(device, operands)) return false;
  for (RecentCall& recent : recent_calls().calls) {
    if (!recent.used || !recent.key.same(wanted)) continue;
    OfPresent<std::uintptr_t> data;
    if (!locate(operands, recent, &data)) return false;
    static_cast<CallNumbers&>(*call) = recent.call;
    call->leave_out(kAllRoles);
    call->stream = options != nullptr ? options->stream : nullptr;
    call->prepared = &recent.prepared;
    call->prepared_of = recent.prepared.call;
    std::size_t at = 0;
    for (const Role role : operands.present())
      call->set(role, reinterpret_cast<const void*>(data[at++]), recent.call.strides(role));
    return true;
  }
  return false;
}

void remember_call(const Operands& operands, const gqa_call* options, const Call& call) {
  RecentCalls& recent = recent_calls();
  RecentCall& slot = recent.calls[recent.next];
  RecentCall made;
  if (!describe(operands, options, &made.key)) return;
  std::size_t at = 0;
  for (const Role role : operands.present()) {
    View view;
    if (!view.read("", operands[role], operands[role].dtype.bits / 8)) return;
    made.reach[at] = {static_cast<std::int64_t>(view.first - view.data),
                      static_cast<std::int64_t>(view.last - view.data)};
    made.alignment[at++] = view.data % alignment_of(role);
  }
  made.call = call;
  made.used = true;
  made.prepared.call = ++recent.remembered;
  slot = made;
  recent.next = (recent.next + 1) % kCalls;
}

}  // namespace gqa
