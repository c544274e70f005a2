// rows_test.cc: finding a row by the first digits of its key, and a winner as a listing shows it.
#include "tools/cache/rows.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/json.h"
#include "tools/cache/errors.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

class Rows : public testing::Test {
 protected:
  Rows() {
    std::string name = (std::filesystem::temp_directory_path() / "gqa-rows-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    store_ = cache::Store::open({folder_ + "/cache.db"});
    for (const char* start : {"aa", "ab", "cc"}) put_kernel(start + std::string(30, '0'));
  }
  ~Rows() override {
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void put_kernel(const std::string& key) {
    cache::KernelRow row;
    row.key = key;
    row.arch = "sm_90a";
    row.source = "source of " + key;
    ASSERT_TRUE(store_->put_kernel(row));
  }

  template <class Error>
  std::string refusal(const std::string& prefix) {
    try {
      (void)find_row(*store_, prefix);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::string folder_;
  std::unique_ptr<cache::Store> store_;
};

TEST(MeasuredText, SaysWhatMakesAWinnerProvisional) {
  cache::WinnerRow row;
  row.median_us = 12.3;
  row.spread_us = 0.1;
  const std::string measured = measured_text(row);
  EXPECT_EQ(measured.rfind("12.3 us, spread ", 0), 0U) << measured;
  row.provisional = true;
  row.evidence = R"({"race": {"races": 3, "disturbed": "others had 48 % of the device"}})";
  EXPECT_EQ(measured_text(row),
            "provisional: " + measured + "; the next tuning replaces it: others had 48 % of the device");
  row.evidence = R"({"race": 3})";
  EXPECT_NE(measured_text(row).find("memory was short"), std::string::npos);
  row.median_us = 0;
  EXPECT_EQ(measured_text(row), "provisional: verified, not timed; the next tuning replaces it");
}

TEST(Losers, AreTheOthersTheFastestFirst) {
  cache::WinnerRow row;
  row.evidence = R"({"attempts": [{"candidate": "wrong", "outcome": "verify failed"},
                                  {"candidate": "third", "outcome": "slower", "median_us": 30},
                                  {"candidate": "first", "outcome": "winner", "median_us": 10},
                                  {"candidate": "second", "outcome": "slower", "median_us": 20}, 7]})";
  std::string names;
  for (const Json& loser : losers_of(row)) names += text_of(loser, "candidate") + " ";
  EXPECT_EQ(names, "second third wrong ");
  for (const char* evidence : {"", "{}", "no JSON", R"({"attempts": 3})"}) {
    row.evidence = evidence;
    EXPECT_TRUE(losers_of(row).empty()) << evidence;
  }
}

TEST(ShortShape, LeavesOutWhatIsTheDefault) {
  const auto shortened = [](const std::string& signature) {
    cache::WinnerRow row;
    row.key.signature = signature;
    return short_shape(row);
  };
  EXPECT_EQ(shortened("b=1,hq=4,hk=2,sq=64,sk=64,d=64,dtype=bf16,causal"), "hq=4,hk=2,sq=64,d=64,causal");
  EXPECT_EQ(shortened("b=2,hq=4,hk=4,sq=1,sk=64,d=64,dtype=f16,page=16,lens"),
            "b=2,hq=4,sq=1,sk=64,d=64,dtype=f16,page=16,lens");
  EXPECT_EQ(shortened("b=1,of another version"), "b=1,of another version");
  EXPECT_EQ(shortened("graph 0123 attention"), "graph 0123 attention");
}

TEST_F(Rows, AWinnerIsFoundBesideKernels) {
  cache::WinnerRow row;
  row.key = {"shape", "device", "search"};
  row.kernel = "aa" + std::string(30, '0');
  ASSERT_TRUE(store_->put_winner(row));
  EXPECT_EQ(find_winner_row(*store_, row.id().substr(0, 12)).key.signature, "shape");
  const auto refused = [this](const std::string& prefix) -> std::string {
    try {
      (void)find_winner_row(*store_, prefix);
      return "";
    } catch (const Failure& failure) {
      return failure.what();
    }
  };
  EXPECT_NE(refused("cc0").find("the key of a kernel"), std::string::npos);
  EXPECT_NE(refused("0123456789abcdef").find("no winner"), std::string::npos);
}

TEST_F(Rows, FoundByAUniquePrefix) {
  for (const char* prefix : {"c", "cc", "CC0"}) {
    const Found found = find_row(*store_, prefix);
    ASSERT_EQ(found.kernels.size(), 1u);
    EXPECT_EQ(found.kernels[0].key, "cc" + std::string(30, '0'));
    EXPECT_TRUE(found.winners.empty());
  }
}

TEST_F(Rows, AnAmbiguousPrefixNamesTheKeys) {
  const std::string message = refusal<Failure>("a");
  EXPECT_NE(message.find("2 keys"), std::string::npos) << message;
  EXPECT_NE(message.find("aa0000"), std::string::npos) << message;
  EXPECT_NE(message.find("ab0000"), std::string::npos) << message;
}

TEST_F(Rows, AWinnerIsFoundByItsDigest) {
  cache::WinnerRow winner;
  winner.key = {"b=1", "cuda sm_90a sms=132", "search 1"};
  winner.compiler = "nvrtc 13.0 --std=c++17";
  winner.kernel = "cc" + std::string(30, '0');
  ASSERT_TRUE(store_->put_winner(winner));
  const Found found = find_row(*store_, winner.id());
  ASSERT_EQ(found.winners.size(), 1u);
  EXPECT_TRUE(found.kernels.empty());
  EXPECT_EQ(found.winners[0].kernel, winner.kernel);
  EXPECT_EQ(arch_of(found.winners[0]), "sm_90a");
  EXPECT_EQ(winner_json(found.winners[0])["key"], winner.id());
}

TEST_F(Rows, OfTwoCompilersOfOneWinnerTheMessageNamesBoth) {
  cache::WinnerRow winner;
  winner.key = {"b=1", "cuda sm_90a sms=132", "search 1"};
  winner.kernel = "cc" + std::string(30, '0');
  for (const char* compiler : {"nvrtc 12.9 --std=c++17", "nvrtc 13.0 --std=c++17"}) {
    winner.compiler = compiler;
    ASSERT_TRUE(store_->put_winner(winner));
  }
  const std::string message = refusal<Failure>(short_key(winner.id()));
  EXPECT_NE(message.find(winner.id() + " (nvrtc 13.0)"), std::string::npos) << message;
  EXPECT_NE(message.find("(nvrtc 12.9)"), std::string::npos) << message;
  EXPECT_EQ(find_row(*store_, winner.id()).winners.front().compiler, winner.compiler);
}

TEST(RowTexts, ACompilerIsItsNameAndVersion) {
  EXPECT_EQ(compiler_text("nvrtc 13.0 --std=c++17"), "nvrtc 13.0");
  EXPECT_EQ(compiler_text("host 1"), "host 1");
  EXPECT_EQ(compiler_text("host"), "host");
  EXPECT_EQ(compiler_text(""), "");
}

TEST(RowTexts, OfAGraphsWinnerSayWhatItIs) {
  cache::WinnerRow winner;
  winner.key.signature = "graph 0123456789abcdef0123456789abcdef config=attention";
  winner.candidate = "graph 1\nx = input f16[16,64]\nw = input f16[64,32]\na = matmul(x, w)\nb = silu(a)\n";
  EXPECT_TRUE(is_graph(winner));
  EXPECT_EQ(shape_text(winner), "graph " + short_key("0123456789abcdef0123456789abcdef") + " config=attention");
  EXPECT_EQ(candidate_text(winner), "2 kernels: matmul; silu | matmul; silu");
  winner.candidate = "of a later version";
  EXPECT_EQ(candidate_text(winner), winner.candidate);
  winner.key.signature = "b=1,hq=8,d=64";
  EXPECT_FALSE(is_graph(winner));
  EXPECT_EQ(shape_text(winner), winner.key.signature);
}

TEST_F(Rows, NothingOfThatName) {
  EXPECT_NE(refusal<Failure>("dd").find("'dd'"), std::string::npos);
  for (const std::string& prefix : {std::string(), std::string("xyz"), std::string("aa*"), std::string(49, '0')}) {
    EXPECT_NE(refusal<Usage>(prefix), "") << prefix;
  }
}

}  // namespace
}  // namespace gqa::tools
