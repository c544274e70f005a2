// candidate_test.cc: candidates as data: text, parse, hash, order, and what makes two of them one kernel.
#include "search/families/candidate.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

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
  std::mt19937 random(1);
  const auto any = [&] { return static_cast<std::int32_t>(random() % 1000); };
  for (int i = 0; i < 5000; ++i) {
    Candidate c;
    c.family = static_cast<Family>(random() % 3);
    const bool warpgroup = c.family == Family::kWarpgroup;
#define GQA_FIELD(field, key, initial, use) \
  if (warpgroup || FieldUse::use == FieldUse::kCode || FieldUse::use == FieldUse::kLaunch) c.field = any();
    GQA_CANDIDATE_FIELDS(GQA_FIELD)
#undef GQA_FIELD
    Candidate back;
    ASSERT_TRUE(parse(to_text(c), &back).ok()) << to_text(c);
    ASSERT_EQ(back, c);
  }
}

TEST(Candidate, LaunchParametersDoNotMakeAKernel) {
  Candidate a, b;
  b.splits = 7;
  b.head_swizzle = 1;
  EXPECT_NE(a, b);
  EXPECT_EQ(kernel_text(a), kernel_text(b));
  Candidate read;
  ASSERT_TRUE(parse(kernel_text(b), &read).ok());
  EXPECT_EQ(read, a);  // launch parameters at their defaults
  b.pack = 2;
  EXPECT_NE(kernel_text(a), kernel_text(b));
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
  EXPECT_EQ(error_of("flash k=1"), "unknown key 'k': expected m, n, warps, stages, pack, splits, head_swizzle");
  EXPECT_EQ(error_of("flash dynamic=1"),
            "unknown key 'dynamic': expected m, n, warps, stages, pack, splits, head_swizzle");
  EXPECT_EQ(error_of("warpgroup k=1"),
            "unknown key 'k': expected m, n, warps, stages, pack, dynamic, out, ones_column, folded_scale, queries, "
            "exp2_fma, q_regs, cluster, stream_k, "
            "splits, head_swizzle");
  EXPECT_EQ(error_of("warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1"),
            "key 'out' is missing: expected all that shape the code, as in "
            "'warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0'");
}

TEST(Candidate, HashIsTheSameInEveryProcessAndSeesEveryField) {
  EXPECT_EQ(hash(Candidate()), 11136318408781825972u);
  std::set<std::uint64_t> hashes = {hash(Candidate())};
  Candidate split;
  split.family = Family::kSplit;
  EXPECT_TRUE(hashes.insert(hash(split)).second);
  int fields = 0;
#define GQA_FIELD(field, key, initial, use)            \
  {                                                    \
    Candidate c;                                       \
    ++c.field;                                         \
    ++fields;                                          \
    EXPECT_TRUE(hashes.insert(hash(c)).second) << key; \
  }
  GQA_CANDIDATE_FIELDS(GQA_FIELD)
#undef GQA_FIELD
  EXPECT_EQ(hashes.size(), static_cast<std::size_t>(fields) + 2);
}

TEST(Candidate, OrderIsTotal) {
  Candidate a, b;
  b.tile_n = 128;
  EXPECT_LT(a, b);
  b.family = Family::kSplit;
  b.tile_n = 16;
  EXPECT_LT(a, b);  // by family first
}

}  // namespace
}  // namespace gqa
