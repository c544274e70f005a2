// Faults planted in what kernels of a KV cache are made of: the emulator and float64 must see each of them.
#include <gtest/gtest.h>

#include <string>

#include "tests/simt/kernels/agreement.h"
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
// Those of flash: pages in chunks, several groups of single rows' pages that lanes look up at once, a window's tiles.
constexpr const char* kPrefill = "b=3,hq=1,hk=1,sq=70,sk=150,d=64,causal,page=16,lens";
constexpr const char* kFlash = "flash m=64 n=32 warps=4 stages=2 pack=1";
constexpr const char* kRowPrefill = "b=3,hq=1,hk=1,sq=40,sk=90,d=64,causal,page=3,lens";
constexpr const char* kRowFlash = "flash m=32 n=16 warps=2 stages=1 pack=1";
constexpr const char* kWideWindow = "b=1,hq=1,hk=1,sq=40,sk=100,d=64,left=20,right=2";

constexpr const char* kSource = "attention/common/key_source.cuh";
constexpr const char* kWalk = "attention/common/walk.cuh";
constexpr const char* kSequence = "attention/common/sequence.cuh";
constexpr const char* kSplit = "attention/split_kv/split.cuh";
constexpr const char* kFlashKernel = "attention/mma_flash/flash.cuh";
constexpr const char* kEvenSplits = "attention/split_kv/even_splits.cuh";

// Whether the kernel passes with `from` in a header replaced by `to`; what it must say if it fails.
::testing::AssertionResult passes(const char* problem_text, const char* candidate_text, const char* header,
                                  const std::string& from, const std::string& to, const char* says = "") {
  const Problem problem = test::problem_of(problem_text);
  Candidate candidate;
  if (!parse(candidate_text, &candidate).ok()) return ::testing::AssertionFailure() << candidate_text;
  const auto judge = [&](const Kernel& kernel) {
    test::AttentionCase attention(problem);
    return attention_agrees(kernel, candidate, &attention);
  };
  return judged({attention_source(problem, candidate), planted(header, from, to)}, judge, says);
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
  EXPECT_TRUE(passes(kPrefill, kFlash, kFlashKernel, "load_queries();", "load_queries();"));
  EXPECT_TRUE(passes(kRowPrefill, kRowFlash, kFlashKernel, "load_queries();", "load_queries();"));
  EXPECT_TRUE(passes(kWideWindow, kRowFlash, kFlashKernel, "load_queries();", "load_queries();"));
}

TEST_F(CacheMutants, APagePastItsEnd) {
  EXPECT_FALSE(passes(kCache, kEven, kSource, "entry(key / kPage)) : 0", "entry(key / kPage + 1)) : 0"));
  EXPECT_FALSE(passes(kRowPages, kRowEven, kSource, "entry(key / kPage)) : 0", "entry((key + 1) / kPage)) : 0"));
  EXPECT_FALSE(passes(kPrefill, kFlash, kSource, "entry(key / kPage)) : 0", "entry(key / kPage + 1)) : 0"));
  EXPECT_FALSE(passes(kRowPrefill, kRowFlash, kSource, "entry(key / kPage)) : 0", "entry((key + 1) / kPage)) : 0"));
}

TEST_F(CacheMutants, ANeighboursSlot) {
  EXPECT_FALSE(passes(kRowPages, kRowEven, kSource, "key % kPage * s.row", "(key + 1) % kPage * s.row"));
  EXPECT_FALSE(passes(kCache, kEven, kSource, "(key % kPage - key) * s.row", "(key % kPage - key + 1) * s.row"));
  EXPECT_FALSE(passes(kRowPrefill, kRowFlash, kSource, "key % kPage * s.row", "(key + 1) % kPage * s.row"));
  EXPECT_FALSE(passes(kPrefill, kFlash, kSource, "(key % kPage - key) * s.row", "(key % kPage - key + 1) * s.row"));
}

TEST_F(CacheMutants, ThePagesOfAnotherLane) {
  EXPECT_FALSE(passes(kCache, kEven, kSource, "block % kGroup * kChunks + chunk", "block % kGroup * kChunks"));
  EXPECT_FALSE(passes(kPrefill, kFlash, kSource, "block % kGroup * kChunks + chunk", "block % kGroup * kChunks"));
}

