// Faults planted in the warpgroup family's kernel: the emulator must see each of them, or it judges nothing.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/simt/kernels/planted.h"
#include "tests/simt/kernels/warpgroup/case.h"

namespace gqa::simt {
namespace {

constexpr const char* kFromRegisters = "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0";
constexpr const char* kTwoFromRegisters = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=0";
constexpr const char* kOwnOut = "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1";
constexpr const char* kOnesColumn = "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1 ones_column=1";
constexpr const char* kTwoGroups = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1";
// Tiles of 300 keys, three a CTA; the same under a mask, whose edge gives a tile's warpgroups different numbers of
// keys.
constexpr const char* kFull = "b=1,hq=3,hk=1,sq=100,sk=300,d=64,dtype=f16";
constexpr const char* kCluster = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 q_regs=2 cluster=2";
constexpr const char* kShared = "warpgroup m=64 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1";
constexpr const char* kStreamK = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 stream_k=2";
constexpr const char* kDynamicCluster = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=0 cluster=2";
constexpr const char* kOneBlockTiles = "b=1,hq=3,hk=1,sq=1500,sk=60,d=64,causal,dtype=f16";
constexpr const char* kFewKeys = "b=1,hq=3,hk=1,sq=100,sk=60,d=64,dtype=f16";  // one block
constexpr const char* kFewRows = "b=1,hq=3,hk=1,sq=60,sk=300,d=64,dtype=f16";  // one warpgroup's of two
constexpr const char* kTwoTiles = "b=1,hq=2,hk=1,sq=330,sk=350,d=64,dtype=f16,causal";
constexpr const char* kMoreKeysThanBuffers = "b=1,hq=1,hk=1,sq=150,sk=500,d=64,dtype=f16,causal";
constexpr const char* kInParts = "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=2";
constexpr const char* kWide = "b=1,hq=2,hk=1,sq=100,sk=70,d=64,dv=192,dtype=f16";
constexpr const char* kInBF16 = "b=1,hq=3,hk=1,sq=100,sk=300,d=64,lse=0";
constexpr const char* kWithoutLse = "b=1,hq=3,hk=1,sq=100,sk=300,d=64,dtype=f16,lse=0";
constexpr const char* kCausal = "b=1,hq=2,hk=1,sq=212,sk=232,d=64,dtype=f16,causal";

struct Mutant {
  const char *name, *header, *from, *to;
  const char* says = "";  // part of what the emulator must say; empty: wrong numbers will do
  const char* candidate = kFromRegisters;
  const char* problem = kFull;
  float powers = 0;  // if not 0: all keys are alike but those that are set, which weigh so many powers of two more
  int first_key =
      0;  // if not 0: those that are set then, to the last; kClimb: all climb (make_scores_climb) by `powers`
};
constexpr int kClimb = -1;

std::ostream& operator<<(std::ostream& out, const Mutant& mutant) { return out << mutant.name; }

class WarpgroupMutants : public ::testing::TestWithParam<Mutant> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }

  // Scores of so many keys of the last block, high or low by the sign of a row's query, make it be computed twice. Of
  // half blocks it is the second one's second half.
  static void set_keys(const Candidate& candidate, const Mutant& mutant, test::AttentionCase* attention) {
    const Problem& p = attention->call.problem;
    const auto& c = std::get<WgmmaFlash>(candidate.of);
    const int first = c.has_ones() ? 224 : 0, count = c.has_ones() ? 32 : 64;
    if (mutant.first_key == kClimb) return make_scores_climb(mutant.powers, attention);
    if (mutant.first_key != 0) return set_weights(mutant.first_key, p.kv_len, mutant.powers, attention);
    if (mutant.powers != 0) return set_weights(first, count, mutant.powers, attention);
    for (int j = 0; j < p.kv_len; ++j) {
      const bool set = j >= first && j < first + count;
      attention->k[static_cast<std::size_t>(j * p.head_dim)] = store(p.q_type, set ? 100.F : 0.F);
    }
  }

