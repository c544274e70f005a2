// parse_fuzz_test.cc: text that nobody meant: every parser of search/ on mutated and random bytes. Deterministic seeds.
// What parses must satisfy its checks and survive a round trip; what does not must say why.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "search/families/candidate.h"
#include "search/families/resources.h"
#include "search/graph/attention/attention_program.h"
#include "search/graph/ir/canonical.h"
#include "search/graph/ir/graph_text.h"
#include "search/problem/problem.h"

namespace gqa {
namespace {

constexpr char kAlphabet[] = "abdhkqsvfmnwpt0123456789=,=,.-+ \n\t()[]_\\'\"causal+softcapdiv";

std::string mutate(std::string text, std::mt19937& random) {
  for (unsigned changes = random() % 4; changes > 0; --changes) {
    const std::size_t at = text.empty() ? 0 : random() % text.size();
    const char byte = random() % 8 == 0 ? static_cast<char>(random()) : kAlphabet[random() % (sizeof(kAlphabet) - 1)];
    switch (random() % 6) {
      case 0:
        text.insert(at, 1, byte);
        break;
      case 1:
        text.erase(at, 1 + random() % 3);
        break;
      case 2:
        text.insert(at, text.substr(random() % (text.size() + 1), random() % 12));
        break;
      case 3:
        text.resize(at);
        break;
      case 4:
        text += std::to_string(random()) + std::to_string(random());
        break;
      default:
        if (!text.empty()) text[at] = byte;
    }
  }
  return text;
}

template <typename T>
int fuzz(const std::vector<std::string>& seeds, int rounds, void (*check_parsed)(const T&)) {
  std::mt19937 random(7);
  int parsed = 0;
  for (int i = 0; i < rounds; ++i) {
    const std::string text = mutate(seeds[random() % seeds.size()], random);
    T value;
    const Status status = parse(text, &value);
    if (!status.ok()) {
      EXPECT_FALSE(status.message().empty()) << text;
      EXPECT_EQ(value, T()) << text;
      for (const char c : status.message())
        EXPECT_TRUE(c >= 0x20 && c < 0x7f) << "unprintable in: " << status.message();
      continue;
    }
    ++parsed;
    check_parsed(value);
    T back;
    EXPECT_TRUE(parse(to_text(value), &back).ok()) << text;
    EXPECT_EQ(back, value) << text;
    EXPECT_EQ(hash(back), hash(value));
    if (testing::Test::HasFailure()) return parsed;
  }
  return parsed;
}

TEST(ParseFuzz, Problems) {
  const int parsed = fuzz<Problem>({"b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,dtype=bf16,causal", "hq=4,sq=7,d=64",
                                    "causal=1,align=2,dtype=f16,dv=128,d=192,sk=9,sq=5,hk=3,hq=6,b=2"},
                                   60000, [](const Problem& p) { EXPECT_TRUE(check(p).ok()) << to_text(p); });
  EXPECT_GT(parsed, 1000);  // the mutations reach the accepting side too
}

TEST(ParseFuzz, Candidates) {
  const int parsed = fuzz<Candidate>({to_text(Candidate()), kernel_text(Candidate()),
                                      "split m=16 n=32 warps=4 stages=3 pack=4 splits=17 head_swizzle=0"},
                                     60000, [](const Candidate& c) { EXPECT_GE(shape_of(c).rows, 16); });
  EXPECT_GT(parsed, 1000);
}

TEST(ParseFuzz, Graphs) {
  Problem problem;
  ASSERT_TRUE(parse("hq=8,hk=2,sq=64,sk=256,d=64,causal", &problem).ok());
  Candidate split;
  ASSERT_TRUE(parse("split m=16 n=32 warps=4 stages=3 pack=4 splits=2 head_swizzle=0", &split).ok());
  const int parsed =
      fuzz<KernelGraph>({to_text(attention_program(problem, Candidate())), to_text(attention_program(problem, split))},
                        6000, [](const KernelGraph& g) {
                          for (const KernelNode& node : g.nodes()) EXPECT_FALSE(node.outputs.empty());
                        });
  EXPECT_GT(parsed, 150);
}

}  // namespace
}  // namespace gqa
