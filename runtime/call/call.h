// call.h: one attention call, ready to launch.
// Owns: Call: a problem, the tensors that the caller handed in, by role (role.h), and the numbers beside them.
// Never: owns memory or checks anything; api/args has.
// Threads: a value, filled on the stack of the hot path.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/call/append.h"
#include "runtime/call/prepared.h"
#include "runtime/call/role.h"
#include "runtime/call/strides.h"
#include "search/problem/problem.h"

namespace gqa {

// Where a tensor lies, on the call's device. In its strides, `batch` steps from sequence to sequence, or from page to
// page, and `row` from query to query, key to key or position to position. A packed tensor has no batch.
struct Operand {
  const void* data = nullptr;
  Strides strides;
};

struct CallNumbers {
  Problem problem;  // the call's own lengths, not the signature's
  float scale = 0;  // never 0 in a call that is launched: already defaulted
  ScoreSlots slots = {};
  void* stream = nullptr;                           // CUstream; the host ignores it
  std::int64_t q_rows = 0, k_rows = 0, v_rows = 0;  // of packed tensors: all sequences'; v_rows 0: as many as k_rows
  std::int32_t pages = 0;                           // that k and v hold, where problem.paged()
  bool k_in_slots = false;  // k's starts are batch slots of a cache, in any order: lengths alone end a sequence
  const std::int32_t* v_starts = nullptr;  // of values that lie otherwise than keys; null: k's
  // What a call that appends does first: problem, lengths and starts are then those of the keys after it
  // (append_plan.h), and kv_lengths the keys before it.
  Append append;
  // Where the thread keeps what such a call found before, while that is still of call number `prepared_of`; null:
  // nowhere.
  Prepared* prepared = nullptr;
  std::uint64_t prepared_of = 0;
};

// What a caller can leave out is absent, and null when asked for:
//   kQStarts, kKStarts  batch + 1 each, where queries, keys are packed (problem.q_packed(), k_packed()): sequence b is
//                       rows starts[b] to starts[b + 1]
//   kQLengths           queries of each sequence, no more than there are; may be there where problem.q_packed()
//   kKvLengths          keys of each; there where problem.kv_lengths is kEach, may be where kPacked
//   kPageTable          where problem.paged(): row b says which pages hold sequence b's keys. Entries past a sequence's
//                       length are never read
//   kScoreScale, kBias  where problem.chain reads a factor of heads or rows, a tensor of scores
//   kAskedRoles         where the problem's flag says so
// Where problem.keys_transposed(), a row of k is one element of every key: its `row` steps along head_dim, and keys are
// contiguous.
struct Call : CallNumbers {
  bool has(Role role) const { return present_.has(role); }
  Roles present() const { return present_; }
  bool appends() const { return !(present_ & kAppendedRoles).empty(); }
  // Whether a sequence's keys begin anywhere in the cache, not at the row of its number.
  bool begins_anywhere() const { return !(present_ & (Roles(Role::kBatchIdx) | Role::kLeftpad)).empty(); }

  // Null where the call has no such tensor.
  template <typename Type = void>
  const Type* at(Role role) const {
    return has(role) ? static_cast<const Type*>(operands_[index_of(role)].data) : nullptr;
  }
  // Lengths, starts or numbers of pages.
  const std::int32_t* list(Role role) const { return at<std::int32_t>(role); }
  // The same of what the call writes.
  template <typename Type = void>
  Type* to(Role role) const {
    return const_cast<Type*>(at<Type>(role));
  }
  const Strides& strides(Role role) const { return operands_[index_of(role)].strides; }
  Strides& strides(Role role) { return operands_[index_of(role)].strides; }

  // data: null for no such tensor.
  void set(Role role, const void* data, const Strides& strides) {
    place(role, data);
    operands_[index_of(role)].strides = strides;
  }
  void place(Role role, const void* data) {
    operands_[index_of(role)].data = data;
    present_ = data != nullptr ? present_ | role : present_.without(role);
  }
  void leave_out(Roles roles) { present_ = present_.without(roles); }

 private:
  Roles present_;
  std::array<Operand, kRoleCount> operands_;
};

}  // namespace gqa
