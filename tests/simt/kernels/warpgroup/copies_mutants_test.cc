// Faults planted in the warps that copy pages (page_copies.cuh): the emulator and the naive loop must see each of them.
#include <gtest/gtest.h>

#include "tests/simt/kernels/warpgroup/lists_case.h"

namespace gqa::simt {
namespace {

constexpr const char* kCopies = "attention/wgmma_flash/page_copies.cuh";
constexpr const char* kTable = "attention/common/page_table.cuh";
constexpr const char* kProducer = "attention/wgmma_flash/warpgroup_producer.cuh";
constexpr const char* kKernel = "attention/wgmma_flash/warpgroup_flash.cuh";

const ListsCase kOnes = {"b=4,hq=4,hk=2,sq=70,sk=200,d=128,causal,page=1,lens,lse",
                         "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1 out=1 cp_async=1",
                         {},
                         {200, 0, 65, 130}};
const ListsCase kSevens = {"b=4,hq=4,hk=2,sq=70,sk=200,d=64,page=7,lens,lse",
                           "warpgroup m=128 n=128 warps=8 stages=2 pack=2 dynamic=0 out=1 cp_async=1",
                           {},
                           {200, 3, 65, 140}};
// Whose producer has no buffer to spare; and one with no tile after the first.
const ListsCase kOneStage = {"b=1,hq=1,hk=1,sq=70,sk=200,d=64,page=1,lse",
                             "warpgroup m=64 n=64 warps=4 stages=1 pack=1 dynamic=1 out=1 cp_async=1"};
const ListsCase kOneTile = {"b=1,hq=1,hk=1,sq=10,sk=60,d=64,page=1,lse",
                            "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1 cp_async=1"};

class WarpgroupCopiesMutants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
  static void expect_seen(const Fault& fault) {
    EXPECT_FALSE(passes(kOnes, fault)) << fault.from << "\n" << fault.to;
    EXPECT_FALSE(passes(kSevens, fault)) << fault.from << "\n" << fault.to;
  }
};

TEST_F(WarpgroupCopiesMutants, NothingPlanted) {
  for (const ListsCase& c : {kOnes, kSevens, kOneStage, kOneTile}) EXPECT_TRUE(passes(c)) << c;
}

TEST_F(WarpgroupCopiesMutants, ABlockPublishedThatIsNotThere) {
  expect_seen({kCopies, "    fence_async();\n", ""});
  expect_seen({kCopies, "    cp_async_wait<kInFlight>();\n", ""});
  expect_seen({kCopies, "cp_async_wait<kInFlight>();", "cp_async_wait<kInFlight + 1>();"});
}

TEST_F(WarpgroupCopiesMutants, ABlockThatIsNeverPublished) {
  EXPECT_FALSE(passes(kOneStage, {kCopies, "    publish<0>();\n    barrier_wait", "    barrier_wait"}));
  EXPECT_FALSE(passes(kOneTile, {kCopies, "    publish<0>();\n    let_next", "    let_next"}));
}

TEST_F(WarpgroupCopiesMutants, ABufferOverwrittenUnderAProduct) {
  expect_seen({kCopies, "    wait(cursor.empty(ring), cursor.parity() ^ 1);\n", ""});
}

TEST_F(WarpgroupCopiesMutants, AnEntryReadPastItsEnd) {
  expect_seen({kCopies, "key < keys() ?", "key <= keys() ?"});
  EXPECT_FALSE(passes(kSevens, {kCopies, "first >= 0 && ", ""}));
}

TEST_F(WarpgroupCopiesMutants, ARowCopiedPastTheEnd) {
  expect_seen({kCopies, "past < -(i * kRowStep)", "past <= -(i * kRowStep)"});
}

TEST_F(WarpgroupCopiesMutants, ARowOfTheSequenceThatIsZeros) {
  expect_seen({kCopies, "past < -(i * kRowStep)", "past < -(i * kRowStep) - 1"});
}

TEST_F(WarpgroupCopiesMutants, ASwizzleThatIsAnothers) {
  expect_seen({kCopies, "(piece ^ own % 8) * 16", "piece * 16"});
  expect_seen({kCopies, "(i % 2 == 0 ? to : to ^ 64)", "to"});
}

TEST_F(WarpgroupCopiesMutants, ANeighboursRow) {
  expect_seen({kCopies, "looked_up % 32 + of_lane)", "(looked_up + 1) % 32 + of_lane)"});
  expect_seen({kCopies, "table.open(static_cast<u32>(ticket->place.batch))", "table.open(0)"});
  expect_seen({kCopies, "static_cast<u32>(ticket->place.kv_head) * s.head", "s.head"});
  expect_seen({kTable, "slot * s.row", "(slot + 1) * s.row"});
  expect_seen({kTable, "page * s.batch", "(page ^ 1) * s.batch"});
}

TEST_F(WarpgroupCopiesMutants, AnotherBlocksEntries) {
  expect_seen({kCopies, "const Entries of_values = of_keys;", "const Entries of_values = next;"});
  expect_seen({kCopies, "next = look_up(first - 2 * kTileN);", ""});
}

TEST_F(WarpgroupCopiesMutants, AWarpThatStandsStill) {
  expect_seen({kCopies, "      tickets.pass();\n", "      tickets.cursor.next();\n"});
  expect_seen({kCopies, "if (first == kTileN && warp == 0)", "if (first == kTileN && warp == 3)"});
  expect_seen({kKernel, "kProducers = Smem::kCopiesPages ? Smem::kCopyWarps : 1;", "kProducers = 4;"});
}

TEST_F(WarpgroupCopiesMutants, ATileBegunBeforeItsTicket) {
  expect_seen({kProducer, "    walk.announce(ticket);\n    load_queries(ticket.place);\n",
               "    load_queries(ticket.place);\n    walk.announce({ticket.place, 1, 0, ticket.words});\n"});
}

}  // namespace
}  // namespace gqa::simt
