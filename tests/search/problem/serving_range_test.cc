// serving_range_test.cc: how a range of calls is written, and which signatures it has.
#include "search/problem/serving_range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "search/text.h"
#include "tests/search/from_text.h"

namespace gqa {
namespace {

ServingRange range_of(std::string_view text) {
  ServingRange range;
  const Status status = parse(text, &range);
  EXPECT_TRUE(status.ok()) << text << ": " << status.message();
  return range;
}

std::vector<std::string> texts(std::string_view range, const Problem& layer) {
  std::vector<std::string> all;
  for (const Signature& signature : signatures(range_of(range), layer)) all.push_back(to_text(signature));
  return all;
}

Problem layer() { return problem_of("hq=4,hk=2,sq=1,d=64"); }

TEST(ServingRange, IsReadInAnyOrder) {
  ServingRange expected;
  expected.batch = {1, 256};
  expected.kv = {1, 32768};
  expected.q = {1, 1};
  expected.page = 16;
  EXPECT_EQ(range_of("batch=1..256,kv=1..32k,page=16"), expected);
  EXPECT_EQ(range_of(" page = 16 , kv = 1 .. 32768 , q=1, batch=1..256"), expected);
  expected.q = {};
  expected.chunk = {1, 512};
  expected.prefill = {2048, 2048};
  expected.dtype = ElementType::kF16;
  expected.lse = true;
  EXPECT_EQ(range_of("batch=1..256,kv=1..32k,page=16,chunk=1..512,prefill=2k,dtype=f16,lse"), expected);
}

TEST(ServingRange, SaysWhatIsWrong) {
  const struct {
    const char* text;
    std::vector<std::string> says;
  } bad[] = {
      {"", {"an empty range", "batch=1..256,kv=1..32k,page=16"}},
      {"kv=1..32k", {"batch is missing"}},
      {"batch=1..8", {"kv is missing"}},
      {"batch=8..1,kv=1", {"batch='8..1' runs backwards", "batch=1..8"}},
      {"batch=0..8,kv=1", {"batch='0..8'", "from 1 to 2147483647"}},
      {"batch=1..,kv=1", {"batch='1..'"}},
      {"batch=..4,kv=1", {"batch='..4'"}},
      {"batch=1...4,kv=1", {"batch='1...4'"}},
      {"batch=1-4,kv=1", {"batch='1-4'"}},
      {"batch=-1,kv=1", {"batch='-1'"}},
      {"batch=k,kv=1", {"batch='k'"}},
      {"batch=,kv=1", {"batch=(nothing)"}},
      {"batch=4,kv=1..4096k,heads=8", {"unknown key 'heads'", "batch", "prefill"}},
      {"batch=4,batch=8,kv=1", {"'batch' is given twice"}},
      {"batch=4,kv", {"'kv' has no value"}},
      {"batch=4,kv=3000000k", {"kv='3000000k'"}},
      {"batch=4,kv=8,page=0", {"page='0'"}},
      {"batch=4,kv=2147483647,page=16", {"whole pages"}},
      {"batch=4,kv=8,dtype=f64", {"dtype='f64'"}},
      {"batch=4,prefill=8,page=16", {"prefill reads no cache"}},
      {"batch=4,prefill=8,kv=16", {"prefill reads no cache"}},
  };
  for (const auto& [text, says] : bad) {
    ServingRange range = range_of("batch=3,kv=5");
    const Status status = parse(text, &range);
    EXPECT_EQ(status.code(), Code::kOption) << text;
    for (const std::string& part : says) EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    EXPECT_EQ(range, range_of("batch=3,kv=5")) << text;
  }
}

TEST(ServingRange, HasThreeKindsOfCalls) {
  const std::string heads = ",hq=4,hk=2,";
  EXPECT_EQ(texts("batch=3,kv=30..40,page=16", layer()),
            (std::vector<std::string>{"b=3" + heads + "sq=1,sk=32,d=64,dtype=bf16,page=16,lens",
                                      "b=3" + heads + "sq=1,sk=48,d=64,dtype=bf16,page=16,lens"}));
  EXPECT_EQ(texts("batch=3,kv=40,q=4,lse", layer()),
            (std::vector<std::string>{"b=3" + heads + "sq=4,sk=48,d=64,dtype=bf16,causal,lens,lse"}));
  EXPECT_EQ(texts("batch=3,kv=40,chunk=300,page=16,dtype=f16", layer()),
            (std::vector<std::string>{"b=3" + heads + "sq=384,sk=48,d=64,dtype=f16,causal,page=16,lens,packq"}));
  EXPECT_EQ(texts("batch=3,prefill=40", layer()),
            (std::vector<std::string>{"b=3" + heads + "sq=48,sk=48,d=64,dtype=bf16,causal,packk,packq"}));
}

// A page that no bucket is a multiple of: the table's last column reaches past the range, into the next bucket.
TEST(ServingRange, TablesHaveWholePages) {
  const std::vector<std::string> all = texts("batch=1,kv=1..1024,page=100", layer());
  EXPECT_TRUE(all.front().find("sk=128,") != std::string::npos) << all.front();
  EXPECT_TRUE(all.back().find("sk=1536,") != std::string::npos) << all.back();
}

TEST(ServingRange, AWindowIsLeftOutWhereItHidesNothing) {
  const std::vector<std::string> all = texts("batch=1,kv=96..200,page=1", problem_of("hq=4,sq=1,d=64,left=99"));
  ASSERT_EQ(all.size(), 5u);  // 96 with all keys, 128 with all and with a window, 192 and 256 with one
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const std::string& text) { return text.find("left=99") != std::string::npos; }),
            3);
}

TEST(ServingRange, EachSignatureStandsOnceAndPasses) {
  for (const char* text : {"batch=1..256,kv=1..32k,page=16", "batch=1..256,kv=1..32k,page=16,q=1..64,chunk=1..512",
                           "batch=1..2147483647,kv=1..2147483647", "batch=1..64,prefill=1..8k"}) {
    std::vector<Signature> all = signatures(range_of(text), layer());
    std::vector<std::string> names;
    for (const Signature& signature : all) {
      EXPECT_TRUE(check(signature.problem()).ok()) << to_text(signature);
      EXPECT_EQ(Signature(signature.problem()), signature) << to_text(signature);
      names.push_back(to_text(signature));
    }
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::unique(names.begin(), names.end()), names.end()) << text;
  }
}

}  // namespace
}  // namespace gqa
