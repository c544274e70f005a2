// launch.h: kernels of the warpgroup family under the emulator, launched as
// runtime/cuda/launch/cuda_kernel.cc launches them: persistent CTAs, tensor maps as the second argument. Owns: the
// call's buffers with guards, its tensor maps by the emulated driver, launches of a case's kernel. Never: compiles or
// judges numbers. Threads: one.
#pragma once

#include "tests/simt/kernels/attention_launch.h"

namespace gqa::simt {

// On a device of so many SMs. Counters must be left zero, every element of out and lse written.
inline Status launch_warpgroup(const Kernel& kernel, const Candidate& candidate, const test::AttentionCase& attention,
                               int sms, const Schedule& schedule, Outputs* outputs) {
  Call call = attention.call;
  const CaseTensor q("q", attention.q, call.at(Role::kQ)), k("k", attention.k, call.at(Role::kK)),
      v("v", attention.v, call.at(Role::kV)), out("out", attention.out, call.to(Role::kOut));
  const Buffer lse("lse", attention.lse.size() * sizeof(float));
  call.place(Role::kQ, q.first());
  call.place(Role::kK, k.first());
  call.place(Role::kV, v.first());
  call.place(Role::kOut, out.first());
  call.place(Role::kLse, !call.has(Role::kLse) ? nullptr : lse.as<float>());
  if (Status s = launch_call(kernel, candidate, call, schedule, sms); !s.ok()) return s;
  *outputs = {out.values(), lse.values<float>()};
  return {};
}

// Under each of the schedules: the same bits; they are left in the case.
inline Status run_warpgroup(const Kernel& kernel, const Candidate& candidate, int sms, test::AttentionCase* attention,
                            const std::vector<Schedule>& wanted) {
  Outputs first, outputs;
  for (const Schedule& schedule : wanted) {
    const bool is_first = &schedule == &wanted.front();
    Outputs* const now = is_first ? &first : &outputs;
    if (Status s = launch_warpgroup(kernel, candidate, *attention, sms, schedule, now); !s.ok()) return s;
    if (first.out != now->out || std::memcmp(first.lse.data(), now->lse.data(), first.lse.size() * sizeof(float)) != 0)
      return {Code::kDeviceFailed, "the answer depends on the schedule: a race, seen in " + to_text(schedule)};
  }
  std::copy(first.out.begin(), first.out.end(), attention->out.begin());
  attention->lse = first.lse;
  return {};
}

}  // namespace gqa::simt
