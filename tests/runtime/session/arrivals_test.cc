// arrivals_test.cc: winners that were measured elsewhere: verified before their first use here, once; refused where
// their numbers are wrong. On a device whose every verdict is decided here.
#include "runtime/session/arrivals.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "cache/file/database.h"
#include "runtime/session/explanation.h"
#include "runtime/session/session.h"
#include "search/problem/signature.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/temporary_folder.h"

namespace gqa::test {
namespace {

using Strings = std::vector<std::string>;

class ArrivalsTest : public ::testing::Test {
 protected:
  ArrivalsTest() : user_(folder_.file("user.db")), image_(folder_.file("image.db")), both_(user_ + ":" + image_) {
    EXPECT_TRUE(open(image_)->ready(small_problem()).ok());
    image_bytes_ = bytes_of(image_);
    forget();
  }
  ~ArrivalsTest() override { EXPECT_EQ(bytes_of(image_), image_bytes_) << "a file beneath was written"; }

  std::unique_ptr<Session> open(const std::string& path, Tuning tuning = Tuning::kNow,
                                cache::Mode mode = cache::Mode::kReadWrite) {
    SessionOptions options;
    options.tuning = tuning;
    options.policy.compile_threads = 2;
    options.log = [this](bool warning, const std::string& message) {
      (warning ? warnings_ : messages_).push_back(message);
    };
    return std::make_unique<Session>(std::make_unique<FakeDevice>(&world_), cache::Store::open({path, mode, 10}),
                                     options);
  }

  Origin first_call(const std::string& path, Tuning tuning = Tuning::kNow, cache::Mode mode = cache::Mode::kReadWrite) {
    ReadyResult readied;
    const auto session = open(path, tuning, mode);
    const Status status = session->ready(small_problem(), &readied);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(session->run_ready(call_of(small_problem())).ok());
    if (readied.ready != nullptr) candidate_ = readied.ready->winner.candidate;
    return readied.origin;
  }

  static std::string small_text() { return to_text(Signature(small_problem())); }
  std::string image_candidate() const {
    return cache::Store::open({image_, cache::Mode::kReadOnly, 10})->list_winners().at(0).candidate;
  }

  // What the image's winner computes is wrong; what else there is, is right.
  void spoil() {
    const std::string wrong = image_candidate();
    world_.verify = [wrong](const Candidate& candidate) {
      return to_text(candidate) == wrong ? Verdict{false, 9, 1, "element 7 is 3, expected 4"}
                                         : Verdict{true, 1e-3, 2e-3, ""};
    };
    forget();
  }

  void forget() {
    world_.compiles = world_.loads = world_.trials = world_.verifies = world_.samples = 0;
    warnings_.clear();
    messages_.clear();
  }

  static std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryFolder folder_;
  FakeWorld world_;
  const std::string user_, image_, both_;
  std::string image_bytes_, candidate_;
  Strings warnings_, messages_;
};

TEST_F(ArrivalsTest, OneFromAFileBeneathIsVerifiedOnceAndThenTheFirstFilesOwn) {
  world_.verify = [](const Candidate&) { return Verdict{true, 3e-3, 5e-3, ""}; };
  EXPECT_EQ(first_call(both_), Origin::kCache);
  EXPECT_EQ(world_.verifies, 1);
  EXPECT_EQ(world_.compiles + world_.samples, 0) << "nothing is tuned";
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_NE(messages_[0].find("verified the winner for " + small_text() + " from " + image_), std::string::npos);
  forget();
  for (const std::string& path : {both_, user_}) {
    EXPECT_EQ(first_call(path), Origin::kCache);
    EXPECT_EQ(world_.verifies, 0) << path;
  }
  EXPECT_EQ(messages_, Strings());
  EXPECT_EQ(warnings_, Strings());
  const auto kept = open(user_)->store().list_winners();
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].error, 3e-3) << "what was found here";
  EXPECT_GT(kept[0].median_us, 0);
}

TEST_F(ArrivalsTest, AnOwnWinnerIsNotVerifiedAgain) {
  EXPECT_EQ(first_call(image_, Tuning::kNow, cache::Mode::kReadOnly), Origin::kCache);
  EXPECT_EQ(world_.verifies, 0);
}

TEST_F(ArrivalsTest, AWrongOneIsRefusedWarnedOfAndTunedAnew) {
  spoil();
  const std::string wrong = image_candidate();
  EXPECT_EQ(first_call(both_), Origin::kTuned);
  EXPECT_NE(candidate_, wrong);
  ASSERT_EQ(warnings_.size(), 1u) << "once, though the cache is asked again under the lease";
  for (const std::string& part : {image_, small_text(), std::string("failed its verification on this machine"),
                                  std::string("element 7 is 3, expected 4")})
    EXPECT_NE(warnings_[0].find(part), std::string::npos) << warnings_[0];
  forget();
  EXPECT_EQ(first_call(both_), Origin::kCache);
  EXPECT_NE(candidate_, wrong);
  EXPECT_EQ(world_.verifies, 0) << "the first file has one of its own";
  EXPECT_EQ(warnings_, Strings());
}

TEST_F(ArrivalsTest, WithoutTuningAWrongOneIsAsGoodAsNone) {
  spoil();
  const auto session = open(both_, Tuning::kCachedOnly);
  EXPECT_EQ(session->ready(small_problem()).code(), Code::kNotCached);
  EXPECT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(session->ready(small_problem()).code(), Code::kNotCached);
  EXPECT_EQ(world_.verifies, 1) << "once a process";
  EXPECT_EQ(session->run(call_of(small_problem())).code(), Code::kNotCached);
  EXPECT_EQ(world_.launches, 0);
}

