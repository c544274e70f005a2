// session_test.cc: the story of a call on a device whose every answer is decided here: who tunes, who waits, what is
// remembered, what is reported.
#include "runtime/session/session.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "runtime/session/telling.h"
#include "runtime/workload/keys.h"
#include "search/families/space.h"
#include "search/problem/signature.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/temporary_folder.h"

namespace gqa::test {
namespace {

class SessionTest : public ::testing::Test {
 protected:
  std::unique_ptr<Session> open(Tuning tuning = Tuning::kNow, cache::Mode mode = cache::Mode::kReadWrite) {
    cache::Store::Options store;
    store.mode = mode;
    store.path = folder_.file("cache.db");
    SessionOptions options;
    options.tuning = tuning;
    options.policy.compile_threads = 2;
    options.log = [this](bool warning, const std::string& message) {
      const std::lock_guard lock(mutex_);
      (warning ? warnings_ : messages_).push_back(message);
    };
    return std::make_unique<Session>(std::make_unique<FakeDevice>(&world_), cache::Store::open(store), options);
  }

  void forget_counts() { world_.compiles = world_.loads = world_.trials = world_.verifies = world_.samples = 0; }

  cache::WinnerRow only_winner(Session& session) {
    const std::vector<cache::WinnerRow> winners = session.store().list_winners();
    EXPECT_EQ(winners.size(), 1u);
    return winners.empty() ? cache::WinnerRow() : winners.front();
  }

  TemporaryFolder folder_;
  FakeWorld world_;
  std::mutex mutex_;
  std::vector<std::string> warnings_, messages_;
};

TEST_F(SessionTest, FirstCallTunesAndTheNextOnlyLaunches) {
  const auto session = open();
  ASSERT_TRUE(session->run(call_of(small_problem())).ok());
  EXPECT_EQ(world_.trials, 1);
  EXPECT_GT(world_.compiles, 1);
  EXPECT_EQ(world_.launches, 1);
  forget_counts();
  ASSERT_TRUE(session->run(call_of(small_problem())).ok());
  EXPECT_EQ(world_.launches, 2);
  EXPECT_EQ(world_.compiles + world_.loads + world_.trials + world_.samples, 0);
}

TEST_F(SessionTest, LengthsOfOneBucketShareAWinner) {
  const auto session = open();
  ASSERT_TRUE(session->run(call_of(small_problem("b=1,hq=8,hk=2,sq=1,sk=1025,d=64"))).ok());
  ASSERT_TRUE(session->run(call_of(small_problem("b=1,hq=8,hk=2,sq=1,sk=1026,d=64"))).ok());
  EXPECT_EQ(world_.trials, 1);
  ASSERT_TRUE(session->run(call_of(small_problem("b=1,hq=8,hk=2,sq=1,sk=2049,d=64"))).ok());
  EXPECT_EQ(world_.trials, 2);
}

TEST_F(SessionTest, CallsWithLogSumExpAreTunedApartAndShareTheKernels) {
  const Problem without = small_problem(), with = small_problem("b=1,hq=8,hk=2,sq=256,sk=256,d=64,causal,lse");
  const auto session = open();
  ASSERT_TRUE(session->run(call_of(without)).ok());
  EXPECT_EQ(world_.trials, 1);
  EXPECT_GT(world_.compiles, 1);
  forget_counts();
  ASSERT_TRUE(session->run(call_of(with)).ok());
  EXPECT_EQ(world_.trials, 1);
  EXPECT_GT(world_.samples, 0);
  EXPECT_EQ(world_.compiles, 0);  // every kernel was there
  forget_counts();
  ASSERT_TRUE(session->run(call_of(without)).ok());
  ASSERT_TRUE(session->run(call_of(with)).ok());
  EXPECT_EQ(world_.loads + world_.trials, 0);

  std::set<std::string> signatures;
  for (const cache::WinnerRow& winner : session->store().list_winners()) signatures.insert(winner.key.signature);
  const std::string text = "b=1,hq=8,hk=2,sq=256,sk=256,d=64,dtype=bf16,causal";  // as before there was such a key
  EXPECT_EQ(signatures, (std::set<std::string>{text, text + ",lse"}));
}

TEST_F(SessionTest, ManyShapesAreAllFoundAgain) {
  const auto session = open(Tuning::kGuess);
  std::vector<Problem> problems;
  for (int heads = 1; heads <= 100; ++heads) {
    Problem problem = small_problem("b=1,hq=1,hk=1,sq=16,sk=16,d=64");
    problem.q_heads = problem.kv_heads = heads;
    problems.push_back(problem);
  }
  for (const Problem& problem : problems) ASSERT_TRUE(session->ready(problem).ok());
  forget_counts();
  for (const Problem& problem : problems) ASSERT_TRUE(session->run(call_of(problem)).ok());
  EXPECT_EQ(world_.loads, 0);
  EXPECT_EQ(world_.launches, 100);
}

// Without a file, so that no lease of the cache's can stand in for the session's own care.
TEST_F(SessionTest, SixteenThreadsThatMissOnOneShapeTuneOnce) {
  world_.compile_seconds = 0.01;
  const auto session = open(Tuning::kNow, cache::Mode::kOff);
  std::barrier start(16);
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      if (session->run(call_of(small_problem())).ok()) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 16);
  EXPECT_EQ(world_.trials, 1);
  EXPECT_EQ(world_.launches, 16);
}

TEST_F(SessionTest, SixteenProcessesThatMissOnOneShapeTuneOnce) {
  constexpr int kFailed = 100;
  world_.compile_seconds = 0.02;
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(open()->run(call_of(small_problem())).ok() ? world_.trials.load() : kFailed);
    children.push_back(child);
  }
  int tuned = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_LT(WEXITSTATUS(status), kFailed);
    tuned += WEXITSTATUS(status);
  }
  EXPECT_EQ(tuned, 1);
}

