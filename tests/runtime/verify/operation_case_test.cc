// operation_case_test.cc: what appends to caches, and what merges states, held against their cases: what is right
// passes, each planted fault is refused, and in words that name the output. And that whatever a reference can be has a
// trial.
#include "runtime/verify/operation_case.h"

#include <gtest/gtest.h>

#include "runtime/call/append_plan.h"
#include "runtime/device.h"
#include "runtime/verify/append_case.h"
#include "runtime/verify/host_memory.h"
#include "runtime/verify/merge_case.h"
#include "runtime/workload/programs.h"
#include "runtime/workload/workload.h"
#include "tests/search/from_text.h"
#include "tests/search/graph/graphs.h"

namespace gqa {
namespace {

std::unique_ptr<Device> host() {
  std::unique_ptr<Device> device;
  EXPECT_TRUE(open_host_device(2, &device).ok());
  return device;
}

std::unique_ptr<LoadedProgram> loaded(Device* device, Operation operation) {
  std::unique_ptr<LoadedProgram> program;
  EXPECT_TRUE(compile_and_load(*device, program_of(operation, DeviceKind::kHost), &program).ok());
  return program;
}

using Fault = std::function<void(Call* attended)>;

// Appends rightly; a fault comes before what attends.
class FaultyAppender final : public LoadedProgram {
 public:
  FaultyAppender(const LoadedProgram& right, const Fault& fault) : right_(right), fault_(fault) {}
  Status run(const ProgramCall& given) const override {
    const Faulty faulty(*given.then, fault_);
    return right_.run({.attention = given.attention, .then = &faulty});
  }

 private:
  struct Faulty final : LoadedProgram {
    Faulty(const LoadedProgram& then_run, const Fault& plant) : then(then_run), fault(plant) {}
    Status run(const ProgramCall& call) const override {
      Call attended = *call.attention;
      fault(&attended);
      return then.run({.attention = &attended});
    }
    const LoadedProgram& then;
    const Fault& fault;
  };
  const LoadedProgram& right_;
  const Fault& fault_;
};

std::string refusal(const Fault& fault) {
  const auto device = host();
  const auto right = loaded(device.get(), Operation::kAppend);
  const Verdict verdict = verify(Operation::kAppend, FaultyAppender(*right, fault), Effort(60),
                                 [] { return std::make_unique<HostMemory>(); });
  EXPECT_FALSE(verdict.passed);
  return verdict.reason;
}

TEST(OperationCases, TheHostsOwnPass) {
  const auto device = host();
  for (const Operation operation : kOperations) {
    std::unique_ptr<Trial> trial;
    ASSERT_TRUE(compile_and_try(*device, {operation}, Effort(60), &trial).ok());
    const auto program = loaded(device.get(), operation);
    const Verdict verdict = trial->verify(*program);
    EXPECT_TRUE(verdict.passed) << verdict.reason;
    EXPECT_GT(verdict.error, 0) << "numbers are compared";
    EXPECT_LE(verdict.error, verdict.bound);
    std::vector<double> microseconds;
    EXPECT_TRUE(trial->time(*program, 3, &microseconds).ok());
    EXPECT_EQ(microseconds.size(), 3u);
  }
}

TEST(OperationCases, AnAppendThatIsWrongIsRefused) {
  const auto bits = [](Call* call, Role role) { return call->to<std::uint16_t>(role); };
  EXPECT_TRUE(refusal([&](Call* c) { bits(c, Role::kK)[20 * 5 * 64] ^= 4; }).starts_with("k: element 6400"));
  EXPECT_TRUE(refusal([&](Call* c) { bits(c, Role::kV)[20 * 5 * 32] ^= 1; }).starts_with("v: element 3200"));
  EXPECT_TRUE(refusal([&](Call* c) { bits(c, Role::kK)[0] = 0; }).starts_with("k: element 0 was written"));
  EXPECT_TRUE(refusal([](Call* c) { ++c->to<std::int32_t>(Role::kKvLengths)[2]; }).starts_with("lengths: keys of seq"));
  EXPECT_TRUE(refusal([&](Call* c) {
                if (c->append.rotary_dim > 0) bits(c, Role::kQ)[1] ^= 8;
              }).starts_with("q: element 1,"));
  EXPECT_TRUE(refusal([](Call* c) {
                if (c->has(Role::kKStarts)) --c->to<std::int32_t>(Role::kKStarts)[1];
              }).starts_with("k: attention finds key 0 of sequence 1"));
  EXPECT_TRUE(refusal([](Call* c) {
                if (c->has(Role::kPageTable) && c->problem.page == 1) c->strides(Role::kV).batch += 8;
              }).starts_with("v: attention finds key"));
}

TEST(OperationCases, AnAppendThatIsLeftOutIsRefused) {
  struct : LoadedProgram {
    Status run(const ProgramCall& call) const override {
      Call attended = *call.attention;
      attended.leave_out(kAppendedRoles);
      return call.then->run({.attention = &attended});
    }
  } skips;
  struct : LoadedProgram {
    Status run(const ProgramCall&) const override { return {}; }
  } does_nothing;
  const MakeMemory memory = [] { return std::make_unique<HostMemory>(); };
  EXPECT_TRUE(verify(Operation::kAppend, skips, Effort(60), memory).reason.starts_with("lengths: keys of sequence 0"));
  EXPECT_EQ(verify(Operation::kAppend, does_nothing, Effort(60), memory).reason,
            "nothing attended after the append, expected one call");
}

// Merges rightly, and then spoils it.
class FaultyMerger final : public LoadedProgram {
 public:
  FaultyMerger(const LoadedProgram& right, std::function<void(const MergeCall&)> fault)
      : right_(right), fault_(std::move(fault)) {}
  Status run(const ProgramCall& call) const override {
    Status status = right_.run(call);
    fault_(*call.merge);
    return status;
  }

