// prepared_test.cc: what a thread keeps beside its recent calls is used while it is good and no longer: not by another
// session, not once its winner is replaced, not where the memory is another call's by now; and in a child process.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/api/args/args.h"
#include "runtime/session/session.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/tensors.h"

namespace gqa::test {
namespace {

// A call of so many queries on tensors that nobody reads.
struct Given {
  explicit Given(std::int64_t queries) : q(1 << 28, {2, queries, 8, 64}), out(4 << 28, {2, queries, 8, 64}) {}

  // As the interface makes it: the second time from the thread's recent calls.
  Call made(const Device& device) {
    Call call;
    const Status status = make_call(device, q.get(), k.get(), v.get(), out.get(), &options, &call);
    EXPECT_TRUE(status.ok()) << status.message();
    return call;
  }

  TestTensor q, k{2 << 28, {2, 512, 2, 64}}, v{3 << 28, {2, 512, 2, 64}}, out;
  gqa_call options = [] {
    gqa_call call{};
    call.size = sizeof call;
    call.causal = 1;
    return call;
  }();
};

class PreparedTest : public ::testing::Test {
 protected:
  PreparedTest() {
    world_.launched = [this](const Candidate& candidate) { last_ = to_text(candidate); };
  }
  static std::unique_ptr<Session> open(FakeWorld* world, Tuning tuning = Tuning::kNow) {
    SessionOptions options;
    options.tuning = tuning;
    return std::make_unique<Session>(std::make_unique<FakeDevice>(world),
                                     cache::Store::open({"", cache::Mode::kOff, 10}), options);
  }
  // Three times: checked, looked up, prepared.
  Call run_thrice(Session* session, Given* given) {
    Call call;
    for (int time = 0; time < 3; ++time) {
      call = given->made(session->device());
      EXPECT_TRUE(session->run(call).ok());
    }
    return call;
  }

  FakeWorld world_;
  std::string last_;  // launched
};

TEST_F(PreparedTest, IsThereOnceACallHasRunTwice) {
  const auto session = open(&world_);
  Given given(1);
  EXPECT_EQ(given.made(session->device()).prepared, nullptr) << "it is checked";
  const Call call = run_thrice(session.get(), &given);
  ASSERT_NE(call.prepared, nullptr);
  EXPECT_NE(call.prepared->program, nullptr);
  EXPECT_EQ(call.prepared->call, call.prepared_of);
  EXPECT_EQ(world_.launches, 3);
}

TEST_F(PreparedTest, ServesTheSessionThatFoundIt) {
  FakeWorld other_world;
  const auto one = open(&world_), other = open(&other_world);
  Given given(1);
  run_thrice(one.get(), &given);
  for (int turn = 1; turn <= 3; ++turn) {
    ASSERT_TRUE(other->run(given.made(other->device())).ok());
    ASSERT_TRUE(one->run(given.made(one->device())).ok());
    EXPECT_EQ(other_world.launches, turn);
    EXPECT_EQ(world_.launches, 3 + turn);
  }
}

TEST_F(PreparedTest, EndsWithItsSession) {
  Given given(1);
  {
    const auto closed = open(&world_);
    run_thrice(closed.get(), &given);
  }
  FakeWorld world;
  const auto session = open(&world);
  EXPECT_EQ(session->run_ready(given.made(session->device())).code(), Code::kNotCached);
  ASSERT_TRUE(session->run(given.made(session->device())).ok());
  EXPECT_EQ(world.launches, 1);
  EXPECT_EQ(world_.launches, 3);
}

TEST_F(PreparedTest, EndsWhereTheWinnerIsReplaced) {
  const auto session = open(&world_, Tuning::kGuess);
  Given given(256);
  run_thrice(session.get(), &given);
  const std::string guess = last_;
  world_.microseconds = [&](const Candidate& candidate) { return to_text(candidate) == guess ? 100.0 : 10.0; };
  ASSERT_TRUE(session->run(given.made(session->device()), Tuning::kNow).ok()) << "a guess is not what it asks for";
  const std::string tuned = last_;
  EXPECT_NE(tuned, guess);
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(session->run(given.made(session->device())).ok());
    EXPECT_EQ(last_, tuned);
  }
}

// A call may be made before others of its thread, and run after them: by who is told something on the way.
TEST_F(PreparedTest, IsNotWrittenWhereOtherCallsAreRememberedByNow) {
  const auto session = open(&world_);
  Given decode(1);
  std::vector<std::string> launched;
  std::vector<std::unique_ptr<Given>> others;
  for (int queries = 100; queries < 108; ++queries) {
    others.push_back(std::make_unique<Given>(queries));
    ASSERT_TRUE(session->run(others.back()->made(session->device())).ok());
    launched.push_back(last_);
  }
  ASSERT_TRUE(session->run(decode.made(session->device())).ok());
  const std::string decodes = last_;
  const Call early = decode.made(session->device());
  ASSERT_NE(early.prepared, nullptr);
  for (const auto& other : others) other->made(session->device());
  ASSERT_NE(early.prepared->call, early.prepared_of) << "its memory is another's";
  ASSERT_TRUE(session->run(early).ok());
  EXPECT_EQ(last_, decodes);
  for (std::size_t at = 0; at < others.size(); ++at) {
    ASSERT_TRUE(session->run(others[at]->made(session->device())).ok());
    EXPECT_EQ(last_, launched[at]);
    EXPECT_NE(last_, decodes);
  }
  ASSERT_TRUE(session->run(early).ok());
  EXPECT_EQ(last_, decodes) << "what is there now is another's";
}

TEST_F(PreparedTest, AChildProcessRunsWhatItsParentPrepared) {
  const auto session = open(&world_);
  Given given(1);
  run_thrice(session.get(), &given);
  const pid_t child = fork();
  if (child == 0) {
    const Call call = given.made(session->device());
    const bool same = call.prepared != nullptr && call.prepared->program != nullptr && session->run(call).ok();
    _exit(same && world_.launches == 4 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace gqa::test