  static ::testing::AssertionResult passes(const Mutant& mutant) {
    const Problem problem = test::problem_of(mutant.problem);
    Candidate candidate;
    EXPECT_TRUE(parse(mutant.candidate, &candidate).ok());
    const auto judge = [&](const Kernel& kernel) {
      test::AttentionCase attention(problem);
      set_keys(candidate, mutant, &attention);
      attention.slack += 1e-2;
      const LaunchPlan launch = plan(problem, candidate);
      const std::vector<Schedule>& wanted = launch.cluster > 1 ? cluster_schedules() : schedules();
      const int sms = std::max(launch.cluster, static_cast<int>(launch.clusters));
      return agrees(kernel, candidate, sms, &attention, wanted);
    };
    const std::vector<EmbeddedHeader> headers = planted(mutant.header, mutant.from, mutant.to);
    return judged({attention_source(problem, candidate), headers}, judge, mutant.says);
  }
};

TEST_P(WarpgroupMutants, IsSeen) {
  const auto result = passes(GetParam());
  EXPECT_FALSE(result);
  EXPECT_NE(std::string::npos, std::string(result.message()).find(GetParam().says)) << result.message();
}

TEST_F(WarpgroupMutants, NothingPlanted) {
  EXPECT_TRUE(passes({"", "", "", ""}));
  EXPECT_TRUE(passes({"", "", "", "", "", kOwnOut}));
  EXPECT_TRUE(passes({"", "", "", "", "", kTwoGroups, kCausal}));
  EXPECT_TRUE(passes({"", "", "", "", "", kOnesColumn, kWithoutLse}));
  EXPECT_TRUE(passes({"", "", "", "", "", kCluster, kTwoTiles}));
  EXPECT_TRUE(passes({"", "", "", "", "", kDynamicCluster, kOneBlockTiles}));
  EXPECT_TRUE(passes({"", "", "", "", "", kOnesColumn, kInBF16}));
  EXPECT_TRUE(passes({"", "", "", "", "", kInParts, kWide}));
  EXPECT_TRUE(passes({"", "", "", "", "", kStreamK}));
  EXPECT_TRUE(passes({"", "", "", "", "", kStreamK, kFewRows}));
  EXPECT_TRUE(passes({"", "", "", "", "", kTwoGroups, kFewRows}));
  EXPECT_TRUE(passes({"", "", "", "", "", kShared}));
  EXPECT_TRUE(passes({"", "", "", "", "", kShared, kFewKeys}));
  EXPECT_TRUE(passes({"", "", "", "", "", kFromRegisters, kFewKeys}));
  EXPECT_TRUE(passes({"", "", "", "", "", kTwoGroups, kMoreKeysThanBuffers}));
}

// Keys that weigh 2^kBelow (warpgroup_weights.cuh) times more than a tile's first ones, twice, make their block fall
// back; those that weigh less do not, nor those far below.
TEST_F(WarpgroupMutants, NoFallbackWhereThereIsRoom) {
  const char* const in_bf16 = "b=1,hq=1,hk=1,sq=60,sk=300,d=64,lse=0";
  const char* const in_f16 = "b=1,hq=1,hk=1,sq=60,sk=300,d=64,dtype=f16,lse=0";
  const char* const fallback = "last = max(";
  const char* const fatal = "__trap();\n      last = max(";
  const auto falls_back = [&](const char* problem, float powers, int first_key = 0) {
    return !passes({"", "attention/wgmma_flash/warpgroup_halves.cuh", fallback, fatal, "", kOnesColumn, problem, powers,
                    first_key});
  };
  for (const char* problem : {in_f16, in_bf16}) {
    EXPECT_FALSE(falls_back(problem, 60, 290));
    EXPECT_FALSE(falls_back(problem, 3.5));
    EXPECT_TRUE(falls_back(problem, 4.5));
    EXPECT_TRUE(falls_back(problem, 60));
  }
}

// Where each block outgrows the maxima, after each fallback so many more blocks are exact that 6 fallbacks do for 17.
TEST_F(WarpgroupMutants, FallsBackTwiceAsFarEachTime) {
  const char* const problem = "b=1,hq=1,hk=1,sq=60,sk=1085,d=64,lse=0";
  const char* const loop = "for (int fallbacks = 0;;) {";
  const char* const few = "for (int fallbacks = 0, left = 6;;) {\n      if (left-- == 0) __trap();";
  const char* const fewer = "for (int fallbacks = 0, left = 5;;) {\n      if (left-- == 0) __trap();";
  EXPECT_TRUE(
      passes({"", "attention/wgmma_flash/warpgroup_halves.cuh", loop, few, "", kOnesColumn, problem, 100, kClimb}));
  EXPECT_FALSE(
      passes({"", "attention/wgmma_flash/warpgroup_halves.cuh", loop, fewer, "", kOnesColumn, problem, 100, kClimb}));
}

