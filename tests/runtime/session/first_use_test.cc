// first_use_test.cc: how the merger of states, and what appends to caches, come to be: compiled once, kept, found by
// the next session; not under a capture, not where only the cache may answer. And that nothing is appended for a call
// that does not attend.
#include "runtime/session/first_use.h"

#include <gtest/gtest.h>

#include "runtime/session/session.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/temporary_folder.h"

namespace gqa::test {
namespace {

class MergingTest : public ::testing::Test {
 protected:
  MergingTest() { world_.merge_kernel = {"a kernel that merges", "merge", "merge", "", ""}; }

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
  }
}

TEST_F(MergingTest, TheNextSessionFindsIt) {
  ASSERT_TRUE(open()->ready_to_merge().ok());
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
  ASSERT_TRUE(session->ready_to_merge().ok());
  EXPECT_TRUE(session->merge({}).ok());
}

TEST_F(MergingTest, AStoredKernelThatTheDriverRefusesIsMadeAnew) {
  ASSERT_TRUE(open()->merge({}).ok());
  int loads = 0;
  world_.load_merger = [&](const Binary&) { return ++loads == 1 ? Status{Code::kDeviceFailed, "too new"} : Status(); };
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

class AppendingTest : public MergingTest {
 protected:
  AppendingTest() {
    world_.append_kernel = {"a kernel that appends", "append", "append", "", ""};
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
  ASSERT_TRUE(session->ready_to_append().ok());
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
  ASSERT_TRUE(session->ready_to_append().ok());
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
