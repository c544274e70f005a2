// cache_launch.h: attention kernels on a key/value cache under the emulator. Owns: the case's buffers with guards; its
// page table ends where the last sequence's pages end, so that whoever reads an entry past a length faults.
// Never: compiles or judges numbers: the case compares itself with the naive loop. Threads: one.
#pragma once

#include <algorithm>

#include "tests/runtime/cache_case.h"
#include "tests/simt/kernels/attention_launch.h"
#include "tests/simt/kernels/judged.h"

namespace gqa::simt {

// Entries up to the last one that is needed.
inline std::size_t needed_entries(const test::CacheCase& t) {
  const Problem& p = t.call.problem;
  if (t.table.empty()) return 0;
  const int pages = (t.length(p.batch - 1) + p.page - 1) / p.page;
  return static_cast<std::size_t>((p.batch - 1) * t.table_stride + pages);
}

// Runs the case under every schedule, on a device of so many SMs where CTAs are persistent, and leaves out and lse in
// it. Error: a launch's, or schedules that disagree.
inline Status run_cache(const Kernel& kernel, const Candidate& candidate, test::CacheCase* t, int sms = 1) {
  Call call = t->call;
  const Buffer q("q", t->q), k("k", t->k), v("v", t->v), lengths("lengths", t->said_keys), sink("sink", t->sink);
  const Buffer q_starts("q_starts", t->q_starts), k_starts("k_starts", t->k_starts), v_starts("v_starts", t->v_starts),
      q_lengths("q_lengths", t->said_queries);
  Buffer table("page_table", needed_entries(*t) * sizeof(std::int32_t), sizeof(std::int32_t));
  table.copy_in(t->table.data(), table.bytes());
  call.place(Role::kQ, q.data());
  call.place(Role::kK, k.data());
  call.place(Role::kV, v.data());
  const auto moved = [](const std::int32_t* list, const Buffer& buffer) {
    return list == nullptr ? nullptr : buffer.as<std::int32_t>();
  };
  call.place(Role::kKvLengths, moved(call.list(Role::kKvLengths), lengths));
  call.place(Role::kPageTable, moved(call.list(Role::kPageTable), table));
  call.place(Role::kQStarts, moved(call.list(Role::kQStarts), q_starts));
  call.place(Role::kKStarts, moved(call.list(Role::kKStarts), k_starts));
  call.v_starts = moved(call.v_starts, v_starts);
  call.place(Role::kQLengths, moved(call.list(Role::kQLengths), q_lengths));
  call.place(Role::kSink, t->sink.empty() ? nullptr : sink.as<float>());
  const ArrayBuffers arrays(t->arrays);
  arrays.give(&call);
  const std::vector<std::uint16_t> poison = t->out;
  for (const Schedule& schedule : schedules()) {
    Buffer out("out", poison), lse("lse", t->lse.size() * sizeof(float));
    call.place(Role::kOut, out.data());
    call.place(Role::kLse, !call.has(Role::kLse) ? nullptr : lse.as<float>());
    if (Status s = launch_call(kernel, candidate, call, schedule, sms); !s.ok()) return s;
    const std::vector<float> sums = lse.values<float>();
    const bool same =
        out.values<std::uint16_t>() == t->out &&
        (!call.has(Role::kLse) || std::memcmp(sums.data(), t->lse.data(), sums.size() * sizeof(float)) == 0);
    if (&schedule != &schedules().front() && !same)
      return {Code::kDeviceFailed, "the answer depends on the schedule: a race, seen in " + to_text(schedule)};
    t->out = out.values<std::uint16_t>();
    t->lse = sums;
  }
  return {};
}

// Whether the kernel's answer is the naive loop's.
inline ::testing::AssertionResult cache_agrees(const Kernel& kernel, const Candidate& candidate, test::CacheCase* t,
                                               int sms = 1) {
  const Status status = run_cache(kernel, candidate, t, sms);
  if (!status.ok()) return ::testing::AssertionFailure() << status.message();
  return t->right();
}

}  // namespace gqa::simt