TEST_F(ArrivalsTest, WithoutTuningARightOneServes) {
  EXPECT_EQ(first_call(both_, Tuning::kCachedOnly), Origin::kCache);
  EXPECT_EQ(world_.verifies, 1);
  EXPECT_EQ(world_.compiles, 0);
}

TEST_F(ArrivalsTest, WhereTheFirstFileCannotBeWrittenEachProcessVerifiesOnce) {
  std::ofstream(user_) << "not a cache";
  for (int process = 0; process < 2; ++process) {
    forget();
    const auto session = open(both_);
    for (int call = 0; call < 3; ++call) ASSERT_TRUE(session->run(call_of(small_problem())).ok());
    EXPECT_EQ(world_.verifies, 1);
    EXPECT_EQ(world_.compiles, 0);
    EXPECT_NE(messages_.at(0).find("no file can be written"), std::string::npos) << messages_[0];
  }
  forget();
  for (int process = 1; process <= 2; ++process) {
    EXPECT_EQ(first_call(folder_.file("none.db") + ":" + image_, Tuning::kCachedOnly, cache::Mode::kReadOnly),
              Origin::kCache);
    EXPECT_EQ(world_.verifies, process);
  }
}

TEST_F(ArrivalsTest, AnExplanationSaysWhenceAndVerifiesNothing) {
  const std::string words = "it came in " + image_ + " and is verified at its first use";
  const auto session = open(both_);
  EXPECT_NE(explain(*session, small_problem()).reason.find(words), std::string::npos);
  EXPECT_EQ(world_.verifies, 0);
  ASSERT_TRUE(session->ready(small_problem()).ok());
  EXPECT_EQ(explain(*session, small_problem()).reason.find("came in"), std::string::npos);
}

TEST_F(ArrivalsTest, AnImportedOneIsVerifiedOnceToo) {
  ASSERT_EQ(cache::Store::open({user_, cache::Mode::kReadWrite, 10})->import_from(image_), "");
  EXPECT_EQ(first_call(user_), Origin::kCache);
  EXPECT_EQ(world_.verifies, 1);
  EXPECT_EQ(first_call(user_), Origin::kCache);
  EXPECT_EQ(world_.verifies, 1);
}

TEST_F(ArrivalsTest, AWrongImportedOneIsReplacedByOneThatIsTuned) {
  ASSERT_EQ(cache::Store::open({user_, cache::Mode::kReadWrite, 10})->import_from(image_), "");
  spoil();
  EXPECT_EQ(first_call(user_), Origin::kTuned);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find(user_), std::string::npos);
  forget();
  EXPECT_EQ(first_call(user_), Origin::kCache);
  EXPECT_EQ(world_.verifies, 0);
}

TEST_F(ArrivalsTest, MemoryThatIsShortBlamesNobody) {
  world_.verify = [](const Candidate&) {
    Verdict verdict{false, 0, 0, "no memory"};
    verdict.out_of_memory = true;
    return verdict;
  };
  const auto session = open(both_, Tuning::kCachedOnly);
  EXPECT_EQ(session->ready(small_problem()).code(), Code::kNotCached);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("cannot be verified on this machine and is not used: no memory"), std::string::npos);
  world_.verify = [](const Candidate&) { return Verdict{true, 1e-3, 2e-3, ""}; };
  EXPECT_TRUE(session->ready(small_problem()).ok());
}

TEST_F(ArrivalsTest, ADeviceThatBreaksBlamesNobody) {
  world_.verify = [&](const Candidate&) {
    world_.broken = {Code::kDeviceFailed, "the driver's words"};
    return Verdict{false, 0, 0, "the kernel failed"};
  };
  const auto session = open(both_, Tuning::kCachedOnly);
  EXPECT_FALSE(session->ready(small_problem()).ok());
  world_.broken = {};
  world_.verify = [](const Candidate&) { return Verdict{true, 1e-3, 2e-3, ""}; };
  EXPECT_TRUE(session->ready(small_problem()).ok());
}

TEST_F(ArrivalsTest, ACancelledVerificationIsNoVerdict) {
  const auto session = open(both_, Tuning::kCachedOnly);
  world_.verify = [&](const Candidate&) {
    session->cancel();
    return Verdict{false, 0, 0, "given up"};
  };
  EXPECT_EQ(session->ready(small_problem()).code(), Code::kCancelled);
  EXPECT_EQ(warnings_, Strings());
  world_.verify = [](const Candidate&) { return Verdict{true, 1e-3, 2e-3, ""}; };
  EXPECT_TRUE(session->ready(small_problem()).ok());
}

// A winner is what it runs.
TEST_F(ArrivalsTest, AnOwnWinnerWhoseKernelLiesBeneathIsVerifiedAndThenWhole) {
  EXPECT_EQ(first_call(both_), Origin::kCache);
  cache::Database(user_, cache::Database::Open::kReadWrite).execute("DELETE FROM kernels");
  forget();
  EXPECT_EQ(first_call(both_), Origin::kCache);
  EXPECT_EQ(world_.verifies, 1);
  EXPECT_EQ(first_call(user_), Origin::kCache);
  EXPECT_EQ(world_.verifies, 1);
}

}  // namespace
}  // namespace gqa::test
