// fake_call.h: a call whose tensors argument checks look at and nothing else does.
// Owns: q, k, v and out at addresses of their own, the options, and how both are handed to make_call and the recent
// calls. Never: says what else a call brings: each test's call derives from it. Threads: one.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <initializer_list>

#include "runtime/api/args/args.h"
#include "runtime/api/args/recent_calls.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/tensors.h"

namespace gqa::test {

inline constexpr DLDataType kInt32 = {kDLInt, 32, 1};

constexpr std::uintptr_t kApart =
    1u << 30;  // tensors lie that far apart: a call's own at 1 to 4, what it brings from 5

struct FakeCall {
  using Sizes = std::initializer_list<std::int64_t>;
  FakeCall(Sizes q_sizes, Sizes kv_sizes)
      : q{1 * kApart, q_sizes}, k{2 * kApart, kv_sizes}, v{3 * kApart, kv_sizes}, out{4 * kApart, q_sizes} {
    options.size = sizeof(options);
  }
  virtual ~FakeCall() = default;

  // Puts what the call brings beside its tensors into the options.
  virtual void describe() = 0;

  Status make() {
    FakeWorld world;
    const FakeDevice device(&world);
    describe();
    return make_call(device, q.get(), k.get(), v.get(), out.get(), &options, &call);
  }
  // Whether the call is one that was checked a moment ago, but for its addresses.
  bool recent() {
    FakeWorld world;
    const FakeDevice device(&world);
    describe();
    return find_recent_call(device, Operands(q.get(), k.get(), v.get(), out.get(), &options), &options, &call);
  }

  TestTensor q, k, v, out;
  gqa_call options = {};
  Call call;
};

// What becomes of a shape that `spoil` has changed.
inline Status make_spoilt(gqa_shape shape, void (*spoil)(gqa_shape&)) {
  spoil(shape);
  Problem problem;
  return make_problem(&shape, &problem);
}

}  // namespace gqa::test
