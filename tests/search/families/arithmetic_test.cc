// Which candidates round alike; and that the accuracy tests leave no arithmetic of the space out.
#include "search/families/arithmetic.h"

#include <set>

#include "search/families/resources.h"
#include "tests/accuracy_cases.h"
#include "tests/search/families/space_support.h"
#include "tests/tile_kinds.h"

namespace gqa {
namespace {

std::set<std::string> arithmetics(const std::string& problem) {
  std::set<std::string> found;
  for (const Ranked& ranked : enumerate(problem_of(problem), h200()).ranked) found.insert(arithmetic(ranked.candidate));
  return found;
}

TEST(Arithmetic, IsWhatRounds) {
  const auto words = [](const char* text) { return arithmetic(candidate_of(text)); };
  EXPECT_EQ("flash", words("flash m=128 n=64 warps=4 stages=2 pack=1"));
  EXPECT_EQ("split", words("split m=16 n=32 warps=4 stages=3 pack=4 splits=1"));
  EXPECT_EQ("split joined", words("split m=16 n=32 warps=4 stages=3 pack=4 splits=7"));
  EXPECT_EQ("split even", words("split m=16 n=32 warps=4 stages=3 pack=4 even=1 splits=132"));
  const char* const online = "warpgroup m=192 n=128 warps=12 stages=2 pack=1 dynamic=1 out=1";
  EXPECT_EQ("warpgroup online", words(online));
  EXPECT_EQ("warpgroup ones_column",
            words("warpgroup m=192 n=128 warps=12 stages=4 pack=1 dynamic=0 out=1 ones_column=1 queries=2"));
  EXPECT_EQ("warpgroup online shared_rows", words("warpgroup m=64 n=64 warps=8 stages=4 pack=1 dynamic=0 out=1"));
  EXPECT_EQ("warpgroup online stream_k",
            words("warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 stream_k=132"));
}

TEST(Arithmetic, ExamplesHaveTheEndsOfEach) {
  const Space space = enumerate(problem_of("hq=8,hk=8,sq=2048,d=64"), h200());
  std::map<std::string, std::set<int>> all, given;
  for (const Ranked& ranked : space.ranked) all[arithmetic(ranked.candidate)].insert(shape_of(ranked.candidate).keys);
  for (const ArithmeticExample& example : arithmetic_examples(space)) {
    EXPECT_EQ(example.arithmetic, arithmetic(example.candidate));
    given[example.arithmetic].insert(shape_of(example.candidate).keys);
  }
  ASSERT_EQ(all.size(), given.size());
  for (const auto& [name, keys] : all) EXPECT_EQ((std::set<int>{*keys.begin(), *keys.rbegin()}), given[name]) << name;
}

// What a GPU's test compiles of the space: few enough for a minute, and every word that a kind can have.
TEST(Arithmetic, KindsOfTileOnLengthsAreFewAndComplete) {
  std::string all;
  for (const char* text : test::kProblemsOnLengths) {
    const std::vector<Candidate> chosen = test::one_of_each_kind(enumerate(problem_of(text), h200()));
    EXPECT_LE(chosen.size(), 25U) << text;
    for (const Candidate& candidate : chosen) all += test::kind_of(candidate) + "\n";
  }
  for (const char* word : {"flash", "split even", "ones_column", "shared_rows", "m=64", "m=128", "m=192", "scheduler=0",
                           "scheduler=1", "out=0", "out=1", "out=2", "queries=1", "queries=2", "q_regs", "packed"})
    EXPECT_NE(std::string::npos, all.find(word)) << word;
}

// The shapes lie far beyond the list, in every kind of problem that there is.
TEST(Arithmetic, NoneIsLeftOutOfTheAccuracyTests) {
  std::set<std::string> met[2];
  for (const bool full : {false, true})
    for (const test::AccuracyCase& one : test::accuracy_cases(full)) met[full].merge(arithmetics(one.problem));
  for (const char* sizes :
       {"hq=32,hk=8,sq=1,sk=300", "hq=2,sq=100", "b=4,hq=32,hk=4,sq=1000", "hq=16,sq=5000", "hq=64,hk=8,sq=65536",
        "b=128,hq=64,hk=8,sq=1,sk=8192", "b=128,hq=64,hk=8,sq=1,sk=8192,lens", "hq=8,hk=1,sq=32,sk=100000"})
    for (const int head_dim : {32, 64, 80, 96, 112, 128, 192, 256})
      for (const char* type : {",dtype=bf16", ",dtype=f16"})
        for (const char* mask : {"", ",causal", ",left=128", ",lse"})
          for (const std::string& name : arithmetics(sizes + test::dim(head_dim) + type + mask))
            for (const std::set<std::string>& one : met)
              EXPECT_TRUE(one.contains(name)) << name << " of " << sizes << test::dim(head_dim) << type << mask;
}

}  // namespace
}  // namespace gqa