TEST_F(SessionTest, DifferentShapesAreNeverTimedAtOnce) {
  world_.sample_seconds = 0.0002;
  const auto session = open();
  const char* shapes[] = {"b=1,hq=8,hk=2,sq=64,sk=64,d=64", "b=1,hq=8,hk=2,sq=64,sk=64,d=128",
                          "b=1,hq=4,hk=4,sq=64,sk=64,d=64", "b=2,hq=8,hk=2,sq=64,sk=64,d=64"};
  std::vector<std::thread> threads;
  for (const char* shape : shapes) {
    threads.emplace_back([&session, shape] { EXPECT_TRUE(session->run(call_of(small_problem(shape))).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(world_.trials, 4);
  EXPECT_EQ(world_.most_timing_at_once, 1);
}

TEST_F(SessionTest, AHitDoesNotWaitForAnotherShapesTuning) {
  const auto session = open();
  const Problem hot = small_problem(), cold = small_problem("b=1,hq=8,hk=2,sq=64,sk=64,d=128");
  ASSERT_TRUE(session->run(call_of(hot)).ok());
  std::atomic<bool> tuning = false, release = false;
  world_.verify = [&](const Candidate&) {
    tuning = true;
    while (!release) std::this_thread::yield();
    return Verdict{true, 0, 1, ""};
  };
  std::thread tuner([&] { EXPECT_TRUE(session->run(call_of(cold)).ok()); });
  while (!tuning) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(session->run(call_of(hot)).ok());
  EXPECT_EQ(world_.launches, 101);  // all of them while the other shape is held in its tuning
  release = true;
  tuner.join();
}

TEST_F(SessionTest, ASecondSessionNeitherCompilesNorTimes) {
  ReadyResult first, second;
  ASSERT_TRUE(open()->ready(small_problem(), &first).ok());
  forget_counts();
  const auto session = open();
  ASSERT_TRUE(session->ready(small_problem(), &second).ok());
  EXPECT_EQ(world_.compiles + world_.trials + world_.verifies + world_.samples, 0);
  EXPECT_EQ(world_.loads, 1);
  EXPECT_FALSE(first.origin == Origin::kCache);
  EXPECT_TRUE(second.origin == Origin::kCache);
  EXPECT_EQ(first.ready->winner.candidate, second.ready->winner.candidate);
  EXPECT_EQ(first.ready->winner.median_us, second.ready->winner.median_us);
  EXPECT_EQ(first.ready->winner.bound, second.ready->winner.bound);
  ReadyResult third;
  ASSERT_TRUE(session->ready(small_problem(), &third).ok());
  EXPECT_TRUE(third.origin == Origin::kMemory);
}

TEST_F(SessionTest, AnotherTimingOrDeviceIsTunedAnew) {
  ASSERT_TRUE(open()->ready(small_problem()).ok());
  for (const std::function<void()>& change : std::vector<std::function<void()>>{
           [this] { world_.timing_method = "fake timing 2"; }, [this] { world_.spec.l2_bytes += 1; },
           [this] { world_.spec.clock_mhz += 30; }, [this] { world_.spec.memory_gb_per_s += 300; }}) {
    change();
    forget_counts();
    ReadyResult readied;
    ASSERT_TRUE(open()->ready(small_problem(), &readied).ok());
    EXPECT_FALSE(readied.origin == Origin::kCache);
    EXPECT_EQ(world_.trials, 1);
  }
  forget_counts();
  ASSERT_TRUE(open()->ready(small_problem()).ok());
  EXPECT_EQ(world_.trials, 0);
}

TEST_F(SessionTest, AnotherWayOfTimingKeepsTheKernels) {
  ASSERT_TRUE(open()->ready(small_problem()).ok());
  forget_counts();
  world_.timing_method = "fake timing 2";
  ASSERT_TRUE(open()->ready(small_problem()).ok());
  EXPECT_EQ(world_.compiles, 0);
  EXPECT_GT(world_.samples, 0);
}

TEST_F(SessionTest, AWinnerOfAnotherSearchIsNotFound) {
  const auto session = open();
  ASSERT_TRUE(session->ready(small_problem()).ok());
  cache::WinnerKey key = winner_key(session->device(), to_text(Signature(small_problem()).problem()));
  EXPECT_TRUE(session->store().find_winner(key, world_.compiler).has_value());
  key.search = "another";
  EXPECT_FALSE(session->store().find_winner(key, world_.compiler).has_value());
}

TEST_F(SessionTest, AWinnerOfAnotherVersionOfItsFamilyIsTunedAgain) {
  {
    const auto session = open();
    ASSERT_TRUE(session->ready(small_problem()).ok());
    cache::WinnerRow row = only_winner(*session);
    EXPECT_EQ(outdated(row), "");
    row.families.back() += 1;
    EXPECT_NE(outdated(row), "");
    ASSERT_TRUE(session->store().put_winner(row));
  }
  forget_counts();
  const auto session = open();
  ReadyResult readied;
  ASSERT_TRUE(session->ready(small_problem(), &readied).ok());
  EXPECT_FALSE(readied.origin == Origin::kCache);
  EXPECT_EQ(outdated(only_winner(*session)), "") << "and the row is of this version again";
}

TEST_F(SessionTest, AWinnerOfAnotherCompilerServes) {
  ASSERT_TRUE(open()->ready(small_problem()).ok());
  forget_counts();
  world_.compiler = "fake compiler 2";
  ReadyResult readied;
  ASSERT_TRUE(open()->ready(small_problem(), &readied).ok());
  EXPECT_TRUE(readied.origin == Origin::kCache);
  EXPECT_EQ(world_.compiles, 0);
}

TEST_F(SessionTest, CachedOnlyUsesTheCacheAndTunesNothing) {
  const Status missing = open(Tuning::kCachedOnly)->run(call_of(small_problem()));
  EXPECT_EQ(missing.code(), Code::kNotCached);
  EXPECT_NE(missing.message().find("hq=8,hk=2,sq=256"), std::string::npos) << missing.message();
  EXPECT_NE(missing.message().find("gqa-cache --db " + folder_.file("cache.db") + " warm "), std::string::npos)
      << missing.message();
  EXPECT_EQ(world_.compiles + world_.trials, 0);
  ASSERT_TRUE(open()->ready(small_problem()).ok());
  EXPECT_TRUE(open(Tuning::kCachedOnly)->run(call_of(small_problem())).ok());
}

TEST_F(SessionTest, AGuessIsUntimedAndNeverShadowsATunedWinner) {
  ReadyResult guessed, tuned;
  const auto guess = open(Tuning::kGuess);
  ASSERT_TRUE(guess->ready(small_problem(), &guessed).ok());
  EXPECT_EQ(world_.samples, 0);
  EXPECT_EQ(guessed.ready->winner.median_us, 0);
  EXPECT_LE(world_.compiles, 3);
  EXPECT_TRUE(guess->store().list_winners().empty());
  EXPECT_FALSE(guess->store().list_kernels().empty());
  const Candidate best = enumerate(Signature(small_problem()).problem(), world_.spec).ranked.front().candidate;
  EXPECT_EQ(guessed.ready->winner.candidate, to_text(best));
  ASSERT_TRUE(open()->ready(small_problem(), &tuned).ok());
  EXPECT_FALSE(tuned.origin == Origin::kCache);
  EXPECT_GT(world_.samples, 0);
  ReadyResult again;
  ASSERT_TRUE(open(Tuning::kGuess)->ready(small_problem(), &again).ok());
  EXPECT_TRUE(again.origin == Origin::kCache);
  EXPECT_EQ(again.ready->winner.candidate, tuned.ready->winner.candidate);
}

TEST_F(SessionTest, ACallThatGuessesStoresNothingAndTheFirstThatTunesReplacesIt) {
  const auto session = open();
  ASSERT_TRUE(session->run(call_of(small_problem()), Tuning::kGuess).ok());
  EXPECT_EQ(world_.samples, 0);
  EXPECT_TRUE(session->store().list_winners().empty());
  forget_counts();
  ASSERT_TRUE(session->run_ready(call_of(small_problem()), Tuning::kGuess).ok());
  ASSERT_TRUE(session->run_ready(call_of(small_problem()), Tuning::kCachedOnly).ok()) << "it is there";
  EXPECT_EQ(session->run_ready(call_of(small_problem())).code(), Code::kNotCached) << "the session tunes";
  EXPECT_EQ(world_.loads + world_.trials, 0);
  ASSERT_TRUE(session->run(call_of(small_problem())).ok());
  EXPECT_GT(world_.samples, 0);
  EXPECT_GT(only_winner(*session).median_us, 0);
  forget_counts();
  for (const Tuning tuning : {Tuning::kNow, Tuning::kGuess, Tuning::kCachedOnly})
    EXPECT_TRUE(session->run_ready(call_of(small_problem()), tuning).ok());
  EXPECT_EQ(world_.loads + world_.trials, 0);
}

TEST_F(SessionTest, ACallThatTunesDoesSoInASessionThatGuesses) {
  const auto session = open(Tuning::kGuess);
  ASSERT_TRUE(session->run(call_of(small_problem())).ok());
  EXPECT_EQ(world_.samples, 0);
  ReadyResult readied;
  ASSERT_TRUE(session->ready(small_problem(), &readied, Tuning::kNow).ok());
  EXPECT_GT(world_.samples, 0);
  EXPECT_FALSE(readied.ready->guessed);
  forget_counts();
  ASSERT_TRUE(session->run(call_of(small_problem()), Tuning::kNow).ok());
  EXPECT_EQ(world_.loads + world_.trials, 0) << "what ready() made is what calls find";
}

TEST_F(SessionTest, WhatWasDisturbedIsAGuessToWhoDoesNotTune) {
  world_.others = [] { return 0.9; };
  ASSERT_TRUE(open()->ready(small_problem()).ok());
  world_.others = [] { return 0.0; };
  const auto session = open();
  ASSERT_TRUE(only_winner(*session).provisional);
  ASSERT_TRUE(session->run(call_of(small_problem()), Tuning::kGuess).ok());
  forget_counts();
  ASSERT_TRUE(session->run(call_of(small_problem())).ok());
  EXPECT_GT(world_.samples, 0);
  EXPECT_FALSE(only_winner(*session).provisional);
}

TEST_F(SessionTest, ACallThatMayNotTuneFailsAloneInASessionThatTunes) {
  const auto session = open();
  EXPECT_EQ(session->run(call_of(small_problem()), Tuning::kCachedOnly).code(), Code::kNotCached);
  EXPECT_EQ(world_.compiles + world_.trials, 0);
  EXPECT_TRUE(session->run(call_of(small_problem())).ok());
}

TEST_F(SessionTest, ACaptureTakesAGuessRatherThanFail) {
  int stream = 0;
  world_.capturing = [&](void* asked) { return asked == &stream; };
  const auto session = open();
  ASSERT_TRUE(session->run(call_of(small_problem()), Tuning::kGuess).ok());
  forget_counts();
  Call call = call_of(small_problem());
  call.stream = &stream;
  EXPECT_TRUE(session->run(call, Tuning::kNow).ok());
  EXPECT_TRUE(session->run_ready(call, Tuning::kNow).ok());
  EXPECT_EQ(world_.loads + world_.trials, 0);
  EXPECT_EQ(session->run_ready(call_of(small_problem()), Tuning::kNow).code(), Code::kNotCached) << "it is one still";
}

// While one thread tunes, another's calls go on by the guess.
TEST_F(SessionTest, AGuessAnswersWhileItsShapeIsTuned) {
  const auto session = open();
  ASSERT_TRUE(session->run(call_of(small_problem()), Tuning::kGuess).ok());
  std::atomic<bool> tuning = false, done = false;
  world_.others = [&] {
    tuning = true;
    while (!done) std::this_thread::yield();
    return 0.0;
  };
  std::thread tunes([&] { EXPECT_TRUE(session->run(call_of(small_problem()), Tuning::kNow).ok()); });
  while (!tuning) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(session->run(call_of(small_problem()), Tuning::kGuess).ok());
  done = true;
  tunes.join();
  EXPECT_TRUE(session->run_ready(call_of(small_problem()), Tuning::kNow).ok());
}

TEST_F(SessionTest, GuessesAreStillGuessesInALargerTable) {
  const auto session = open();
  ASSERT_TRUE(session->run(call_of(small_problem()), Tuning::kGuess).ok());
  for (int heads = 1; heads <= 100; ++heads) {
    Problem problem = small_problem("b=1,hq=1,hk=1,sq=16,sk=16,d=64");
    problem.q_heads = problem.kv_heads = heads;
    ASSERT_TRUE(session->ready(problem, nullptr, Tuning::kGuess).ok());
  }
  EXPECT_EQ(session->run_ready(call_of(small_problem()), Tuning::kNow).code(), Code::kNotCached);
  EXPECT_TRUE(session->run_ready(call_of(small_problem()), Tuning::kGuess).ok());
}

TEST_F(SessionTest, UnderCaptureOnlyWhatIsLoadedIsUsed) {
  int stream = 0;
  world_.capturing = [&](void* asked) { return asked == &stream; };
  const auto session = open();
  Call call = call_of(small_problem());
  call.stream = &stream;
  const Status status = session->run(call);
  EXPECT_EQ(status.code(), Code::kCapturing);
  EXPECT_NE(status.message().find("captured"), std::string::npos);
  EXPECT_EQ(world_.compiles + world_.loads + world_.trials, 0);
  ASSERT_TRUE(session->ready(small_problem()).ok());
  EXPECT_TRUE(session->run(call).ok());
}

const Status kBroken = {Code::kDeviceFailed, "cuMemGetInfo: the driver's words (CUDA_ERROR_ILLEGAL_ADDRESS)"};

TEST_F(SessionTest, ADeviceThatIsBrokenIsToldInItsOwnWords) {
  const auto session = open();
  world_.broken = kBroken;
  world_.capturing = [](void*) { return true; };
  for (const Status& status : {session->ready(small_problem()), session->run(call_of(small_problem())),
                               session->run_ready(call_of(small_problem()))}) {
    EXPECT_EQ(status.code(), Code::kDeviceFailed);
    EXPECT_EQ(status.message(), kBroken.message());
  }
  EXPECT_EQ(world_.compiles + world_.loads + world_.trials, 0);
}

TEST_F(SessionTest, ADeviceThatBreaksInATrialEndsItAndNobodyIsBlamed) {
  world_.verify = [&](const Candidate&) {
    world_.broken = kBroken;
    return Verdict{false, 0, 0, "the kernel failed"};
  };
  const auto session = open();
  EXPECT_EQ(session->ready(small_problem()).message(), kBroken.message());
  EXPECT_EQ(world_.verifies, 1);
  EXPECT_TRUE(session->store().list_winners().empty());
  world_.broken = {};
  world_.verify = [](const Candidate&) { return Verdict{true, 1e-3, 2e-3, ""}; };
  world_.launchable = [&](const Candidate&) {
    world_.broken = kBroken;
    return Status(Code::kDeviceFailed, "the kernel failed");
  };
  EXPECT_EQ(session->ready(small_problem()).message(), kBroken.message());
  EXPECT_TRUE(session->store().list_winners().empty());
  world_.broken = {};
  world_.launchable = [](const Candidate&) { return Status(); };
  EXPECT_TRUE(session->ready(small_problem()).ok());
}

TEST_F(SessionTest, WhatMemoryDidNotSufficeToTimeIsAGuessUntilItDoes) {
  world_.launchable = [](const Candidate&) { return Status(Code::kOutOfMemory, "no memory"); };
  ReadyResult guessed, again, tuned;
  ASSERT_TRUE(open()->ready(small_problem(), &guessed).ok());
  EXPECT_TRUE(guessed.ready->winner.provisional);
  EXPECT_EQ(guessed.ready->winner.median_us, 0);
  world_.load_checker = [](const Binary&) { return Status(Code::kOutOfMemory, "no memory"); };
  forget_counts();
  ASSERT_TRUE(open()->ready(small_problem(), &again).ok());  // not even a trial can be made
  EXPECT_EQ(again.origin, Origin::kCache);
  EXPECT_EQ(again.ready->winner.candidate, guessed.ready->winner.candidate);
  EXPECT_EQ(open()->ready(small_problem("b=1,hq=8,hk=2,sq=1,sk=4096,d=64")).code(), Code::kOutOfMemory);
  world_.load_checker = [](const Binary&) { return Status(); };
  world_.launchable = [](const Candidate&) { return Status(); };
  const auto session = open();
  ASSERT_TRUE(session->ready(small_problem(), &tuned).ok());
  EXPECT_EQ(tuned.origin, Origin::kTuned);
  EXPECT_FALSE(only_winner(*session).provisional);
}

TEST_F(SessionTest, AFailureReachesEveryWaiterAndTheNextCallTriesAgain) {
  std::atomic<bool> broken = true;
  world_.compile_seconds = 0.02;
  world_.compile = [&](const Candidate&) { return broken ? Status(Code::kInternal, "no luck") : Status(); };
  const auto session = open();
  std::barrier start(4);
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      if (session->run(call_of(small_problem())).code() == Code::kNoCandidate) ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 4);
  broken = false;
  EXPECT_TRUE(session->run(call_of(small_problem())).ok());
}

TEST_F(SessionTest, AnExceptionInADeviceBecomesAStatusAndLeavesNoWaiterBehind) {
  world_.verify = [](const Candidate&) -> Verdict { throw std::runtime_error("surprise"); };
  const auto session = open();
  const Status status = session->run(call_of(small_problem()));
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_NE(status.message().find("surprise"), std::string::npos);
  EXPECT_EQ(session->run(call_of(small_problem())).code(), Code::kInternal);
}

TEST_F(SessionTest, AWinnerTheDriverRefusesIsTunedAnewWithAWarning) {
  ASSERT_TRUE(open()->ready(small_problem()).ok());
  std::atomic<int> refusals = 1;
  world_.load = [&](const Candidate&, const Binary&) {
    return refusals-- > 0 ? Status(Code::kDeviceFailed, "the driver says no") : Status();
  };
  // The second look, under the lease, finds that it loads now; a driver that always refuses is the next test.
  EXPECT_TRUE(open()->ready(small_problem()).ok());
  ASSERT_FALSE(warnings_.empty());
  EXPECT_NE(warnings_.front().find("the driver says no"), std::string::npos);
}

TEST_F(SessionTest, StoredCodeTheDriverAlwaysRefusesIsCompiledAnew) {
  ASSERT_TRUE(open()->ready(small_problem()).ok());
  const int before = world_.compiles;
  world_.load = [&, before](const Candidate&, const Binary&) {
    return world_.compiles == before ? Status(Code::kDeviceFailed, "stale code") : Status();
  };
  ReadyResult readied;
  ASSERT_TRUE(open()->ready(small_problem(), &readied).ok());
  EXPECT_FALSE(readied.origin == Origin::kCache);
  EXPECT_GT(world_.compiles, before);
}

TEST_F(SessionTest, WhatLoadDisturbedIsUsedAtOnceAndRacedAgainByTheNextProcess) {
  world_.others = [] { return 0.5; };
  ReadyResult first, here, there, fixed, again;
  const auto session = open();
  ASSERT_TRUE(session->ready(small_problem(), &first).ok());
  EXPECT_TRUE(first.ready->winner.provisional);
  EXPECT_NE(messages_.back().find("provisional, the next process races again: others had 50 %"), std::string::npos);
  ASSERT_TRUE(session->ready(small_problem(), &here).ok());
  EXPECT_EQ(here.origin, Origin::kMemory);
  EXPECT_TRUE(only_winner(*session).provisional);
  ASSERT_TRUE(open(Tuning::kCachedOnly)->ready(small_problem(), &fixed).ok());
  EXPECT_EQ(fixed.origin, Origin::kCache);
  world_.others = [] { return 0.0; };
  ASSERT_TRUE(open()->ready(small_problem(), &there).ok());
  EXPECT_EQ(there.origin, Origin::kTuned);
  EXPECT_FALSE(only_winner(*session).provisional);
  ASSERT_TRUE(open()->ready(small_problem(), &again).ok());
  EXPECT_EQ(again.origin, Origin::kCache);
}

// As ranks of one job do.
TEST_F(SessionTest, WhoWaitsForARaceThatLoadDisturbsDoesNotRaceAgain) {
  world_.others = [] { return 0.5; };
  world_.compile_seconds = 0.05;
  const auto one = open(), other = open();
  ReadyResult ready[2];
  std::barrier start(2);
  std::thread thread([&] {
    start.arrive_and_wait();
    EXPECT_TRUE(one->ready(small_problem(), &ready[0]).ok());
  });
  start.arrive_and_wait();
  EXPECT_TRUE(other->ready(small_problem(), &ready[1]).ok());
  thread.join();
  EXPECT_EQ(world_.trials, 1);
  EXPECT_TRUE(ready[0].ready->winner.provisional && ready[1].ready->winner.provisional);
}

TEST_F(SessionTest, TheLogTellsOfATuningBeforeItsEnd) {
  const auto session = open();
  world_.verify = [this](const Candidate&) {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(messages_.size(), 1u);
    return Verdict{true, 1e-3, 2e-3, ""};
  };
  ASSERT_TRUE(session->ready(small_problem()).ok());
  ASSERT_EQ(messages_.size(), 2u);
  EXPECT_EQ(messages_[0], "tuning " + to_text(Signature(small_problem())) + ": up to 8.0 s");
  EXPECT_EQ(messages_[1].rfind("tuned ", 0), 0u);
}

TEST(Telling, ALineASecondThatMoves) {
  std::vector<std::string> lines;
  int passed_on = 0;
  const ProgressFn tell = telling(
      "a shape", 8, [&](const std::string& line) { lines.push_back(line); }, [&](const Progress&) { ++passed_on; });
  Progress at;
  at.kernels = 12;
  at.selected = 20;
  const auto report = [&](TunePhase phase, double seconds) {
    at.phase = phase;
    at.seconds = seconds;
    tell(at);
  };
  report(TunePhase::kSearch, 0.1);
  at.compiled = 3;
  report(TunePhase::kCompile, 1.0);
  report(TunePhase::kCompile, 1.9);
  at.verified = 4;
  report(TunePhase::kVerify, 2.1);
  at.timed = 4;
  at.best_us = 15021.3;
  report(TunePhase::kTime, 6.0);
  EXPECT_EQ(lines,
            (std::vector<std::string>{"tuning a shape: up to 8.0 s", "tuning a shape: compile 3 of 12 kernels, 1.0 s",
                                      "tuning a shape: verify 4 of 20 candidates, 2.1 s",
                                      "tuning a shape: race, 4 timed, best 15021.3 us, 6.0 s"}));
  EXPECT_EQ(passed_on, 5);
}

TEST_F(SessionTest, EvidenceTellsWhatHappened) {
  const auto session = open();
  ASSERT_TRUE(session->ready(small_problem()).ok());
  const cache::WinnerRow winner = only_winner(*session);
  const auto json = nlohmann::json::parse(winner.evidence);
  int winners = 0;
  for (const auto& attempt : json["attempts"]) {
    Candidate candidate;
    EXPECT_TRUE(parse(attempt["candidate"].get<std::string>(), &candidate).ok());
    if (attempt["outcome"] != "winner") continue;
    ++winners;
    EXPECT_EQ(attempt["candidate"], winner.candidate);
    EXPECT_EQ(attempt["timings_us"].size(), attempt["samples"].get<std::size_t>());
    EXPECT_NEAR(attempt["median_us"].get<double>(), winner.median_us, 1e-3);
  }
  EXPECT_EQ(winners, 1);
  const Space space = enumerate(Signature(small_problem()).problem(), world_.spec);
  EXPECT_EQ(json["pruned"]["count"], space.rejected.size());
  EXPECT_EQ(json["attempts"].size() + json["not_tried"]["count"].get<std::size_t>(), space.ranked.size());
  EXPECT_EQ(json["clock_mhz"]["before"], 1500);
  EXPECT_EQ(json["clock_mhz"]["after"], 1500);
}

TEST_F(SessionTest, TheDestructorWaitsForAThreadThatIsTuning) {
  std::atomic<bool> tuning = false;
  world_.compile_seconds = 0.05;
  world_.compile = [&](const Candidate&) {
    tuning = true;
    return Status();
  };
  auto session = open();
  Status status(Code::kInternal, "not run");
  std::thread runner([&, raw = session.get()] { status = raw->run(call_of(small_problem())); });
  while (!tuning) std::this_thread::yield();
  session.reset();
  EXPECT_EQ(world_.launches, 1);  // the waiting call was answered before its session went away
  runner.join();
  EXPECT_TRUE(status.ok());
}

}  // namespace
}  // namespace gqa::test
