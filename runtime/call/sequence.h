// sequence.h: where a sequence of a call begins and how long it is.
// Owns: reading the call's lists on the host: starts, lengths, and their limits. The device's loops read them in
// jit/device/attention/common/sequence.cuh.
// Never: reads a list that lies on a device. Threads: values.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/call/call.h"
#include "search/problem/mask.h"

namespace gqa {

struct Sequence {
  SequenceSize size;                                             // within the problem's maxima
  std::int64_t first_query = 0, first_key = 0, first_value = 0;  // rows of packed tensors before it; 0 elsewhere
};

namespace sequence_detail {

// starts: null, too, where they do not say how many rows there are.
inline std::int32_t length(const std::int32_t* starts, const std::int32_t* lengths, int sequence, std::int32_t most) {
  std::int64_t length = most;
  if (lengths != nullptr) length = std::min<std::int64_t>(length, lengths[sequence]);
  if (starts != nullptr) length = std::min(length, std::int64_t{starts[sequence + 1]} - starts[sequence]);
  return static_cast<std::int32_t>(std::max<std::int64_t>(length, 0));
}

}  // namespace sequence_detail

inline Sequence sequence_of(const Call& call, int sequence) {
  const auto start = [&](const std::int32_t* starts) { return starts == nullptr ? 0 : std::int64_t{starts[sequence]}; };
  const std::int32_t* k_starts = call.list(Role::kKStarts);
  return {{sequence_detail::length(call.list(Role::kQStarts), call.list(Role::kQLengths), sequence, call.problem.q_len),
           sequence_detail::length(call.k_in_slots ? nullptr : k_starts, call.list(Role::kKvLengths), sequence,
                                   call.problem.kv_len)},
          start(call.list(Role::kQStarts)),
          start(k_starts),
          start(call.v_starts != nullptr ? call.v_starts : k_starts)};
}

}  // namespace gqa