// A walk down takes over the next group's pages with that group's first block, its last.
TEST_F(CacheMutants, ThePagesOfAnotherGroup) {
  EXPECT_FALSE(passes(kRowPrefill, kRowFlash, kSource, "(kDown ? kGroup - 1 : 0)", "0"));
  EXPECT_FALSE(passes(kRowPrefill, kRowFlash, kSource, "block + 1 - 2 * kGroup", "block - 2 * kGroup"));
  EXPECT_FALSE(
      passes(kRowPrefill, kRowFlash, kSource, "(end / kGroup - 1) * kGroup", "((end - 1) / kGroup - 1) * kGroup"));
  EXPECT_FALSE(passes(kPrefill, kFlash, kSource, "(end - 1) / kGroup * kGroup", "end - 1"));
}

TEST_F(CacheMutants, ALengthOffByOne) {
  for (const char* wrong : {"max(0, min(__ldg(cache->lengths + sequence) + 1, p.kv_len))",
                            "max(0, min(__ldg(cache->lengths + sequence) - 1, p.kv_len))",
                            "max(0, min(__ldg(cache->lengths), p.kv_len))", "p.kv_len"})
    for (const bool split : {true, false})
      EXPECT_FALSE(passes(split ? kCache : kPrefill, split ? kEven : kFlash, kSequence,
                          "max(0, min(__ldg(cache->lengths + sequence), p.kv_len))", wrong))
          << wrong;
}

TEST_F(CacheMutants, AWindowOffByOne) {
  const auto window_passes = [](bool split, const char* from, const char* to) {
    return passes(split ? kWindow : kWideWindow, split ? kShares : kRowFlash, kWalk, from, to);
  };
  for (const bool split : {true, false}) {
    for (const char* wrong : {"- cache->window_left + 1", "- cache->window_left - 1"})
      EXPECT_FALSE(window_passes(split, "- cache->window_left", wrong)) << wrong;
    for (const char* wrong : {"cache->window_right + 2)", "cache->window_right)"})
      EXPECT_FALSE(window_passes(split, "cache->window_right + 1)", wrong)) << wrong;
  }
}

TEST_F(CacheMutants, ABlockThatNeededALook) {
  const char* const look = "if (first_key < first(last_row<kRows>(first_row))) return true;";
  EXPECT_FALSE(passes(kWindow, kShares, kWalk, look, ""));
  EXPECT_FALSE(passes(kWideWindow, kRowFlash, kWalk, look, ""));
}

TEST_F(CacheMutants, BlocksThatATileDoesNotVisit) {
  EXPECT_FALSE(
      passes(kWideWindow, kRowFlash, kFlashKernel, "walk.first_block(first_row)", "walk.first_block(first_row) + 1"));
  EXPECT_FALSE(passes(kPrefill, kFlash, kFlashKernel, "walk.end_block(first_row)", "walk.end_block(first_row) - 1"));
  EXPECT_FALSE(passes(kWideWindow, kRowFlash, kFlashKernel, "block < (has_window", "block <= (has_window"));
}

TEST_F(CacheMutants, TheLengthOfAnotherSequence) {
  EXPECT_FALSE(passes(kPrefill, kFlash, kFlashKernel, "sequence = place.batch;", "sequence = 0;"));
}

// A tile without keys: what others copied of q may still arrive when a warp stores its zeros there.
TEST_F(CacheMutants, ZerosThatQOverwrites) {
  EXPECT_FALSE(
      passes(kPrefill, kFlash, kFlashKernel, "kOutPitch > kQPitch || visit.end == visit.first", "kOutPitch > kQPitch"));
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
    const char* const says = "of the workspace are read";
    const auto result = passes(kCache, kEven, "attention/common/arrival.cuh", "acq_rel", wrong, says);
    EXPECT_FALSE(result) << wrong;
    EXPECT_NE(std::string::npos, std::string(result.message()).find(says)) << result.message();
  }
}

}  // namespace
}  // namespace gqa::simt
