// candidate_test.cc: candidates as data: text, parse, hash, order, and what makes two of them one kernel.
#include "search/families/candidate.h"

#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <string>

#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

std::string error_of(std::string_view text) {
  Candidate candidate;
  const Status status = parse(text, &candidate);
  EXPECT_FALSE(status.ok()) << text;
  EXPECT_EQ(candidate, Candidate());
  return status.message();
}

TEST(Candidate, Text) {
  EXPECT_EQ(to_text(Candidate()), "flash m=64 n=64 warps=4 stages=2 pack=1 splits=1 head_swizzle=0");
  EXPECT_EQ(kernel_text(Candidate()), "flash m=64 n=64 warps=4 stages=2 pack=1");
}

TEST(Candidate, TextRoundTrips) {
  std::set<std::string> texts, families;
  for (const DeviceSpec& device : devices()) {
    for (const char* shape : kShapes) {
      for (const Ranked& ranked : enumerate(problem_of(shape), device).ranked) {
        const std::string text = to_text(ranked.candidate);
        Candidate back;
        ASSERT_TRUE(parse(text, &back).ok()) << text;
        ASSERT_EQ(back, ranked.candidate);
        texts.insert(text);
        families.insert(std::string(name(back)));
      }
    }
  }
  EXPECT_GT(texts.size(), 1000u);
  EXPECT_EQ(families, (std::set<std::string>{"flash", "split", "warpgroup"}));
}

TEST(Candidate, LaunchParametersDoNotMakeAKernel) {
  const std::string kernel = "split m=64 n=64 warps=4 stages=2 pack=1";
  const Candidate one = candidate_of(kernel), seven = candidate_of(kernel + " splits=7");
  EXPECT_NE(one, seven);
  EXPECT_EQ(kernel_text(one), kernel_text(seven));
  EXPECT_EQ(candidate_of(kernel_text(seven)), one);  // launch parameters at their defaults
  EXPECT_NE(kernel_text(candidate_of(with_fields(kernel, "pack=2"))), kernel);
}

TEST(Candidate, AMechanismThatIsNotUsedIsNotInTheText) {
  const std::string without = "warpgroup m=192 n=128 warps=12 stages=4 pack=1 dynamic=0 out=1";
  Candidate plain, summing;
  ASSERT_TRUE(parse(without, &plain).ok());
  EXPECT_EQ(kernel_text(plain), without);
  ASSERT_TRUE(parse(without + " ones_column=1", &summing).ok());
  EXPECT_EQ(kernel_text(summing), without + " ones_column=1");
  EXPECT_NE(plain, summing);
  Candidate spelt_out;
  ASSERT_TRUE(parse(without + " ones_column=0", &spelt_out).ok());
  EXPECT_EQ(spelt_out, plain);
}

TEST(Candidate, ErrorsNameKeyValueAndExpectation) {
  EXPECT_EQ(error_of(""), "unknown family '': expected 'flash', 'split' or 'warpgroup' first");
  EXPECT_EQ(error_of("dense m=1"), "unknown family 'dense': expected 'flash', 'split' or 'warpgroup' first");
  EXPECT_EQ(error_of("flash m=64 n=64 warps=4 stages=2"),
            "key 'pack' is missing: expected all that shape the code, as in 'flash m=64 n=64 warps=4 stages=2 pack=1'");
  EXPECT_EQ(error_of("flash m=x"), "m='x': expected a whole number from 0 to 1048576");
  EXPECT_EQ(error_of("flash m=1048577"), "m='1048577': expected a whole number from 0 to 1048576");
  EXPECT_EQ(error_of("flash m=1 m=1"), "key 'm' is given twice: expected once");
  EXPECT_EQ(error_of("flash m"), "'m' has no value: expected m=NUMBER");
  EXPECT_EQ(error_of("flash k=1"), "unknown key 'k': expected m, n, warps, stages, pack, terms, splits, head_swizzle");
  EXPECT_EQ(error_of("flash dynamic=1"),
            "unknown key 'dynamic': expected m, n, warps, stages, pack, terms, splits, head_swizzle");
  EXPECT_EQ(error_of("warpgroup k=1"),
            "unknown key 'k': expected m, n, warps, stages, pack, dynamic, out, ones_column, queries, "
            "q_regs, cluster, cp_async, stream_k, "
            "splits, head_swizzle");
  EXPECT_EQ(error_of("warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1"),
            "key 'out' is missing: expected all that shape the code, as in "
            "'warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0'");
}

