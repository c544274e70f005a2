// operations_test.cc: how what merges states, and what appends to caches, come to be: compiled, verified once, kept
// with that verdict, found by the next session; not under a capture, not where only the cache may answer, never where
// its trial refuses it. And that nothing is appended for a call that does not attend.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/session/session.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/temporary_folder.h"

namespace gqa::test {
namespace {

class MergingTest : public ::testing::Test {
 protected:
  std::unique_ptr<Session> open(Tuning tuning = Tuning::kNow) {
    SessionOptions options;
    options.tuning = tuning;
    return std::make_unique<Session>(std::make_unique<FakeDevice>(&world_),
                                     cache::Store::open({folder_.file("cache.db"), cache::Mode::kReadWrite, 10}),
                                     options);
  }

  TemporaryFolder folder_;
  FakeWorld world_;
};

TEST_F(MergingTest, TheFirstCallCompilesAndTheOthersOnlyLaunch) {
  const auto session = open();
  for (int call = 1; call <= 3; ++call) {
    ASSERT_TRUE(session->merge({}).ok());
    EXPECT_EQ(world_.launches, call);
    EXPECT_EQ(world_.compiles, 1);
    EXPECT_EQ(world_.verifies, 1);
  }
}

TEST_F(MergingTest, WhatItsTrialRefusesIsNeverLaunched) {
  world_.verify_operation = [](Operation) { return Verdict{false, 9, 1, "out: element 3 is off"}; };
  const auto session = open();
  for (int call = 1; call <= 2; ++call) {
    const Status status = session->merge({});
    EXPECT_EQ(status.code(), Code::kNoCandidate);
    EXPECT_NE(status.message().find("merging states"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("element 3 is off"), std::string::npos) << status.message();
    EXPECT_EQ(world_.verifies, call);
  }
  EXPECT_EQ(world_.launches, 0);
  world_.verify_operation = [](Operation) { return Verdict{true, 1e-3, 2e-3, ""}; };
  EXPECT_TRUE(session->merge({}).ok());
}

TEST_F(MergingTest, ADisturbedRaceOfOneIsKept) {
  world_.others = [] { return 0.9; };
  ASSERT_TRUE(open()->ready(Operation::kMergeStates).ok());
  ASSERT_TRUE(open()->ready(Operation::kMergeStates).ok());
  EXPECT_EQ(world_.verifies, 1) << "there is no rival to race again";
}

TEST_F(MergingTest, OfManyFirstCallsOneMakesIt) {
  world_.compile_seconds = 0.05;
  const auto session = open();
  std::vector<std::thread> threads;
  for (int caller = 0; caller < 8; ++caller) threads.emplace_back([&] { EXPECT_TRUE(session->merge({}).ok()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(world_.compiles, 1);
  EXPECT_EQ(world_.verifies, 1);
  EXPECT_EQ(world_.launches, 8);
}

TEST_F(MergingTest, TheNextSessionFindsIt) {
  ASSERT_TRUE(open()->ready(Operation::kMergeStates).ok());
  EXPECT_EQ(world_.launches, 0);
  for (const Tuning tuning : {Tuning::kNow, Tuning::kCachedOnly}) {
    ASSERT_TRUE(open(tuning)->merge({}).ok());
    EXPECT_EQ(world_.compiles, 1);
  }
}

TEST_F(MergingTest, WhereOnlyTheCacheMayAnswerNothingIsCompiled) {
  const auto session = open(Tuning::kCachedOnly);
  const Status status = session->merge({});
  EXPECT_EQ(status.code(), Code::kNotCached);
  EXPECT_NE(status.message().find("no kernel that merges states for sm_80"), std::string::npos) << status.message();
  EXPECT_EQ(world_.compiles, 0);
  ASSERT_TRUE(open()->merge({}).ok());
  EXPECT_TRUE(session->merge({}).ok()) << "once another session has made it";
}

TEST_F(MergingTest, ACaptureIsRefusedUntilItIsThere) {
  const auto session = open();
  world_.capturing = [](void*) { return true; };
  const Status status = session->merge({});
  EXPECT_EQ(status.code(), Code::kCapturing);
  EXPECT_NE(status.message().find("merging states"), std::string::npos) << status.message();
  EXPECT_EQ(world_.compiles + world_.launches, 0);
  ASSERT_TRUE(session->ready(Operation::kMergeStates).ok());
  EXPECT_TRUE(session->merge({}).ok());
}

TEST_F(MergingTest, AStoredKernelThatTheDriverRefusesIsMadeAnew) {
  ASSERT_TRUE(open()->merge({}).ok());
  int loads = 0;  // of the winner, before and under the lease; of the stored kernel; of the new one
  world_.load_program = [&](const Program&) {
    return ++loads <= 3 ? Status{Code::kDeviceFailed, "too new"} : Status();
  };
  ASSERT_TRUE(open()->merge({}).ok());
  EXPECT_EQ(world_.compiles, 2);
}

TEST_F(MergingTest, AFailureIsToldAndTheNextCallTriesAgain) {
  const auto session = open();
  world_.compile_program = [](const Source&) { return Status{Code::kNoCompiler, "no NVRTC"}; };
  EXPECT_EQ(session->merge({}).code(), Code::kNoCompiler);
  world_.compile_program = [](const Source&) { return Status(); };
  EXPECT_TRUE(session->merge({}).ok());
}

// What is verified elsewhere is verified again.
TEST_F(MergingTest, WhatAnotherMachineVerifiedIsVerifiedHere) {
  ASSERT_TRUE(open()->ready(Operation::kMergeStates).ok());
  const std::string arrived = folder_.file("arrived.db");
  {
    const auto store = cache::Store::open({folder_.file("cache.db"), cache::Mode::kReadWrite, 10});
    ASSERT_EQ(store->export_to(arrived), "");
  }
  std::unique_ptr<cache::Store> imported = cache::Store::open({folder_.file("other.db"), cache::Mode::kReadWrite, 10});
  ASSERT_EQ(imported->import_from(arrived), "");
  Session session(std::make_unique<FakeDevice>(&world_), std::move(imported), {});
  ASSERT_TRUE(session.merge({}).ok());
  EXPECT_EQ(world_.verifies, 2);
  EXPECT_EQ(world_.compiles, 1);
}

class AppendingTest : public MergingTest {
 protected:
  AppendingTest() {
    call_ = call_of(small_problem());
    call_.place(Role::kLeftpad, this);
  }
  Call call_;
};

TEST_F(AppendingTest, AppendsAndThenAttendsOnceBothAreThere) {
  const auto session = open();
  ASSERT_TRUE(session->run(call_).ok());
  EXPECT_EQ(world_.appended, 1);
  const int compiles = world_.compiles, launches = world_.launches;
  ASSERT_TRUE(session->run(call_).ok());
  EXPECT_EQ(world_.appended, 2);
  EXPECT_EQ(world_.compiles, compiles);
  EXPECT_EQ(world_.launches, launches + 1);
}

TEST_F(AppendingTest, NothingIsAppendedWhereTheCallFails) {
  const auto session = open(Tuning::kCachedOnly);
  EXPECT_EQ(session->run(call_).code(), Code::kNotCached);
  EXPECT_EQ(session->run_ready(call_).code(), Code::kNotCached);
  EXPECT_EQ(world_.appended, 0);
}

TEST_F(AppendingTest, RunReadyNeedsWhatAppends) {
  const auto session = open();
  ASSERT_TRUE(session->ready(call_.problem).ok());
  std::int64_t bytes = 0;
  EXPECT_EQ(session->run_ready(call_).code(), Code::kNotCached);
  EXPECT_EQ(session->workspace_bytes(call_, &bytes).code(), Code::kNotCached);
  ASSERT_TRUE(session->ready(Operation::kAppend).ok());
  EXPECT_TRUE(session->workspace_bytes(call_, &bytes).ok());
  EXPECT_TRUE(session->run_ready(call_).ok());
  EXPECT_EQ(world_.appended, 1);
}

TEST_F(AppendingTest, ACaptureIsRefusedUntilItIsThere) {
  const auto session = open();
  ASSERT_TRUE(session->ready(call_.problem).ok());
  world_.capturing = [](void*) { return true; };
  EXPECT_EQ(session->run(call_).code(), Code::kCapturing);
  EXPECT_EQ(world_.appended, 0);
  ASSERT_TRUE(session->ready(Operation::kAppend).ok());
  EXPECT_TRUE(session->run(call_).ok());
}

TEST_F(AppendingTest, AProgramThatAppendsItselfNeedsNothingElse) {
  const auto session = open();
  world_.programs_append = true;
  ASSERT_TRUE(session->ready(call_.problem).ok());
  world_.capturing = [](void*) { return true; };
  const int compiles = world_.compiles, launches = world_.launches;
  std::int64_t bytes = -1;
  EXPECT_TRUE(session->workspace_bytes(call_, &bytes).ok());
  EXPECT_EQ(bytes, world_.workspace_bytes(call_.problem));
  EXPECT_TRUE(session->run_ready(call_).ok());
  EXPECT_TRUE(session->run(call_).ok());
  EXPECT_EQ(world_.appended, 0);
  EXPECT_EQ(world_.compiles, compiles);
  EXPECT_EQ(world_.launches, launches + 2);
}

}  // namespace
}  // namespace gqa::test