 private:
  const LoadedProgram& right_;
  const std::function<void(const MergeCall&)> fault_;
};

TEST(OperationCases, AMergeThatIsWrongIsRefused) {
  const auto device = host();
  const auto right = loaded(device.get(), Operation::kMergeStates);
  const auto refused = [&](std::function<void(const MergeCall&)> fault) {
    const Verdict verdict = verify(Operation::kMergeStates, FaultyMerger(*right, std::move(fault)), Effort(60),
                                   [] { return std::make_unique<HostMemory>(); });
    EXPECT_FALSE(verdict.passed);
    return verdict.reason;
  };
  const auto halves = [](const MergeCall& call) { return static_cast<std::uint16_t*>(call.merged.out); };
  EXPECT_TRUE(refused([&](const MergeCall& c) { halves(c)[6 * 64 + 5] ^= 2; }).starts_with("out: element 5 of row"));
  EXPECT_TRUE(refused([&](const MergeCall& c) { halves(c)[0] = 0x7e00; }).starts_with("out: element 0 of row"));
  EXPECT_TRUE(refused([](const MergeCall& c) { c.merged.lse[6] += 1e-4F; }).starts_with("lse: row ("));
  EXPECT_TRUE(refused([](const MergeCall& c) { c.merged.lse[0] = 0; }).starts_with("lse: row (0, 0, 0) is"));
  EXPECT_TRUE(refused([&](const MergeCall& c) {
                if (c.type != ElementType::kF32 && c.merged.out_strides.row > c.heads * c.head_dim)
                  halves(c)[c.head_dim] = 0;
              }).starts_with("out: element 96 after row 0 was written"));
}

// One that a kernel of a new kind is held against has a trial, which refuses a program that does nothing.
TEST(OperationCases, WhateverAReferenceCanBeHasATrial) {
  const std::vector<Reference> each = {
      {problem_of("hq=2,hk=1,sq=8,sk=8,d=64")},
      {graph_of("graph 1\na = input f16[3,70]\nb = input f16[70,4]\ny = matmul(a, b)\noutputs y\n")},
      {Operation::kAppend},
      {Operation::kMergeStates}};
  static_assert(std::variant_size_v<decltype(Reference::of)> == 3 && kOperations.size() == 2);
  struct : LoadedProgram {
    Status run(const ProgramCall&) const override { return {}; }
  } does_nothing;
  const auto device = host();
  for (const Reference& reference : each) {
    std::unique_ptr<Trial> trial;
    ASSERT_TRUE(compile_and_try(*device, reference, Effort(60), &trial).ok()) << reference.of.index();
    const Verdict verdict = trial->verify(does_nothing);
    EXPECT_FALSE(verdict.passed) << reference.of.index();
    EXPECT_NE(verdict.reason, "");
  }
}

}  // namespace
}  // namespace gqa
