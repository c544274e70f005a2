// attention_launch.h: attention kernels under the emulator, launched as runtime/cuda/launch/cuda_kernel.cc launches
// them. Owns: the call's buffers with guards, the workspace, a launch under every schedule, the comparison of their
// bits. Never: compiles or judges numbers: the case compares itself with float64. Threads: one.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/cuda/launch/cuda_kernel.h"
#include "runtime/cuda/launch/launch_arguments.h"
#include "search/families/resources.h"
#include "tests/runtime/attention_case.h"
#include "tests/simt/emulator/kernel.h"
#include "tests/simt/emulator/tensor_map.h"

namespace gqa::simt {

// One tensor of a case, moved into a Buffer that ends where the tensor ends, give or take its alignment.
class CaseTensor {
 public:
  // words: of an element, of which there is one more than the tensor has.
  CaseTensor(const char* name, const std::vector<std::uint16_t>& data, const void* first, int words = 1)
      : shift_(static_cast<const std::uint16_t*>(first) - data.data()),
        buffer_(name, std::vector<std::uint16_t>(data.begin(), data.end() - (shift_ == 0 ? words : 0))) {}

  std::uint16_t* first() const { return buffer_.as<std::uint16_t>() + shift_; }
  void poison() { buffer_.poison(); }
  std::vector<std::uint16_t> values() const { return buffer_.values<std::uint16_t>(); }

 private:
  std::ptrdiff_t shift_;
  Buffer buffer_;
};

// A chain's arrays, each in a Buffer that ends where it ends.
struct ArrayBuffers {
  explicit ArrayBuffers(const test::ChainArraysCase& given)
      : arrays(given),
        heads("heads", given.heads),
        rows("rows", given.rows),
        scores16("scores", given.scores16),
        scores32("scores", given.scores32) {}
  void give(Call* call) const {
    arrays.give(heads.as<float>(), rows.as<float>(), arrays.scores16.empty() ? scores32.data() : scores16.data(), call);
  }

  const test::ChainArraysCase& arrays;
  const Buffer heads, rows, scores16, scores32;
};

// What a kernel left.
struct Outputs {
  std::vector<std::uint16_t> out;
  std::vector<float> lse;
};

inline bool all_zero(const std::vector<unsigned>& values) {
  return std::all_of(values.begin(), values.end(), [](unsigned value) { return value == 0; });
}

// A launch of a call's kernel, with a workspace of its own, on a device of so many SMs. Counters must be left zero.
inline Status launch_call(const Kernel& kernel, const Candidate& candidate, const Call& call, const Schedule& schedule,
                          int sms = 1) {
  const LaunchPlan needed = plan(call.problem, candidate);
  const Buffer partials("partials", static_cast<std::size_t>(needed.partial_floats) * sizeof(float));
  const Buffer counters("counters", std::vector<unsigned>(static_cast<std::size_t>(needed.counters)));
  LaunchArguments arguments;
  arguments.params = params_of(call, candidate);
  arguments.params.partials = partials.as<float>();
  arguments.params.counters = counters.as<unsigned>();
  if (Status s = arguments.add(emulated_driver(), call, needed); !s.ok()) return s;
  const unsigned blocks = grid_of(needed, sms);
  const auto threads = static_cast<unsigned>(needed.threads);
  Launch launch = {{blocks, 1, 1}, {threads, 1, 1}, static_cast<std::size_t>(needed.shared_memory), arguments.data()};
  launch.cluster = static_cast<unsigned>(needed.cluster);
  launch.workspace = &partials;
  if (Status s = kernel.launch(launch, schedule); !s.ok()) return s;
  if (!all_zero(counters.values<unsigned>())) return {Code::kDeviceFailed, "counters were not left zero"};
  return {};
}

// One launch of a case's kernel on buffers of their own.
inline Status launch_attention(const Kernel& kernel, const Candidate& candidate, const test::AttentionCase& attention,
                               const Schedule& schedule, Outputs* outputs) {
  Call call = attention.call;
  const int words = element_bytes(call.problem.q_type) / 2;
  const CaseTensor q("q", attention.q, call.at(Role::kQ), words), k("k", attention.k, call.at(Role::kK), words),
      v("v", attention.v, call.at(Role::kV), words), out("out", attention.out, call.to(Role::kOut), words);
  const Buffer lse("lse", attention.lse.size() * sizeof(float));
  const Buffer lengths("lengths", attention.lengths), pages("page_table", attention.page_table),
      sink("sink", attention.sink);
  const ArrayBuffers arrays(attention.arrays);
  call.place(Role::kQ, q.first());
  call.place(Role::kK, k.first());
  call.place(Role::kV, v.first());
  call.place(Role::kOut, out.first());
  call.place(Role::kLse, !call.has(Role::kLse) ? nullptr : lse.as<float>());
  if (call.has(Role::kKvLengths)) call.place(Role::kKvLengths, lengths.as<std::int32_t>());
  if (call.has(Role::kPageTable)) call.place(Role::kPageTable, pages.as<std::int32_t>());
  if (call.has(Role::kSink)) call.place(Role::kSink, sink.as<float>());
  arrays.give(&call);
  if (Status s = launch_call(kernel, candidate, call, schedule); !s.ok()) return s;
  *outputs = {out.values(), lse.values<float>()};
  return {};
}

// Runs the case under every schedule and leaves out and lse in it. Error: a launch's, or schedules that disagree.
inline Status run_attention(const Kernel& kernel, const Candidate& candidate, test::AttentionCase* attention) {
  Outputs first, outputs;
  for (const Schedule& schedule : schedules()) {
    const bool is_first = &schedule == &schedules().front();
    if (Status s = launch_attention(kernel, candidate, *attention, schedule, is_first ? &first : &outputs); !s.ok())
      return s;
    if (!is_first && std::memcmp(first.lse.data(), outputs.lse.data(), first.lse.size() * sizeof(float)) != 0)
      return {Code::kDeviceFailed, "lse depends on the schedule: a race, seen in " + to_text(schedule)};
    if (!is_first && first.out != outputs.out)
      return {Code::kDeviceFailed, "out depends on the schedule: a race, seen in " + to_text(schedule)};
  }
  std::copy(first.out.begin(), first.out.end(), attention->out.begin());
  attention->lse = first.lse;
  return {};
}

}  // namespace gqa::simt