const Mutant kMutants[] = {
    {"NoWaitForQueries", "attention/wgmma_flash/warpgroup_consumer.cuh", "q.wait_full(smem.q_ring);", ""},
    {"NoWaitForKeys", "attention/wgmma_flash/warpgroup_consumer.cuh", "k.wait_full(smem.k_ring);", ""},
    {"NoWaitForValues", "attention/wgmma_flash/warpgroup_consumer.cuh", "v.wait_full(smem.v_ring);", ""},
    {"NoWaitForAFreeBuffer", "attention/wgmma_flash/warpgroup_producer.cuh", "k.wait_empty(smem.k_ring);", ""},
    {"KeysReleasedTooEarly", "attention/wgmma_flash/warpgroup_consumer.cuh",
     "core.template wait_scores<0>(scores);\n    release_keys();",
     "release_keys();\n    core.template wait_scores<0>(scores);", "still reads"},
    {"ValuesReleasedTooEarly", "attention/wgmma_flash/warpgroup_consumer.cuh",
     "core.template wait_values<0>();\n    release_values();", "release_values();\n    core.template wait_values<0>();",
     "still reads"},
    {"QueriesReleasedTooEarly", "attention/wgmma_flash/warpgroup_consumer.cuh", "core.load_q_regs(query_rows());",
     "core.load_q_regs(query_rows());\n    release(smem.q_ring, q.at());"},
    {"QueriesNeverReleased", "attention/wgmma_flash/warpgroup_consumer.cuh", "release_queries();\n    begin_values();",
     "begin_values();", "deadlock"},
    {"RowsOfOthersStored", "attention/wgmma_flash/epilogue.cuh", "row >= 0 && sequence.has_row(p, row)", "row >= 0"},
    {"RowsBelowZeroStored", "attention/wgmma_flash/epilogue.cuh",
     "row >= 0 && sequence.has_row(p, row);\n    store_row", "sequence.has_row(p, row);\n    store_row", "",
     kTwoFromRegisters, kMoreKeysThanBuffers},
    {"QuadsNotTransposed", "attention/wgmma_flash/epilogue.cuh", "transpose_quad(words);", ""},
    {"NoWaitForTheStoreBefore", "attention/wgmma_flash/warpgroup_consumer.cuh",
     "kFirst == 0 ? 0 :", "kFirst == 0 ? 1 :", "still reads", kOwnOut},
    {"NoBarrierBeforeRowsAreOverwritten", "attention/wgmma_flash/warpgroup_consumer.cuh",
     "kPanels - 1>();\n      named_sync(1 + group, kWarpgroup);", "kPanels - 1>();", "still reads", kOwnOut},
    {"NoWaitForThePanelBefore", "attention/wgmma_flash/warpgroup_consumer.cuh", "kPanels - 1>();", "kPanels>();",
     "still reads", kInParts, kWide},
    {"PanelsOnTopOfEachOther", "attention/wgmma_flash/warpgroup_consumer.cuh", "kSlot * Smem::kQueryPanel +", "", "",
     kInParts, kWide},
    {"PanelsOfOneColumn", "attention/wgmma_flash/epilogue.cuh", "(kFirst + panel) * kPanelColumns",
     "panel * kPanelColumns", "", kInParts, kWide},
    {"NoBarrierBeforeTheStore", "attention/wgmma_flash/warpgroup_consumer.cuh",
     "fence_async();\n    named_sync(1 + group, kWarpgroup);", "fence_async();", "", kOwnOut},
    {"NoFenceBeforeTheStore", "attention/wgmma_flash/warpgroup_consumer.cuh", "fence_async();", "", "fence.proxy.async",
     kOwnOut},
    {"NoWaitForTheLastStore", "attention/wgmma_flash/warpgroup_consumer.cuh", "wait_stores();", ";", "the block ended",
     kOwnOut},
    {"NoWaitForScores", "attention/wgmma_flash/warpgroup_consumer.cuh", "core.template wait_scores<1>(scores);",
     "core.template wait_scores<2>(scores);"},
    {"NoWaitForOut", "attention/wgmma_flash/warpgroup_consumer.cuh", "core.template wait_values<0>();",
     "core.template wait_values<1>();"},
    {"NoFenceBeforeAProduct", "attention/wgmma_flash/warpgroup_attention.cuh", "pin(scores);\n    wgmma_fence();",
     "pin(scores);", "wgmma.fence"},
    {"BarriersNotShown", "attention/wgmma_flash/warpgroup_flash.cuh", "fence_barrier_init();", "",
     "fence.mbarrier_init"},
    {"TooFewBytesExpected", "attention/wgmma_flash/warpgroup_producer.cuh", "full(smem.q_ring), Smem::kQueryBytes",
     "full(smem.q_ring), Smem::kQueryBytes - 128"},
    {"WrongSwizzleOfOut", "attention/wgmma_flash/epilogue.cuh", "^ (lane % 8)", "^ (lane % 4)", "", kOwnOut},
    {"WrongStrideOfGroups", "ptx/wgmma.cuh", "kSwizzleBytes >> 4", "kSwizzleBytes >> 5"},
    {"NoFallback", "attention/wgmma_flash/warpgroup_consumer.cuh", "all_agree(fine)", "all_agree(true)"},
    {"MaskedBlocksNotExact", "attention/wgmma_flash/warpgroup_consumer.cuh",
     "min(masked, block + 1) - kExactBlocks<Config> * kShare", "block + 1", "", kTwoGroups, kCausal},
    {"ExactBlocksOfAnotherPart", "attention/wgmma_flash/warpgroup_consumer.cuh", "max(first, min(masked",
     "max(0, min(masked", "", kStreamK},
    {"NoFallbackPastFloat32", "attention/wgmma_flash/warpgroup_consumer.cuh",
     "all_agree(core.can_renew(sum, p.scale_log2))", "all_agree(true)", "", kFromRegisters, kFull, 1000},
    {"RenewedMaximumNotKept", "attention/wgmma_flash/warpgroup_softmax.cuh",
     "state.maximum[h] += __log2f(growth) / scale_log2;", "", "", kFromRegisters, kFull, 5},
    {"SumUnderTheMaximumBefore", "attention/wgmma_flash/warpgroup_softmax.cuh", "(state.sum[h] + sum[h]) * factor[h]",
     "state.sum[h] + sum[h]", "", kFromRegisters, kFull, 5},
    {"WeightsUnderTheMaximumBefore", "attention/wgmma_flash/warpgroup_softmax.cuh",
     "scores[n][2 * h + 1] *= factor[h];", "", "", kFromRegisters, kFull, 5},
    {"LseOfBiasedSums", "attention/wgmma_flash/epilogue.cuh", " * (1 << kBelow<Config>)", ""},
    {"AFallbackOfOneWarp", "attention/wgmma_flash/warpgroup_consumer.cuh", "all_agree(fine)",
     "__all_sync(0xffffffffu, fine && thread_index() % kWarpgroup >= 32)"},
    {"PassedKeysNotReleased", "attention/wgmma_flash/warpgroup_consumer.cuh", "k.next();\n      release_keys();",
     "k.next();", "deadlock", kTwoGroups, kCausal},
    {"PassedValuesNotReleased", "attention/wgmma_flash/warpgroup_consumer.cuh",
     "v.wait_full(smem.v_ring);\n      release_values();", "v.next();", "deadlock", kTwoGroups, kCausal},
    {"SeenByTheFirstRowOnly", "attention/wgmma_flash/warpgroup_consumer.cuh", "first + 64", "first + 1", "", kTwoGroups,
     kCausal},
    {"HalfABlockForMore", "attention/wgmma_flash/warpgroup_consumer.cuh", "Config::kTileN <= Config::kTileN / 2",
     "Config::kTileN <= Config::kTileN / 2 + 16", "", kTwoGroups, kCausal},
    {"OtherHalfWeighs", "attention/wgmma_flash/warpgroup_weights.cuh", "weights[k][i] = 0;",
     "weights[k][i] = 0x3c003c00;", "", kTwoGroups, kCausal},
    {"KeysPassedBeforeValues", "attention/wgmma_flash/warpgroup_consumer.cuh",
     "for (; blocks > 0; --blocks) {\n      k.wait_full(smem.k_ring);\n      k.next();\n      release_keys();",
     "for (int i = 0; i < blocks; ++i) {\n      k.wait_full(smem.k_ring);\n      k.next();\n      release_keys();\n    "
     "}\n"
     "    for (; blocks > 0; --blocks) {",
     "deadlock", kTwoGroups, kMoreKeysThanBuffers},
    {"KeysOfRowsThatDoNotExistNotReleased", "attention/wgmma_flash/warpgroup_consumer.cuh",
     "pass(blocks);\n    release_queries();", "release_queries();", "deadlock", kTwoGroups, kFewRows},
    {"QueriesThatDoNotExistNotReleased", "attention/wgmma_flash/warpgroup_consumer.cuh",
     "pass(blocks);\n    release_queries();", "pass(blocks);", "deadlock", kTwoGroups, kFewRows},
    {"PassesFromTheTilesBegin", "attention/wgmma_flash/warpgroup_consumer.cuh", "walk_past(blocks - first)",
     "walk_past(blocks)", "deadlock", kStreamK, kFewRows},
    {"StoresOfRowsThatDoNotExist", "attention/wgmma_flash/warpgroup_consumer.cuh", "else if (leader && first_row >= 0)",
     "else if (leader)", "below 0", kTwoGroups, kMoreKeysThanBuffers},
    {"LogsOfRowsThatDoNotExist", "attention/wgmma_flash/epilogue.cuh", "if (row >= 0 && ", "if (", "", kTwoGroups,
     kMoreKeysThanBuffers},
    {"KeysReleasedToOneself", "attention/wgmma_flash/warpgroup_consumer.cuh", "release_to<Config>(kKeyLoader,",
     "release_to<Config>(cluster_rank<Config>(),", "", kCluster, kTwoTiles},
    {"ValuesReleasedToTheKeysLoader", "attention/wgmma_flash/warpgroup_consumer.cuh",
     "release_to<Config>(kValueLoader<Config>,", "release_to<Config>(kKeyLoader,", "", kCluster, kTwoTiles},
    {"BothLoadKeys", "attention/wgmma_flash/warpgroup_producer.cuh",
     "if (cluster_rank<Config>() != kKeyLoader) return;", "", "", kCluster, kTwoTiles},
    {"OnlyOneExpects", "attention/wgmma_flash/warpgroup_producer.cuh", "rank < kCluster", "rank < 1", "", kCluster,
     kTwoTiles},
    {"LoadedForOneOnly", "attention/wgmma_flash/warpgroup_producer.cuh", "(1 << kCluster) - 1", "1 << (kCluster - 1)",
     "", kCluster, kTwoTiles},
    {"NoMeetingAtTheBegin", "attention/wgmma_flash/warpgroup_flash.cuh",
     "cluster_wait();\n    }\n  }\n\n  // Others may", "}\n  }\n\n  // Others may", "cluster", kCluster, kTwoTiles},
    {"NoMeetingAtTheEnd", "attention/wgmma_flash/warpgroup_flash.cuh", "    end_together();", "", "has ended", kCluster,
     kTwoTiles},
    {"ArrivalsOfOneCtaOnly", "attention/wgmma_flash/warpgroup_flash.cuh", "smem.k_ring.init(Smem::kCluster * ",
     "smem.k_ring.init(", "", kCluster, kTwoTiles},
    {"TheSameRowsTwice", "attention/wgmma_flash/warpgroup_producer.cuh",
     "place.first_row += cluster_rank<Config>() * 64;", "", "", kCluster, kTwoTiles},
    {"BlocksOfOneCtaOnly", "attention/wgmma_flash/warpgroup_producer.cuh",
     "place.first_row + Config::kTileM * kCluster;", "place.first_row + Config::kTileM;", "", kCluster, kTwoTiles},
    {"RowsOfOneTile", "attention/wgmma_flash/warpgroup_smem.cuh", "kGroupStep = 64 * kCluster;", "kGroupStep = 64;", "",
     kCluster, kTwoTiles},
    {"OneNumberOnItsWay", "attention/wgmma_flash/tile_broadcast.cuh", "kBroadcasts = 4;", "kBroadcasts = 1;", "",
     kDynamicCluster, kOneBlockTiles},
    {"EachCountsUp", "attention/wgmma_flash/dynamic_tiles.cuh", "if (cluster_rank<Config>() == 0) reserved", "reserved",
     "", kDynamicCluster, kOneBlockTiles},
    {"NumbersPastCtas", "attention/wgmma_flash/dynamic_tiles.cuh", "reserved += gridDim.x / cluster_size<Config>();",
     "reserved += gridDim.x;", "", kDynamicCluster, kOneBlockTiles},
    {"FirstTilesOfCtas", "attention/wgmma_flash/dynamic_tiles.cuh", "= blockIdx.x / cluster_size<Config>()",
     "= blockIdx.x", "", kDynamicCluster, kOneBlockTiles},
    {"TileNumberNotAwaited", "attention/wgmma_flash/tile_broadcast.cuh", "barrier_wait(full, parity);\n    return *",
     "return *", "", kDynamicCluster, kOneBlockTiles},
    {"TileNumberNotExpected", "attention/wgmma_flash/tile_broadcast.cuh", "barrier_arrive_expect(full, sizeof(u32));",
     "", "", kDynamicCluster, kOneBlockTiles},
    {"TileNumberNotSent", "attention/wgmma_flash/tile_broadcast.cuh", "      store_there(",
     "      if (passed > 2) store_there(", "", kDynamicCluster, kOneBlockTiles},
    {"QNotLoadedToRegisters", "attention/wgmma_flash/warpgroup_consumer.cuh", "core.load_q_regs(query_rows());", "", "",
     kCluster, kTwoTiles},
    {"NobodyIsTheLast", "attention/common/arrival.cuh", "== parts - 1", "== parts", "", kStreamK},
    {"OneCounterForAll", "attention/wgmma_flash/stream_k.cuh",
     "p.counters + part.tile * cluster_size<Config>() * kGroups + place()", "p.counters", "", kStreamK},
    {"EveryoneIsTheLast", "attention/common/arrival.cuh", "== parts - 1", ">= 0", "nobody has written", kStreamK},
    {"TheFirstIsTheLast", "attention/common/arrival.cuh", "== parts - 1", "== 0", "nobody has written", kStreamK},
    {"PartNotReleased", "attention/common/arrival.cuh", "acq_rel", "acquire", "of the workspace are read", kStreamK},
    {"CountedBeforeAllHaveWritten", "attention/wgmma_flash/stream_k.cuh",
     "named_sync(1 + group, kWarpgroup);\n    bool last", "bool last", "of the workspace are read", kStreamK},
    {"PartsNotAcquired", "attention/common/arrival.cuh", "acq_rel", "release", "of the workspace are read", kStreamK},
    {"CounterNotPutBack", "attention/common/arrival.cuh", "if (last) *arrived = 0;", "", "not left zero", kStreamK},
    {"OthersPartsTwice", "attention/wgmma_flash/stream_k.cuh", "add_part(core, part.first_slot + i);",
     "add_part(core, part.slot);", "", kStreamK},
    {"PartsOnTopOfOut", "attention/wgmma_flash/stream_k.cuh", "core.clear();", "", "", kStreamK},
    {"TakenOverBeforeItIsThere", "attention/wgmma_flash/warpgroup_share.cuh", "cursor.wait_full(ring);", "", "",
     kShared},
    {"HandedOverOntoTheTileBefore", "attention/wgmma_flash/warpgroup_share.cuh", "{ cursor.wait_empty(ring); }", "{}",
     "", kShared, kFewKeys},
    {"HandedOverBeforeItIsThere", "attention/wgmma_flash/warpgroup_share.cuh",
     "leave_part<Config>(core, part);\n    barrier_arrive(cursor.full(ring));",
     "barrier_arrive(cursor.full(ring));\n    leave_part<Config>(core, part);", "race", kShared},
    {"TicketGivenBackByOneLane", "attention/wgmma_flash/schedule.cuh",
     "__syncwarp();  // tells the assembler that lanes are together: it would spill in kernels whose tiles have "
     "parts\n    ",
     "for (int i = 0; i < 32 && thread_index() % 32 == 0; ++i) barrier_arrive(cursor.empty(tickets.ring));\n    if "
     "(false) ",
     "race", kFromRegisters, kFewKeys},
    {"HandoverNeverGivenBack", "attention/wgmma_flash/warpgroup_share.cuh", "barrier_arrive(cursor.empty(ring));", "",
     "deadlock", kShared},
    {"HandoverOfTheTileAfter", "attention/wgmma_flash/warpgroup_consumer.cuh", "share(smem, q.passed - 1)",
     "share(smem, q.passed)", "deadlock", kShared},
    {"TicketGivenBackByOneWarp", "attention/wgmma_flash/schedule.cuh", "barrier_arrive(cursor.empty(tickets.ring));",
     "if (threadIdx.x % 128 < 32) barrier_arrive(cursor.empty(tickets.ring));", "deadlock", kShared},
    {"SharesFromTheTilesBegin", "attention/wgmma_flash/warpgroup_consumer.cuh", "block -= first;", ";", "deadlock",
     kStreamK},
    {"WholeWavesOnly", "attention/wgmma_flash/warpgroup_flash.cuh",
     "if constexpr (TileScheduler::kHasParts) producer.load_parts(walk);", "", "", kStreamK},
    {"QFragmentsUnswizzled", "attention/wgmma_flash/warpgroup_attention.cuh", "(d % 4 * 2 + lane / 16) ^ (lane % 8);",
     "d % 4 * 2 + lane / 16;", "", kCluster, kTwoTiles},
    {"NoOnes", "attention/wgmma_flash/warpgroup_flash.cuh", "if constexpr (Smem::kOnesColumn) write_ones();", "", "",
     kOnesColumn, kWithoutLse},
    {"OnesNotShown", "attention/wgmma_flash/warpgroup_flash.cuh", "(1.f, 1.f);\n    fence_async();", "(1.f, 1.f);",
     "fence.proxy.async", kOnesColumn, kWithoutLse},
    {"OnesMoveWithTheValues", "attention/wgmma_flash/warpgroup_attention.cuh", "advance_first_panel(values, bytes)",
     "advance(values, bytes)", "", kOnesColumn, kWithoutLse},
    {"NoFallbackInHalves", "attention/wgmma_flash/warpgroup_halves.cuh", "this->all_agree(fine)",
     "this->all_agree(true)", "", kOnesColumn, kWithoutLse},
    {"AFallbackOfOneWarpInHalves", "attention/wgmma_flash/warpgroup_halves.cuh", "this->all_agree(fine)",
     "__all_sync(0xffffffffu, fine && thread_index() % kWarpgroup >= 32)", "", kOnesColumn, kWithoutLse},
    {"AFallbackToTheNextKeys", "attention/wgmma_flash/warpgroup_halves.cuh", "k.passed = v.passed;", "", "",
     kOnesColumn, kWithoutLse},
    {"HalvesReleasedTooEarly", "attention/wgmma_flash/warpgroup_halves.cuh",
     "    wait<kOther, kScores>();\n    if constexpr (kMine == 0) this->release_values();",
     "    if constexpr (kMine == 0) this->release_values();\n    wait<kOther, kScores>();", "still reads", kOnesColumn,
     kWithoutLse},
    {"KeysReleasedBeforeTheFallback", "attention/wgmma_flash/warpgroup_halves.cuh",
     "if (!half_step<1, true>()) return;\n      this->release_keys();",
     "this->release_keys();\n      if (!half_step<1, true>()) return;", "", kOnesColumn, kWithoutLse},
    {"LargeWeightsNotChecked", "attention/wgmma_flash/warpgroup_weights.cuh", "(bits & kFromTwoOn) == 0", "true", "",
     kOnesColumn, kWithoutLse, 23},
    {"FirstHalfCountedTwice", "attention/wgmma_flash/warpgroup_halves.cuh", "k.passed != v.passed", "false", "",
     kOnesColumn, kWithoutLse},
    {"ValuesOfAHalfThatFallsBackKept", "attention/wgmma_flash/warpgroup_halves.cuh",
     "if constexpr (kMine == 0) this->release_values();", "if (kMine == 0 && all_fine) this->release_values();", "",
     kOnesColumn, kWithoutLse, -20, 160},
    {"OffsetsOfTheMaximaBefore", "attention/wgmma_flash/warpgroup_halves.cuh", "    take_maxima();\n",
     "    if (block + 2 == p.kv_len / Config::kTileN) take_maxima();\n", "", kOnesColumn, kWithoutLse},
    {"NoWaitForHalves", "attention/wgmma_flash/warpgroup_halves.cuh", "wgmma_wait<0>();", "", "", kOnesColumn,
     kWithoutLse},
};

TEST(PlantedText, IsThere) {
  EXPECT_NONFATAL_FAILURE(planted("ptx/wgmma.cuh", "text that is not there", ""), "no fault is planted");
  EXPECT_NONFATAL_FAILURE(planted("no_such_header.cuh", "", ""), "no fault is planted");
}

INSTANTIATE_TEST_SUITE_P(Planted, WarpgroupMutants, ::testing::ValuesIn(kMutants),
                         [](const auto& mutant) { return std::string(mutant.param.name); });

}  // namespace
}  // namespace gqa::simt
