// recent_calls.cc: see recent_calls.h.
#include "runtime/api/args/recent_calls.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/api/args/append_args.h"
#include "runtime/api/args/args.h"
#include "runtime/api/tensors/tensor_rules.h"
#include "runtime/api/tensors/view.h"

namespace gqa {
namespace {

constexpr std::size_t kTensors = 13, kCalls = 8;
// Places in a call: q, k, v and out are four; those from kLseAt on may be left out.
constexpr std::size_t kOutAt = 3, kLseAt = 4, kLengthsAt = 5, kTableAt = 6, kQStartsAt = 7, kKStartsAt = 8,
                      kQLengthsAt = 9, kSinkAt = 10, kScaleAt = 11, kBiasAt = 12;

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

// All of a call but addresses, stream and tuning; without padding, so that bytes compare. Most calls have the first
// tensors alone: those from `tensors_end` on, which a call does not have, are neither made nor compared.
struct CallKey {
  std::int32_t scale_bits = 0, causal = 0;
  std::int32_t has_window = 0, window[2] = {}, softcap_bits = 0;
  std::int64_t max_seqlen_q = 0, max_seqlen_k = 0, tensors_end = 0;
  std::array<Description, kTensors> tensors;  // rank 0: no tensor

  bool same(const CallKey& other) const {
    const std::size_t bytes = offsetof(CallKey, tensors) + static_cast<std::size_t>(tensors_end) * sizeof(Description);
    return tensors_end == other.tensors_end && std::memcmp(this, &other, bytes) == 0;
  }
};
static_assert(std::has_unique_object_representations_v<CallKey>);

struct RecentCall {
  CallKey key{};
  bool used = false;
  std::array<Reach, kTensors> reach{};
  std::array<std::uintptr_t, kTensors> alignment{};  // of the first element, modulo alignment_at()
  Call call;
};

struct RecentCalls {
  std::array<RecentCall, kCalls> calls{};
  std::size_t next = 0;
};

RecentCalls& recent_calls() {
  static thread_local RecentCalls recent;
  return recent;
}

// Options of another size than today's, of calls that append, or with a number that is no tuning are args.cc's to
// judge.
bool known_options(const GivenCall& given) {
  return given.options == nullptr ||
         (given.options->size == sizeof(gqa_call) && !appends(given.options) && has_known_tuning(*given.options));
}

std::array<const DLTensor*, kTensors> tensors_of(const GivenCall& given) {
  std::array<const DLTensor*, kTensors> tensors = {given.q, given.k, given.v, given.out};
  if (given.options == nullptr) return tensors;
  tensors[kLseAt] = given.options->lse;
  tensors[kLengthsAt] = given.options->cache_seqlens;
  tensors[kTableAt] = given.options->page_table;
  tensors[kQStartsAt] = given.options->cu_seqlens_q;
  tensors[kKStartsAt] = given.options->cu_seqlens_k;
  tensors[kQLengthsAt] = given.options->seqused_q;
  tensors[kSinkAt] = given.options->sink;
  tensors[kScaleAt] = given.options->score_scale;
  tensors[kBiasAt] = given.options->bias;
  return tensors;
}

// Where a call's tensors end, of those that it may leave out.
std::size_t end_of(const std::array<const DLTensor*, kTensors>& tensors) {
  std::size_t end = kTensors;
  while (end > kLseAt && tensors[end - 1] == nullptr) --end;
  return end;
}

int element_bytes_at(std::size_t at, const DLTensor& tensor) {
  if (at == kBiasAt) return tensor.dtype.bits / 8;
  return at >= kLseAt ? 4 : 2;
}
// Packed tensors have no batch; a factor is of heads, or of rows.
int rank_at(std::size_t at, const std::array<const DLTensor*, kTensors>& tensors) {
  constexpr int kRanks[kTensors] = {4, 4, 4, 4, 3, 1, 2, 1, 1, 1, 1, 1, 4};
  if (at == kScaleAt && tensors[at]->ndim == 3) return 3;
  const bool of_keys = at == 1 || at == 2, packed = tensors[of_keys ? kKStartsAt : kQStartsAt] != nullptr;
  return at <= kLseAt && packed ? kRanks[at] - 1 : kRanks[at];
}
// How rows of q, k, v and out lie decides which kernels serve; of the others an element's alignment is enough.
std::uintptr_t alignment_at(std::size_t at) { return at >= kLseAt ? 4 : kVectorBytes; }

// False for what only args.cc can judge: no more sizes are read of a tensor than its place in a call has.
bool describe(const DLTensor* tensor, int rank, Description* described) {
  if (tensor == nullptr || tensor->shape == nullptr || tensor->ndim != rank) return false;
  const auto bytes = static_cast<std::size_t>(tensor->ndim) * sizeof(std::int64_t);
  std::memcpy(described->shape, tensor->shape, bytes);
  if (tensor->strides != nullptr) std::memcpy(described->strides, tensor->strides, bytes);
  described->has_strides = tensor->strides != nullptr;
  described->rank = tensor->ndim;
  std::memcpy(&described->device_type, &tensor->device.device_type, sizeof described->device_type);
  described->device_id = tensor->device.device_id;
  static_assert(sizeof(DLDataType) == sizeof described->dtype);
  std::memcpy(&described->dtype, &tensor->dtype, sizeof described->dtype);
  return true;
}

bool describe(const GivenCall& given, const std::array<const DLTensor*, kTensors>& tensors, CallKey* key) {
  if (!known_options(given)) return false;
  const std::size_t end = end_of(tensors);
  key->tensors_end = static_cast<std::int64_t>(end);
  for (std::size_t at = 0; at < end; ++at) {
    key->tensors[at] = {};
    if (at >= kLseAt && tensors[at] == nullptr) continue;
    if (!describe(tensors[at], rank_at(at, tensors), &key->tensors[at])) return false;
  }
  if (given.options == nullptr) return true;
  std::memcpy(&key->scale_bits, &given.options->scale, sizeof key->scale_bits);
  key->causal = given.options->causal;
  std::memcpy(&key->softcap_bits, &given.options->softcap, sizeof key->softcap_bits);
  key->max_seqlen_q = given.options->max_seqlen_q;
  key->max_seqlen_k = given.options->max_seqlen_k;
  if (given.options->window_size == nullptr) return true;
  key->has_window = 1;
  std::memcpy(key->window, given.options->window_size, sizeof key->window);
  return true;
}

struct Span {
  std::uintptr_t first = 0, last = 0;
  bool touches(const Span& other) const { return first < other.last && other.first < last; }
};

// Where the tensors of a call lie now. False where an address is not as good as the remembered call's.
bool locate(const std::array<const DLTensor*, kTensors>& tensors, const RecentCall& recent,
            std::array<std::uintptr_t, kTensors>* data) {
  std::array<Span, kTensors> spans;
  const auto end = static_cast<std::size_t>(recent.key.tensors_end);
  for (std::size_t at = 0; at < end; ++at) {
    if (tensors[at] == nullptr) continue;
    std::uintptr_t& start = (*data)[at];
    if (tensors[at]->data == nullptr ||
        __builtin_add_overflow(reinterpret_cast<std::uintptr_t>(tensors[at]->data), tensors[at]->byte_offset, &start) ||
        start % alignment_at(at) != recent.alignment[at] ||
        __builtin_add_overflow(start, recent.reach[at].low, &spans[at].first) ||
        __builtin_add_overflow(start, recent.reach[at].high, &spans[at].last))
      return false;
  }
  const Span& out = spans[kOutAt];
  const Span& lse = spans[kLseAt];  // empty, and touches nothing, where there is none, as the lists
  for (std::size_t at = 0; at < end; ++at)
    if (at != kOutAt && at != kLseAt && (out.touches(spans[at]) || lse.touches(spans[at]))) return false;
  return !out.touches(lse);
}

}  // namespace

bool find_recent_call(const Device& device, const GivenCall& given, Call* call) {
  CallKey wanted;
  const auto tensors = tensors_of(given);
  if (!describe(given, tensors, &wanted)) return false;
  for (const DLTensor* tensor : tensors)
    if (tensor != nullptr && !owned(device, tensor->device)) return false;
  for (const RecentCall& recent : recent_calls().calls) {
    if (!recent.used || !recent.key.same(wanted)) continue;
    std::array<std::uintptr_t, kTensors> data{};
    if (!locate(tensors, recent, &data)) return false;
    *call = recent.call;
    call->q = reinterpret_cast<const void*>(data[0]);
    call->k = reinterpret_cast<const void*>(data[1]);
    call->v = reinterpret_cast<const void*>(data[2]);
    call->out = reinterpret_cast<void*>(data[kOutAt]);
    call->lse = reinterpret_cast<float*>(data[kLseAt]);
    call->kv_lengths = reinterpret_cast<const std::int32_t*>(data[kLengthsAt]);
    call->page_table = reinterpret_cast<const std::int32_t*>(data[kTableAt]);
    call->q_starts = reinterpret_cast<const std::int32_t*>(data[kQStartsAt]);
    call->k_starts = reinterpret_cast<const std::int32_t*>(data[kKStartsAt]);
    call->q_lengths = reinterpret_cast<const std::int32_t*>(data[kQLengthsAt]);
    call->sink = reinterpret_cast<const float*>(data[kSinkAt]);
    const auto* scale = reinterpret_cast<const float*>(data[kScaleAt]);
    (recent.call.arrays.rows != nullptr ? call->arrays.rows : call->arrays.heads) = scale;
    call->arrays.scores = reinterpret_cast<const void*>(data[kBiasAt]);
    call->stream = given.options != nullptr ? given.options->stream : nullptr;
    call->tuning = tuning_of(given.options);
    return true;
  }
  return false;
}

void remember_call(const GivenCall& given, const Call& call) {
  RecentCalls& recent = recent_calls();
  RecentCall& slot = recent.calls[recent.next];
  RecentCall made;
  const auto tensors = tensors_of(given);
  if (!describe(given, tensors, &made.key)) return;
  for (std::size_t at = 0; at < kTensors; ++at) {
    if (tensors[at] == nullptr) continue;
    View view;
    if (!view.read("", *tensors[at], element_bytes_at(at, *tensors[at]))) return;
    made.reach[at] = {static_cast<std::int64_t>(view.first - view.data),
                      static_cast<std::int64_t>(view.last - view.data)};
    made.alignment[at] = view.data % alignment_at(at);
  }
  made.call = call;
  made.used = true;
  slot = made;
  recent.next = (recent.next + 1) % kCalls;
}

}  // namespace gqa
