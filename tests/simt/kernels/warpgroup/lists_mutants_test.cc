// Faults planted in what the warpgroup family does with packed sequences and pages: the emulator and the naive loop
// must see each of them.
#include <gtest/gtest.h>

#include "tests/simt/kernels/warpgroup/lists_case.h"

namespace gqa::simt {
namespace {

constexpr const char* kList = "attention/wgmma_flash/tile_list.cuh";
constexpr const char* kSequence = "attention/wgmma_flash/tile_sequence.cuh";
constexpr const char* kPages = "attention/wgmma_flash/block_pages.cuh";
constexpr const char* kEpilogue = "attention/wgmma_flash/epilogue.cuh";
constexpr const char* kConsumer = "attention/wgmma_flash/warpgroup_consumer.cuh";
constexpr const char* kProducer = "attention/wgmma_flash/warpgroup_producer.cuh";
constexpr const char* kKernel = "attention/wgmma_flash/warpgroup_flash.cuh";

const ListsCase kPacked = {"b=4,hq=2,hk=1,sq=150,sk=150,d=32,causal,packq,packk,lse",
                           "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1 head_swizzle=1",
                           {150, 0, 1, 64},
                           {150, 7, 33, 70},
                           2};
const ListsCase kSmallPages = {"b=4,hq=4,hk=2,sq=5,sk=200,d=32,causal,page=16,lens,lse",
                               "warpgroup m=64 n=64 warps=4 stages=2 pack=2 dynamic=1 out=1",
                               {},
                               {200, 0, 65, 48}};
const ListsCase kLargePages = {"b=3,hq=1,hk=1,sq=5,sk=200,d=32,page=128,lens,lse",
                               "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1",
                               {},
                               {200, 100, 128}};

class WarpgroupListsMutants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
  static void expect_seen(const ListsCase& subject, const Fault& fault) {
    EXPECT_FALSE(passes(subject, fault)) << fault.from << "\n" << fault.to;
  }
};

TEST_F(WarpgroupListsMutants, NothingPlanted) {
  for (const ListsCase& subject : {kPacked, kSmallPages, kLargePages}) EXPECT_TRUE(passes(subject)) << subject.problem;
}

TEST_F(WarpgroupListsMutants, ATileInAnothersPlace) {
  expect_seen(kPacked, {kList, "before = end;", "before = end - 1;"});
  expect_seen(kPacked, {kList, "number >= end)", "number > end)"});
  expect_seen(kPacked, {kList, "- own_rows) / 64 * 64", "- own_rows)"});
}

TEST_F(WarpgroupListsMutants, AListReadPastItsEnd) {
  expect_seen(kPacked, {kList, "of < p.batch ?", "of <= p.batch ?"});
}

TEST_F(WarpgroupListsMutants, ACounterThatNobodyZeroes) { expect_seen(kPacked, {kList, ": end; }", ": end + 1; }"}); }

TEST_F(WarpgroupListsMutants, RowsOfANeighbour) {
  expect_seen(kPacked, {kSequence, "return first_query + position;", "return position;"});
  expect_seen(kPacked, {kProducer, "this->first_key, block", "0, block"});
  expect_seen(kPacked, {kSequence, "return words->word[1];", "return p.q_len;"});
  expect_seen(kPacked, {kSequence, "return words->word[2];", "return 0;"});
}

TEST_F(WarpgroupListsMutants, ValuesThatBeginWhereKeysDo) {
  ListsCase subject = kPacked;
  subject.values_apart = true;
  EXPECT_TRUE(passes(subject));
  expect_seen(subject, {kProducer, "this->first_value, block", "this->first_key, block"});
}

TEST_F(WarpgroupListsMutants, RowsStoredThatDoNotExist) {
  expect_seen(kPacked, {kEpilogue, "if (row < 0 || !sequence.has_row(p, row)) continue;", "if (row < 0) continue;"});
  expect_seen(kPacked, {kConsumer, "!core.has_row(p, first_row + 63)", "!core.has_row(p, first_row)"});
}

TEST_F(WarpgroupListsMutants, RowsStoredAsTheyAreSwizzled) {
  expect_seen(kPacked, {kEpilogue, "(piece ^ (r % 8)) * 16", "piece * 16"});
}

TEST_F(WarpgroupListsMutants, AnotherPage) {
  expect_seen(kSmallPages, {kPages, "table + key / kPage", "table + key / kPage + 1"});
  expect_seen(kSmallPages, {kPages, "place.batch * cache.table_stride", "0"});
  expect_seen(kSmallPages, {kPages, "key < sequence.keys ?", "key <= sequence.keys ?"});
  expect_seen(kLargePages, {kPages, "(first_key + i * kChunk) % kPage", "0"});
}

TEST_F(WarpgroupListsMutants, AChunkInAnothersRows) {
  expect_seen(kSmallPages, {kPages, "i * kChunk * kPanelRowBytes", "i * kPanelRowBytes"});
}

TEST_F(WarpgroupListsMutants, ValuesPastTheEndThatStay) {
  expect_seen(kSmallPages, {kProducer, "this->keys = tickets.ticket().words.word[0];", "this->keys = p.kv_len;"});
}

TEST_F(WarpgroupListsMutants, ATicketThatIsNeverFree) {
  expect_seen(kSmallPages, {kProducer, "(blocks = tickets.blocks()) > 0; tickets.pass())",
                            "(blocks = tickets.blocks()) > 0; tickets.cursor.next())"});
}

TEST_F(WarpgroupListsMutants, AWarpThatNeverEnds) {
  expect_seen(kSmallPages,
              {kKernel, "load_values_apart();\n    producer.end_tails(smem.tails);", "load_values_apart();"});
}

}  // namespace
}  // namespace gqa::simt
