// tuner_test.cc: what becomes of candidates that fail, spill or are slow, and how a budget is kept, on a device whose
// every answer is decided here.
#include "runtime/tuner/tuner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/tuner/shortlist.h"
#include "runtime/workload/attention_workload.h"
#include "runtime/workload/keys.h"
#include "runtime/workload/programs.h"
#include "search/families/space.h"
#include "search/problem/signature.h"
#include "tests/runtime/fake_device.h"

namespace gqa::test {
namespace {

std::unique_ptr<cache::Store> no_store() {
  cache::Store::Options options;
  options.mode = cache::Mode::kOff;
  return cache::Store::open(options);
}

Candidate candidate_of(const Attempt& attempt) {
  Candidate candidate;
  EXPECT_TRUE(parse(attempt.name, &candidate).ok()) << attempt.name;
  return candidate;
}

class TunerTest : public ::testing::Test {
 protected:
  Status run(const char* problem = "b=1,hq=8,hk=2,sq=256,sk=256,d=64,causal") {
    FakeDevice device(&world_);
    problem_ = Signature(small_problem(problem)).problem();
    tuned_ = Tuned();
    AttentionWorkload workload{Signature(problem_)};
    CompilePool compile_pool(device, *store_, policy_.compile_threads);
    return tune(device, compile_pool, workload, policy_, Effort(policy_.budget_seconds), progress_, &tuned_);
  }

  Candidate chosen() const { return tuned_.program.steps.front().attention()->candidate; }

  std::vector<Attempt> with_outcome(const std::string& outcome) const {
    std::vector<Attempt> found;
    for (const Attempt& attempt : tuned_.attempts) {
      if (attempt.outcome == outcome) found.push_back(attempt);
    }
    return found;
  }

  // The candidates that share the best rank's kernel.
  std::string best_kernel() const {
    return kernel_text(enumerate(Signature(small_problem()).problem(), world_.spec).ranked.front().candidate);
  }

