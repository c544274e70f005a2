// Faults planted in what kernels of a KV cache are made of: the emulator and float64 must see each of them.
#include <gtest/gtest.h>

#include <string>

#include "jit/codegen.h"
#include "tests/simt/kernels/attention_launch.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {
namespace {

// Sequences of all lengths, pages smaller than a step, tiles that several CTAs share and CTAs that share several tiles.
constexpr const char* kCache = "b=5,hq=4,hk=2,sq=2,sk=150,d=64,causal,page=16,lens";
constexpr const char* kEven = "split m=16 n=32 warps=2 stages=3 pack=2 even=1 splits=7";
constexpr const char* kTwoLong = "b=4,hq=2,hk=1,sq=2,sk=200,d=64,causal,page=16,lens";
constexpr const char* kRowPages = "b=4,hq=2,hk=1,sq=2,sk=90,d=64,causal,page=3,lens";
constexpr const char* kRowEven = "split m=16 n=16 warps=2 stages=2 pack=2 even=1 splits=3";
constexpr const char* kWindow = "b=1,hq=2,hk=1,sq=5,sk=100,d=64,left=20,right=2";
constexpr const char* kShares = "split m=16 n=16 warps=2 stages=3 pack=2 splits=2";

constexpr const char* kSource = "attention/common/key_source.cuh";
constexpr const char* kWalk = "attention/common/walk.cuh";
constexpr const char* kSplit = "attention/split_kv/split.cuh";
constexpr const char* kEvenSplits = "attention/split_kv/even_splits.cuh";

// Whether the kernel passes with `from` in a header replaced by `to`.
::testing::AssertionResult passes(const char* problem_text, const char* candidate_text, const char* header,
                                  const std::string& from, const std::string& to) {
  const Problem problem = test::problem_of(problem_text);
  Candidate candidate;
  if (!parse(candidate_text, &candidate).ok()) return ::testing::AssertionFailure() << candidate_text;
  std::string why;
  const auto kernel =
      Kernel::compile(attention_source(problem, candidate), kEntryPoint, &why, planted(header, from, to));
  EXPECT_NE(nullptr, kernel) << why;
  if (kernel == nullptr) return ::testing::AssertionSuccess();
  test::AttentionCase attention(problem);
  const Status status = run_attention(*kernel, candidate, &attention);
  if (!status.ok()) return ::testing::AssertionFailure() << status.message();
  return test::matches_float64(attention);
}

class CacheMutants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

TEST_F(CacheMutants, NothingPlanted) {
  EXPECT_TRUE(passes(kCache, kEven, kSplit, "load_queries();", "load_queries();"));
  EXPECT_TRUE(passes(kRowPages, kRowEven, kSplit, "load_queries();", "load_queries();"));
  EXPECT_TRUE(passes(kWindow, kShares, kSplit, "load_queries();", "load_queries();"));
}

TEST_F(CacheMutants, APagePastItsEnd) {
  EXPECT_FALSE(passes(kCache, kEven, kSource, "table + key / kPage", "table + key / kPage + 1"));
  EXPECT_FALSE(passes(kRowPages, kRowEven, kSource, "table + key / kPage", "table + (key + 1) / kPage"));
}

TEST_F(CacheMutants, ANeighboursSlot) {
  EXPECT_FALSE(passes(kRowPages, kRowEven, kSource, "key % kPage * s.row", "(key + 1) % kPage * s.row"));
  EXPECT_FALSE(passes(kCache, kEven, kSource, "(key % kPage - key) * s.row", "(key % kPage - key + 1) * s.row"));
}

TEST_F(CacheMutants, ThePagesOfAnotherLane) {
  EXPECT_FALSE(passes(kCache, kEven, kSource, "block % kGroup * kChunks + chunk", "block % kGroup * kChunks"));
}

TEST_F(CacheMutants, ALengthOffByOne) {
  for (const char* wrong : {"max(0, min(__ldg(cache->lengths + sequence) + 1, p.kv_len))",
                            "max(0, min(__ldg(cache->lengths + sequence) - 1, p.kv_len))",
                            "max(0, min(__ldg(cache->lengths), p.kv_len))", "p.kv_len"})
    EXPECT_FALSE(passes(kCache, kEven, kWalk, "max(0, min(__ldg(cache->lengths + sequence), p.kv_len))", wrong))
        << wrong;
}

TEST_F(CacheMutants, AWindowOffByOne) {
  for (const char* wrong : {"- cache->window_left + 1", "- cache->window_left - 1"})
    EXPECT_FALSE(passes(kWindow, kShares, kWalk, "- cache->window_left", wrong)) << wrong;
  for (const char* wrong : {"cache->window_right + 2)", "cache->window_right)"})
    EXPECT_FALSE(passes(kWindow, kShares, kWalk, "cache->window_right + 1)", wrong)) << wrong;
}

TEST_F(CacheMutants, ABlockThatNeededALook) {
  EXPECT_FALSE(passes(kWindow, kShares, kWalk, "if (first_key < first(last_row<kRows>(first_row))) return true;", ""));
}

TEST_F(CacheMutants, ALostPart) {
  EXPECT_FALSE(passes(kCache, kEven, kSplit, "for (int s = 0; s < parts(); ++s)", "for (int s = 1; s < parts(); ++s)"));
  EXPECT_FALSE(passes(kCache, kEven, kEvenSplits, "piece_of(keys_at + count - 1) - owner + 1",
                      "piece_of(keys_at + count - 1) - owner"));
}

// A CTA that ends one tile and begins another, both of which others share.
TEST_F(CacheMutants, PartsInOnePlace) {
  const char* const three = "split m=16 n=16 warps=2 stages=3 pack=2 even=1 splits=3";
  EXPECT_TRUE(passes(kTwoLong, three, kSplit, "load_queries();", "load_queries();"));
  EXPECT_FALSE(passes(kTwoLong, three, kEvenSplits, "(which == 0 ? static_cast<int>(gridDim.x) : which * head_groups)",
                      "which * head_groups"));
}

TEST_F(CacheMutants, BlocksCutTwiceOrNever) {
  EXPECT_FALSE(passes(kCache, kEven, kEvenSplits, "end = cut(piece + 1);", "end = cut(piece + 1) + 1;"));
  EXPECT_FALSE(passes(kCache, kEven, kEvenSplits, "end = cut(piece + 1);", "end = cut(piece + 1) - 1;"));
}

TEST_F(CacheMutants, ASequenceWithoutKeysThatNobodyWrites) {
  EXPECT_FALSE(passes(kCache, kEven, kEvenSplits, "count == 0 ? !begins : to <= from", "to <= from"));
}

TEST_F(CacheMutants, APartThatOverwritesWhatIsStillRead) {
  EXPECT_FALSE(
      passes(kCache, kEven, kSplit, "      __syncthreads();  // who stores still reads", "      // who stores"));
}

TEST_F(CacheMutants, PartsThatNothingOrders) {
  for (const char* wrong : {"acquire", "release"}) {
    const auto result = passes(kCache, kEven, "attention/common/arrival.cuh", "acq_rel", wrong);
    EXPECT_FALSE(result) << wrong;
    EXPECT_NE(std::string::npos, std::string(result.message()).find("of the workspace are read")) << result.message();
  }
}

}  // namespace
}  // namespace gqa::simt
