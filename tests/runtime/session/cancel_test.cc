// cancel_test.cc: a miss that is cancelled, wherever it is, ends at once and leaves nothing; the budget is kept where
// each step alone would break it.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "runtime/effort.h"
#include "runtime/session/graph_answer.h"
#include "runtime/session/session.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/search/graph/graphs.h"

namespace gqa::test {
namespace {

constexpr double kSoon = 0.5;  // the promise, in seconds

class Cancelling : public ::testing::Test {
 protected:
  void SetUp() override { open(); }

  void open(double budget = 20) {
    session_.reset();
    cache::Store::Options store;
    store.path = folder_.file("cache.db");
    SessionOptions options;
    options.policy.compile_threads = 2;
    options.policy.budget_seconds = budget;
    session_ = std::make_unique<Session>(std::make_unique<FakeDevice>(&world_), cache::Store::open(store), options);
  }

  Status ask() { return session_->ready(small_problem()); }
  Status ask_graph() {
    GraphRequest request;
    request.graph = softmax_attention(1, 32, 64, 32);
    GraphAnswer answer;
    return gqa::answer(*session_, request, &answer);
  }

  // The call in a thread of its own, cancelled once `reached` says so.
  void expect_cancelled(const std::function<Status()>& call, const std::function<bool()>& reached) {
    Status status;
    Effort whole(1e9);
    double ended = 0;
    std::thread caller([&] {
      status = call();
      ended = whole.seconds();
    });
    while (!reached() && whole.seconds() < 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(reached());
    const double told = whole.seconds();
    session_->cancel();
    caller.join();
    EXPECT_EQ(status.code(), Code::kCancelled) << status.message();
    EXPECT_NE(status.message().find("gqa_cancel"), std::string::npos) << status.message();
    EXPECT_LT(ended - told, kSoon);
    EXPECT_TRUE(session_->store().list_winners().empty());
  }

  void expect_later_calls_work() {
    world_.compile_seconds = world_.sample_seconds = 0;
    blocked_ = false;
    EXPECT_TRUE(ask().ok());
    EXPECT_TRUE(ask_graph().ok());
    EXPECT_EQ(session_->store().list_winners().size(), 2U);
  }

  // Until the test is over or the caller has been told.
  Verdict verify_forever() {
    const Effort most(3);
    while (blocked_ && !most.spent()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {true, 1e-3, 2e-3, ""};
  }

  TemporaryFolder folder_;
  FakeWorld world_;
  std::atomic<bool> blocked_ = true;
  std::unique_ptr<Session> session_;
};

TEST_F(Cancelling, WhileCompiling) {
  world_.compile_seconds = 2;
  expect_cancelled([&] { return ask(); }, [&] { return world_.compiles > 0; });
  const int compiles = world_.compiles;
  expect_cancelled([&] { return ask_graph(); }, [&] { return world_.compiles > compiles; });
  expect_later_calls_work();
}

TEST_F(Cancelling, BetweenVerifications) {
  const auto slow = [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
  world_.verify = [&](const Candidate&) { return slow(), Verdict{true, 1e-3, 2e-3, ""}; };
  world_.verify_program = [&](const KernelGraph&) { return slow(), Verdict{true, 1e-3, 2e-3, ""}; };
  expect_cancelled([&] { return ask(); }, [&] { return world_.verifies > 0; });
  const int verifies = world_.verifies;
  expect_cancelled([&] { return ask_graph(); }, [&] { return world_.verifies > verifies; });
  world_.verify = [](const Candidate&) { return Verdict{true, 1e-3, 2e-3, ""}; };
  world_.verify_program = [](const KernelGraph&) { return Verdict{true, 1e-3, 2e-3, ""}; };
  expect_later_calls_work();
}

TEST_F(Cancelling, WhileTiming) {
  world_.sample_seconds = 0.1;
  world_.noise = 0.1;
  expect_cancelled([&] { return ask(); }, [&] { return world_.samples > 0; });
  const int samples = world_.samples;
  expect_cancelled([&] { return ask_graph(); }, [&] { return world_.samples > samples; });
  expect_later_calls_work();
}

// A kernel that runs long cannot be stopped: it ends behind the call.
TEST_F(Cancelling, WhileAKernelRunsThatNobodyWaitsForAnyMore) {
  world_.sample_seconds = 0.1;
  world_.noise = 0.1;
  world_.unfinished = true;
  world_.close_seconds = 1;
  expect_cancelled([&] { return ask(); }, [&] { return world_.samples > 0; });
  expect_later_calls_work();
  session_.reset();  // waits for it
}

// Where no program passes, a graph's operators are verified one by one, each in a trial of its own.
TEST_F(Cancelling, WhileAnOperatorsKernelRunsThatNobodyWaitsForAnyMore) {
  world_.close_seconds = 1;
  world_.verify_program = [&](const KernelGraph& program) {
    if (program.nodes().size() > 1 || program.nodes()[0].block) return Verdict{false, 1, 1e-3, "wrong"};
    world_.unfinished = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return Verdict{true, 1e-3, 2e-3, ""};
  };
  expect_cancelled([&] { return ask_graph(); }, [&] { return world_.unfinished.load(); });
  world_.verify_program = [](const KernelGraph&) { return Verdict{true, 1e-3, 2e-3, ""}; };
  expect_later_calls_work();
  session_.reset();  // waits for it
}

TEST_F(Cancelling, FromAProgressCallback) {
  GraphRequest request;
  request.graph = softmax_attention(1, 32, 64, 32);
  request.progress = [&](const Progress&) { session_->cancel(); };
  GraphAnswer answer;
  EXPECT_EQ(gqa::answer(*session_, request, &answer).code(), Code::kCancelled);
  EXPECT_EQ(answer.ready, nullptr);
  EXPECT_EQ(world_.compiles, 0);
  expect_later_calls_work();
}

// Those that wait for another's miss on the same shape, and for their turn on another.
TEST_F(Cancelling, WhoWaits) {
  world_.compile_seconds = 2;
  std::vector<std::thread> callers;
  std::atomic<int> cancelled = 0, begun = 0;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&, i] {
      ++begun;
      const Status status = i == 3   ? ask_graph()
                            : i == 2 ? session_->ready(small_problem("b=1,hq=8,hk=2,sq=1,sk=4096,d=64"))
                                     : ask();
      cancelled += status.code() == Code::kCancelled;
    });
  while (begun < 4 || world_.compiles == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const Effort since(1);
  session_->cancel();
  for (std::thread& caller : callers) caller.join();
  EXPECT_LT(since.seconds(), kSoon);
  EXPECT_EQ(cancelled, 4);
}

// A call that comes after the cancellation, while the one that was cancelled is still ending.
TEST_F(Cancelling, DoesNotReachWhoComesLater) {
  world_.verify = [&](const Candidate&) { return verify_forever(); };
  Status first, second;
  std::thread caller([&] { first = ask(); });
  while (world_.verifies == 0) std::this_thread::yield();
  session_->cancel();
  std::thread later([&] { second = ask(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  blocked_ = false;
  caller.join();
  later.join();
  EXPECT_EQ(first.code(), Code::kCancelled);
  EXPECT_TRUE(second.ok()) << second.message();
}

TEST_F(Cancelling, IsNothingWhereNothingIsInProgress) {
  session_->cancel();
  expect_later_calls_work();
  session_->cancel();
  EXPECT_TRUE(session_->run(call_of(small_problem())).ok());
}

TEST_F(Cancelling, TheDestructorWaitsForACompilerInTheBackground) {
  world_.compile_seconds = 0.3;
  expect_cancelled([&] { return ask(); }, [&] { return world_.compiles > 0; });
  session_.reset();  // the sanitizers see a compiler that is still there
}

// ---- budgets

TEST_F(Cancelling, SlowSamplesKeepTheBudget) {
  world_.sample_seconds = 0.1;
  open(0.3);
  for (const auto& call :
       {std::function<Status()>([&] { return ask(); }), std::function<Status()>([&] { return ask_graph(); })}) {
    const Effort effort(1e9);
    EXPECT_TRUE(call().ok());
    EXPECT_LT(effort.seconds(), 0.3 + 0.3);  // a sample, and a machine that is busy
  }
}

TEST(RunReady, NeverTunes) {
  FakeWorld world;
  Session session(std::make_unique<FakeDevice>(&world), cache::Store::open({"", cache::Mode::kOff}), {});
  const Call call = call_of(small_problem());
  const Status status = session.run_ready(call);
  EXPECT_EQ(status.code(), Code::kNotCached);
  EXPECT_NE(status.message().find("gqa_prepare"), std::string::npos);
  world.capturing = [](void*) { return true; };
  EXPECT_EQ(session.run_ready(call).code(), Code::kCapturing);
  world.capturing = [](void*) { return false; };
  EXPECT_TRUE(session.ready(call.problem).ok());
  EXPECT_EQ(world.launches, 0);
  EXPECT_TRUE(session.run_ready(call).ok());
  EXPECT_EQ(world.launches, 1);
}

TEST(RunReady, TellsTheWorkspaceOfACallOfItsOwnSizes) {
  FakeWorld world;
  world.workspace_bytes = [](const Problem& p) { return std::int64_t{8} * p.kv_len; };
  Session session(std::make_unique<FakeDevice>(&world), cache::Store::open({"", cache::Mode::kOff}), {});
  Problem shorter = small_problem();
  shorter.q_len = shorter.kv_len = 250;  // of the same bucket
  std::int64_t bytes = 0;
  const Status status = session.workspace_bytes(call_of(shorter), &bytes);
  EXPECT_EQ(status.code(), Code::kNotCached);
  EXPECT_NE(status.message().find("gqa_prepare"), std::string::npos);
  EXPECT_EQ(world.compiles, 0);
  ASSERT_TRUE(session.ready(small_problem()).ok());
  ASSERT_TRUE(session.workspace_bytes(call_of(shorter), &bytes).ok());
  EXPECT_EQ(bytes, 8 * 250);
  EXPECT_EQ(world.launches, 0);
}

}  // namespace
}  // namespace gqa::test