  FakeWorld world_;
  std::unique_ptr<cache::Store> store_ = no_store();
  TunePolicy policy_;
  ProgressFn progress_;
  Problem problem_;
  Tuned tuned_;
};

TEST_F(TunerTest, LackOfMemoryIsNobodysFault) {
  const std::string best = best_kernel();
  int asked = 0;
  world_.verify = [&](const Candidate&) {
    Verdict verdict{asked % 2 == 0, 1e-3, 2e-3, ""};
    verdict.out_of_memory = asked++ % 2 == 1;
    return verdict;
  };
  world_.launchable = [&](const Candidate& candidate) {
    return kernel_text(candidate) == best ? Status(Code::kOutOfMemory, "no memory") : Status();
  };
  ASSERT_TRUE(run().ok());
  EXPECT_FALSE(with_outcome("out of memory").empty());
  EXPECT_TRUE(with_outcome("launch failed").empty() && with_outcome("verify failed").empty());
  EXPECT_TRUE(tuned_.winner.provisional) << "with more memory another may win";
  world_.launchable = [](const Candidate&) { return Status(); };
  world_.verify = [](const Candidate&) { return Verdict{true, 1e-3, 2e-3, ""}; };
  ASSERT_TRUE(run().ok());
  EXPECT_FALSE(tuned_.winner.provisional);
}

TEST_F(TunerTest, PicksTheFastestAndKeepsItsNumbers) {
  world_.microseconds = [](const Candidate& c) { return 100.0 + static_cast<double>(hash(c) % 13); };
  ASSERT_TRUE(run().ok());
  double fastest = 1e9;
  for (const Attempt& attempt : tuned_.attempts) {
    if (attempt.samples > 0) fastest = std::min(fastest, world_.microseconds(candidate_of(attempt)));
  }
  // Within the 0.5 % that counts as no difference.
  EXPECT_LE(world_.microseconds(chosen()), 1.005 * fastest);
  EXPECT_EQ(tuned_.winner.median_us, world_.microseconds(chosen()));
  EXPECT_EQ(tuned_.winner.candidate, to_text(chosen()));
  EXPECT_EQ(tuned_.winner.bound, 2e-3);
  EXPECT_EQ(tuned_.winner.clock_mhz, 1500);
  EXPECT_GE(with_outcome("winner").front().samples, 4);
  EXPECT_GT(tuned_.times.first_correct, 0);
}

TEST_F(TunerTest, OfEqualTimesTakesWhatMovesLeast) {
  world_.microseconds = [](const Candidate&) { return 100.0; };
  ASSERT_TRUE(run("b=1,hq=8,hk=8,sq=16384,sk=16384,d=256").ok());
  int timed = 0, more = 0;
  for (const Attempt& attempt : tuned_.attempts) {
    if (attempt.samples == 0) continue;
    const double excess =
        moved_bytes(problem_, candidate_of(attempt), world_.spec) - moved_bytes(problem_, chosen(), world_.spec);
    EXPECT_GE(excess, 0) << to_text(candidate_of(attempt));
    ++timed;
    more += excess > 0 ? 1 : 0;
  }
  EXPECT_GT(timed, 1);
  EXPECT_GT(more, 0);
}

TEST_F(TunerTest, CompilesNoMoreKernelsThanAskedAndEachOnce) {
  std::mutex mutex;
  std::multiset<std::string> compiled;
  world_.compile = [&](const Candidate& c) {
    const std::lock_guard lock(mutex);
    compiled.insert(kernel_text(c));
    return Status();
  };
  policy_.max_candidates = 5;
  ASSERT_TRUE(run("b=1,hq=8,hk=2,sq=1,sk=4096,d=128").ok());
  EXPECT_EQ(compiled.size(), 5u);
  EXPECT_EQ(std::set<std::string>(compiled.begin(), compiled.end()).size(), 5u);
  EXPECT_GT(world_.verifies, 5);  // launch-only variants ride along
  EXPECT_LE(world_.verifies, 32);
}

struct Failure {
  const char* outcome;
  void (*spoil)(FakeWorld& world, std::string kernel);
};

// What ctest shows of the parameter.
void PrintTo(const Failure& failure, std::ostream* out) { *out << failure.outcome; }

class FailureTest : public TunerTest, public ::testing::WithParamInterface<Failure> {};

TEST_P(FailureTest, IsRecordedWithItsReasonAndNeverChosen) {
  const std::string spoilt = best_kernel();
  world_.microseconds = [spoilt](const Candidate& c) { return kernel_text(c) == spoilt ? 1.0 : 10.0; };
  GetParam().spoil(world_, spoilt);
  ASSERT_TRUE(run().ok());
  EXPECT_NE(kernel_text(chosen()), spoilt);
  const std::vector<Attempt> failed = with_outcome(GetParam().outcome);
  ASSERT_FALSE(failed.empty());
  EXPECT_EQ(kernel_text(candidate_of(failed.front())), spoilt);
  EXPECT_NE(failed.front().detail.find("because 42"), std::string::npos) << failed.front().detail;
  EXPECT_NE(tuned_.winner.evidence.find("because 42"), std::string::npos);
}

TEST_P(FailureTest, OfAllFailsTheCallWithTheReasons) {
  GetParam().spoil(world_, "");
  const Status status = run();
  EXPECT_EQ(status.code(), Code::kNoCandidate);
  EXPECT_NE(status.message().find(GetParam().outcome), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("because 42"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("hq=8,hk=2,sq=256"), std::string::npos) << status.message();
}

// An empty name spoils all.
bool meant(const std::string& kernel, const Candidate& c) { return kernel.empty() || kernel == kernel_text(c); }
Status broken() { return {Code::kDeviceFailed, "because 42"}; }

INSTANTIATE_TEST_SUITE_P(
    All, FailureTest,
    ::testing::Values(
        Failure{"compile failed",
                [](FakeWorld& world, std::string kernel) {
                  world.compile = [kernel](const Candidate& c) { return meant(kernel, c) ? broken() : Status(); };
                }},
        Failure{"load failed",
                [](FakeWorld& world, std::string kernel) {
                  world.load = [kernel](const Candidate& c, const Binary&) {
                    return meant(kernel, c) ? broken() : Status();
                  };
                }},
        Failure{"verify failed",
                [](FakeWorld& world, std::string kernel) {
                  world.verify = [kernel](const Candidate& c) {
                    return meant(kernel, c) ? Verdict{false, 1, 0.1, "because 42"} : Verdict{true, 0.1, 0.2, ""};
                  };
                }},
        Failure{"launch failed",
                [](FakeWorld& world, std::string kernel) {
                  world.launchable = [kernel](const Candidate& c) { return meant(kernel, c) ? broken() : Status(); };
                }}),
    [](const auto& tested) {
      std::string name = tested.param.outcome;
      name[name.find(' ')] = '_';
      return name;
    });

TEST_F(TunerTest, WithoutACompilerTheCallSaysSo) {
  world_.compile = [](const Candidate&) { return Status(Code::kNoCompiler, "NVRTC was not found"); };
  const Status status = run();
  EXPECT_EQ(status.code(), Code::kNoCompiler);
  EXPECT_EQ(status.message(), "NVRTC was not found");
}

TEST_F(TunerTest, WhatSpillsIsUsedOnlyIfNothingElseIs) {
  const std::string spilling = best_kernel();
  world_.microseconds = [&](const Candidate& c) { return kernel_text(c) == spilling ? 1.0 : 10.0; };
  world_.spill_bytes = [&](const Candidate& c) { return kernel_text(c) == spilling ? 512 : 0; };
  ASSERT_TRUE(run().ok());
  EXPECT_NE(kernel_text(chosen()), spilling);
  ASSERT_FALSE(with_outcome("spilled").empty());
  EXPECT_NE(with_outcome("spilled").front().detail.find("512 bytes"), std::string::npos);

  world_.spill_bytes = [](const Candidate&) { return 512; };
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(kernel_text(chosen()), spilling);
}

TEST_F(TunerTest, AGuessTakesTheBestRankThatVerifies) {
  policy_.guess = true;
  policy_.compile_threads = 3;
  std::vector<Candidate> kernels;  // the best candidate of each
  for (const Ranked& ranked : enumerate(Signature(small_problem()).problem(), world_.spec).ranked) {
    const auto same = [&](const Candidate& c) { return kernel_text(c) == kernel_text(ranked.candidate); };
    if (std::none_of(kernels.begin(), kernels.end(), same)) kernels.push_back(ranked.candidate);
  }
  ASSERT_GE(kernels.size(), 3u);
  const std::string first = kernel_text(kernels[0]);
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(kernel_text(chosen()), first);
  world_.verify = [&](const Candidate& c) { return Verdict{kernel_text(c) != first, 0, 1, "not this one"}; };
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(chosen(), kernels[1]);
  EXPECT_EQ(world_.samples, 0);
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST_F(TunerTest, ABudgetOfNothingStillTriesACandidate) {
  policy_.budget_seconds = 1e-9;
  policy_.compile_threads = 1;
  world_.compile_seconds = 0.02;
  ASSERT_TRUE(run().ok());
  EXPECT_GE(world_.compiles, 1);
  EXPECT_LE(world_.compiles, 3);
  EXPECT_EQ(world_.samples, 5);  // one, and the winner once more
  EXPECT_FALSE(with_outcome("not tried").empty());
}

// Those that passed have them, and those that did not; whoever was not verified, or told no errors, has no list.
TEST_F(TunerTest, TheEvidenceHasTheErrorsOfEachKindAndTheirPlaces) {
  const std::string wrong = best_kernel();
  world_.verify = [&](const Candidate& c) {
    Verdict verdict{kernel_text(c) != wrong, 0.5, 1.25, "no reason"};
    verdict.errors = {{ErrorKind::kAllRows, "output: 64 rows", 0.5, 1.25},
                      {ErrorKind::kRow, "output: row 3", kernel_text(c) == wrong ? 9.0 : 2.0, 5},
                      {ErrorKind::kElement, "output: row 3, dim 7", 1, 7},
                      {ErrorKind::kLse, "log-sum-exp: row 1", 0.25, 1}};
    return verdict;
  };
  ASSERT_TRUE(run().ok());
  int right = 0, refused = 0;
  const auto evidence = nlohmann::json::parse(tuned_.winner.evidence);
  for (const auto& attempt : evidence["attempts"]) {
    const bool failed = attempt["outcome"] == "verify failed";
    (failed ? refused : right) += 1;
    const auto expected = nlohmann::json::parse(R"([
        {"what": "all rows", "where": "output: 64 rows", "error": 0.5, "bound": 1.25},
        {"what": "worst row", "where": "output: row 3", "error": )" +
                                                std::string(failed ? "9" : "2") + R"(, "bound": 5},
        {"what": "worst element", "where": "output: row 3, dim 7", "error": 1, "bound": 7},
        {"what": "log-sum-exp", "where": "log-sum-exp: row 1", "error": 0.25, "bound": 1}])");
    EXPECT_EQ(attempt["errors"], expected) << attempt;
  }
  EXPECT_GT(right, 0);
  EXPECT_GT(refused, 0);
  world_.verify = [](const Candidate&) { return Verdict{true, 0.5, 1.25, ""}; };
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(tuned_.winner.evidence.find("\"errors\""), std::string::npos);
  EXPECT_EQ(tuned_.winner.evidence.find("by_parts"), std::string::npos);
}

TEST_F(TunerTest, BesideLoadAWinnerIsProvisionalAndTheEvidenceSaysWhy) {
  world_.others = [] { return 0.5; };
  ASSERT_TRUE(run().ok());
  EXPECT_TRUE(tuned_.winner.provisional);
  EXPECT_GT(tuned_.winner.median_us, 0);
  EXPECT_EQ(tuned_.disturbed, "others had 50 % of the device");
  const auto race = nlohmann::json::parse(tuned_.winner.evidence)["race"];
  EXPECT_EQ(race["races"], 3);
  EXPECT_EQ(race["disturbed"], tuned_.disturbed);
  policy_.heed_load = false;
  ASSERT_TRUE(run().ok());
  EXPECT_FALSE(tuned_.winner.provisional);
}

// Who is alone when the budget ends raced nobody; where the device is idle, so short a budget was meant.
TEST_F(TunerTest, AWinnerWithoutRivalsForWantOfTimeIsProvisional) {
  world_.verify = [](const Candidate&) { return pause(1.0), Verdict{true, 1e-3, 2e-3, ""}; };
  policy_.budget_seconds = 1.2;
  ASSERT_TRUE(run().ok());
  EXPECT_TRUE(tuned_.winner.provisional);
  EXPECT_NE(tuned_.disturbed.find("the budget ended before"), std::string::npos) << tuned_.disturbed;
  policy_.budget_seconds = 0.9;
  ASSERT_TRUE(run().ok());
  EXPECT_FALSE(tuned_.winner.provisional) << tuned_.disturbed;
  int looks = 0;
  world_.others = [&] { return looks++ == 0 ? 0.5 : 0.0; };  // load while verifying, none while racing
  ASSERT_TRUE(run().ok());
  EXPECT_TRUE(tuned_.winner.provisional);
}

TEST_F(TunerTest, OfManyTuningsOnAnIdleDeviceNoneIsProvisional) {
  world_.microseconds = [](const Candidate& c) { return 100.0 + static_cast<double>(hash(c) % 40); };
  world_.noise = 0.02;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(run().ok());
    EXPECT_FALSE(tuned_.winner.provisional) << tuned_.disturbed;
  }
}

TEST_F(TunerTest, ARaceLastsAsLongAsTheDeviceSays) {
  world_.microseconds = [](const Candidate& c) { return 4000.0 + static_cast<double>(hash(c) % 7); };
  world_.noise = 0.02;  // so that nothing is decided
  world_.sample_seconds = 0.004;
  ASSERT_TRUE(run().ok());
  const int unlimited = world_.samples.exchange(0);
  double asked = 0;
  world_.race_seconds = [&](double best_us) {
    if (best_us > 0) asked = best_us;
    return best_us > 0 ? 20 * best_us / 1e6 : 0.1;
  };
  ASSERT_TRUE(run().ok());
  EXPECT_GT(unlimited, 40);
  EXPECT_LE(world_.samples, 25);  // the last four are the winner once more
  EXPECT_NEAR(asked, 4000, 400) << "the best so far decides";
  EXPECT_LT(tuned_.times.time, 1);
}

TEST_F(TunerTest, AShortRaceVerifiesFewAndSaysSo) {
  const auto verify = [&](const Candidate&) { return pause(0.02), Verdict{true, 1e-3, 2e-3, ""}; };
  world_.verify = verify;
  ASSERT_TRUE(run().ok());
  const int unlimited = world_.verifies.exchange(0);
  world_.race_seconds = [](double) { return 0.05 / 3; };
  ASSERT_TRUE(run().ok());
  EXPECT_GT(unlimited, 5);
  EXPECT_GE(world_.verifies, 2);
  EXPECT_LE(world_.verifies, 4);
  EXPECT_NE(with_outcome("not tried").front().detail.find("longer race"), std::string::npos);
}

// The first to be verified is looked at again once others were quicker; a later one is not even verified to the end.
TEST_F(TunerTest, WhoWasSlowInVerificationDoesNotRace) {
  const std::string first = best_kernel();
  for (const bool first_is_slow : {true, false}) {
    double fast_us = 5000;
    const auto slow = [&](const Candidate& c) { return (kernel_text(c) == first) == first_is_slow; };
    world_.verify = [&](const Candidate& c) {
      Verdict verdict{true, 1e-3, 2e-3, ""};
      verdict.run_us = slow(c) ? 2 * fast_us : fast_us;
      return verdict;
    };
    world_.microseconds = [&](const Candidate& c) { return slow(c) ? 1.0 : 10.0; };
    world_.hopeless = 0;
    policy_.compile_threads = 1;
    ASSERT_TRUE(run().ok());
    EXPECT_FALSE(slow(chosen()));
    EXPECT_EQ(world_.hopeless > 0, !first_is_slow);
    for (const Attempt& attempt : with_outcome("slower")) {
      if (!slow(candidate_of(attempt))) continue;
      EXPECT_EQ(attempt.samples, 0);
      EXPECT_EQ(attempt.detail, "2.00 times the best candidate's time, in verification");
    }
    fast_us = 500;  // too short to tell
    ASSERT_TRUE(run().ok());
    EXPECT_TRUE(slow(chosen()));
  }
}

TEST_F(TunerTest, ABudgetStopsCompiling) {
  policy_.budget_seconds = 0.2;
  policy_.compile_threads = 1;
  policy_.max_candidates = 50;
  world_.compile_seconds = 0.03;
  const double took = seconds_of([&] { ASSERT_TRUE(run().ok()); });
  EXPECT_LT(world_.compiles, 10);  // of the 0.2 s, 60 % go to compiling
  EXPECT_LT(took, 1.0);
}

TEST_F(TunerTest, ABudgetStopsTiming) {
  policy_.budget_seconds = 0.3;
  world_.sample_seconds = 0.01;
  world_.noise = 0.3;
  const double took = seconds_of([&] { ASSERT_TRUE(run().ok()); });
  EXPECT_LT(took, 1.0);
  EXPECT_LT(world_.samples, 40);
}

TEST_F(TunerTest, CompiledKernelsAreKeptAndTakenFromTheStore) {
  const std::string path = ::testing::TempDir() + "gqa-tuner-" + std::to_string(getpid()) + ".db";
  cache::Store::Options options;
  options.path = path;
  store_ = cache::Store::open(options);
  ASSERT_EQ(store_->mode(), cache::Mode::kReadWrite);
  ASSERT_TRUE(run().ok());
  const int compiled = world_.compiles;
  EXPECT_EQ(store_->list_kernels().size(), static_cast<std::size_t>(compiled));
  EXPECT_TRUE(store_->find_kernel(tuned_.winner.kernel).has_value());
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(world_.compiles, compiled);
  store_.reset();
  std::remove(path.c_str());
}

TEST_F(TunerTest, ProgressCountsUpToTheEnd) {
  std::vector<Progress> seen;
  progress_ = [&](const Progress& progress) { seen.push_back(progress); };
  ASSERT_TRUE(run().ok());
  ASSERT_GT(seen.size(), 3u);
  EXPECT_EQ(seen.front().phase, TunePhase::kSearch);
  EXPECT_GT(seen.front().enumerated, 0);
  EXPECT_EQ(seen.back().phase, TunePhase::kTime);
  EXPECT_EQ(seen.back().compiled, world_.compiles);
  EXPECT_EQ(seen.back().verified, world_.verifies);
  EXPECT_EQ(seen.back().timed, world_.verifies);
  EXPECT_EQ(seen.back().best_us, tuned_.winner.median_us);
  for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_GE(seen[i].seconds, seen[i - 1].seconds);
}

TEST_F(TunerTest, PrecompileKeepsKernelsAndMeasuresNothing) {
  FakeDevice device(&world_);
  std::vector<Attempt> attempts;
  AttentionWorkload workload{Signature(small_problem())};
  ASSERT_TRUE(precompile(device, *store_, workload, policy_, {}, &attempts).ok());
  EXPECT_EQ(world_.compiles, policy_.max_candidates);
  EXPECT_EQ(world_.loads + world_.trials + world_.launches, 0);
  EXPECT_EQ(std::count_if(attempts.begin(), attempts.end(), [](const Attempt& a) { return a.outcome == "compiled"; }),
            policy_.max_candidates);
  world_.compile = [](const Candidate&) { return broken(); };
  const Status status = precompile(device, *store_, workload, policy_, {}, &attempts);
  EXPECT_EQ(status.code(), Code::kNoCandidate);
}

TEST(Keys, HoldWhatAWinnerDependsOn) {
  FakeWorld world;
  const FakeDevice device(&world);
  const Problem problem = small_problem();
  const cache::WinnerKey key = winner_key(device, AttentionWorkload(Signature(problem)).signature());
  EXPECT_EQ(key.signature, to_text(Signature(problem).problem()));
  EXPECT_EQ(key.device, world.spec.identity());
  const Candidate candidate = enumerate(problem, world.spec).ranked.front().candidate;
  const auto key_of = [&](const Candidate& of) {
    return kernel_key(device, program_of(problem, of, DeviceKind::kCuda).sources.front());
  };
  const std::string kernel = key_of(candidate);
  EXPECT_EQ(kernel.size(), 48u);
  Candidate one, launched_otherwise, other;
  ASSERT_TRUE(parse("flash m=64 n=64 warps=4 stages=2 pack=1", &one).ok());
  ASSERT_TRUE(parse("flash m=64 n=64 warps=4 stages=2 pack=1 head_swizzle=1", &launched_otherwise).ok());
  ASSERT_TRUE(parse("flash m=64 n=64 warps=4 stages=3 pack=1", &other).ok());
  EXPECT_EQ(key_of(launched_otherwise), key_of(one));
  EXPECT_NE(key_of(other), key_of(one));
  world.compiler = "fake compiler 2";
  EXPECT_NE(key_of(candidate), kernel);
  EXPECT_EQ(key_of(candidate).substr(0, 32), kernel.substr(0, 32));
  world.compiler = "fake compiler 1";
  EXPECT_EQ(key_of(candidate), kernel);
  world.spec.arch = "sm_86";
  EXPECT_NE(key_of(candidate).substr(0, 32), kernel.substr(0, 32));
}

// Options of the given kernels and predicted times.
std::vector<Option> options_of(const std::vector<std::pair<std::string, double>>& given) {
  std::vector<Option> options;
  for (const auto& [kernel, predicted_us] : given) {
    options.emplace_back().kernels = {kernel};
    options.back().predicted_us = predicted_us;
  }
  return options;
}

TEST(Shortlist, TakesDistinctKernelsInRankOrderAndThenThoseThatShareThem) {
  using Indices = std::vector<std::size_t>;
  const auto options = options_of({{"a", 1}, {"a", 1.1}, {"b", 1.2}, {"a", 1.3}, {"c", 1.4}, {"b", 3}});
  const auto all = [](std::size_t) { return true; };
  const Shortlist list = shortlist(options, 2, 4, all);
  EXPECT_EQ(list.own, (Indices{0, 2}));
  EXPECT_EQ(list.sharing, (Indices{1, 3}));
  EXPECT_EQ(list.passed_over, (Indices{4, 5}));  // the last is predicted three times the best
  EXPECT_EQ(shortlist(options, 2, 3, all).sharing, (Indices{1}));
  EXPECT_TRUE(shortlist({}, 2, 3, all).own.empty());
}

TEST(Shortlist, WhatIsNotUsableTakesNobodysPlace) {
  const auto options = options_of({{"a", 1}, {"b", 1.1}, {"c", 1.2}});
  const Shortlist list = shortlist(options, 2, 2, [](std::size_t at) { return at != 0; });
  EXPECT_EQ(list.own, (std::vector<std::size_t>{1, 2}));
  EXPECT_TRUE(list.passed_over.empty());
}

}  // namespace
}  // namespace gqa::test