// What cannot be built cannot be written down.
TEST(Candidate, CombinationsThatAreNoneAreRefused) {
  const std::string base = "warpgroup m=128 n=128 warps=8 stages=2 pack=1 dynamic=1 out=1";
  EXPECT_EQ(error_of(base + " stream_k=5"), "dynamic=1 beside stream_k=5: expected one tile scheduler");
  EXPECT_NE(error_of(with_fields(base, "warps=4")), "");
  EXPECT_EQ(error_of("flash m=64 n=64 warps=4 stages=2 pack=1 splits=2"), "2 splits: flash has 1");
  EXPECT_EQ(error_of("split m=64 n=64 warps=4 stages=2 pack=1 head_swizzle=1"), "head_swizzle=1: split has none");
}

// Each of these differs from the first of its family in one field.
constexpr const char* kFields[] = {
    "flash m=64 n=64 warps=4 stages=2 pack=1 head_swizzle=0",
    "flash m=128 n=64 warps=4 stages=2 pack=1 head_swizzle=0",
    "flash m=64 n=32 warps=4 stages=2 pack=1 head_swizzle=0",
    "flash m=64 n=64 warps=2 stages=2 pack=1 head_swizzle=0",
    "flash m=64 n=64 warps=4 stages=1 pack=1 head_swizzle=0",
    "flash m=64 n=64 warps=4 stages=2 pack=2 head_swizzle=0",
    "flash m=64 n=64 warps=4 stages=2 pack=1 head_swizzle=1",
    "split m=64 n=64 warps=4 stages=2 pack=1 splits=1",
    "split m=32 n=64 warps=4 stages=2 pack=1 splits=1",
    "split m=64 n=32 warps=4 stages=2 pack=1 splits=1",
    "split m=64 n=64 warps=2 stages=2 pack=1 splits=1",
    "split m=64 n=64 warps=4 stages=3 pack=1 splits=1",
    "split m=64 n=64 warps=4 stages=2 pack=2 splits=1",
    "split m=64 n=64 warps=4 stages=2 pack=1 splits=2",
    "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1",
    "warpgroup m=64 n=128 warps=4 stages=2 pack=1 dynamic=0 out=1",
    "warpgroup m=64 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1",
    "warpgroup m=64 n=64 warps=4 stages=3 pack=1 dynamic=0 out=1",
    "warpgroup m=64 n=64 warps=4 stages=2 pack=2 dynamic=0 out=1",
    "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1 out=1",
    "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0",
    "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1 queries=2",
    "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1 q_regs=2",
    "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1 head_swizzle=3",
    "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1 ones_column=1",
    "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1",
    "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 cluster=2",
    "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 stream_k=5",
    "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 stream_k=6",
};

TEST(Candidate, HashIsTheSameInEveryProcessAndSeesEveryField) {
  EXPECT_EQ(hash(Candidate()), 6434460698165143749u);
  std::set<std::uint64_t> hashes;
  for (const char* text : kFields) EXPECT_TRUE(hashes.insert(hash(candidate_of(text))).second) << text;
}

// By family, then by the numbers of the text, in its order: rankings that tie are told apart by it.
TEST(Candidate, OrderIsThatOfTheText) {
  std::set<Candidate> all;
  for (const char* text : kFields) EXPECT_TRUE(all.insert(candidate_of(text)).second) << text;
  const char* const ascending[] = {
      "flash m=64 n=64 warps=4 stages=2 pack=1",
      "flash m=64 n=128 warps=4 stages=2 pack=1",
      "split m=64 n=16 warps=4 stages=2 pack=1",
      "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=0 stream_k=9",
      "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1",
      "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 stream_k=5",
      "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 cluster=2",
      "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1 stream_k=5",
      "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=0",
  };
  for (std::size_t at = 1; at < std::size(ascending); ++at)
    EXPECT_LT(candidate_of(ascending[at - 1]), candidate_of(ascending[at])) << ascending[at];
}

}  // namespace
}  // namespace gqa
