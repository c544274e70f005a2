// Faults planted in what kernels of packed sequences are made of: the emulator and the naive loop must see each of
// them.
#include <gtest/gtest.h>

#include <string>

#include "tests/simt/kernels/cache_launch.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {
namespace {

using Lengths = std::vector<std::int32_t>;

constexpr const char* kSequence = "attention/common/sequence.cuh";
constexpr const char* kSource = "attention/common/key_source.cuh";
constexpr const char* kWalk = "attention/common/walk.cuh";
constexpr const char* kRows = "attention/common/rows.cuh";
constexpr const char* kFlashKernel = "attention/mma_flash/flash.cuh";
constexpr const char* kSplit = "attention/split_kv/split.cuh";
constexpr const char* kEvenSplits = "attention/split_kv/even_splits.cuh";

// A kernel and its sequences.
struct Subject {
  const char *problem, *candidate;
  Lengths queries, keys;
};

const Subject kPrefills = {"b=5,hq=2,hk=1,sq=40,sk=60,d=32,causal,packq,packk,lse",
                           "flash m=16 n=32 warps=1 stages=2 pack=1",
                           {5, 0, 1, 40, 20},
                           {60, 7, 33, 20, 50}};
const Subject kDecodes = {"b=6,hq=2,hk=1,sq=2,sk=90,d=32,causal,packq,packk,lse",
                          "split m=16 n=16 warps=2 stages=2 pack=2 even=1 splits=5",
                          {1, 2, 0, 1, 2, 1},
                          {33, 90, 20, 0, 64, 31}};
const Subject kShares = {"b=4,hq=2,hk=1,sq=20,sk=90,d=32,causal,packq,packk,lse",
                         "split m=16 n=16 warps=2 stages=2 pack=1 splits=2",
                         {20, 1, 0, 3},
                         {33, 90, 20, 64}};

class PackedMutants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

struct Fault {
  const char* header;
  std::string from, to;
};
const Fault kNone = {"", "", ""};

KernelText text_of(const Subject& subject, const Fault& fault, Candidate* candidate) {
  Problem problem;
  EXPECT_TRUE(parse(subject.problem, &problem).ok() && parse(subject.candidate, candidate).ok());
  return {attention_source(problem, *candidate), planted(fault.header, fault.from, fault.to)};
}

::testing::AssertionResult passes_packed(const Subject& subject, const Fault& fault, const test::Packing& packing) {
  Candidate candidate;
  const KernelText text = text_of(subject, fault, &candidate);
  return judged(text, [&](const Kernel& kernel) {
    test::CacheCase t(subject.problem, subject.keys, false, packing);
    return cache_agrees(kernel, candidate, &t);
  });
}

// Whether the kernel passes with the fault, where sequences have so many rows of nobody between them.
::testing::AssertionResult passes(const Subject& subject, const Fault& fault, int gap = 0, int blind = -1) {
  return passes_packed(subject, fault, {subject.queries, gap, blind});
}

TEST_F(PackedMutants, NothingPlanted) {
  for (const Subject& subject : {kPrefills, kDecodes, kShares})
    for (const int gap : {0, 3}) EXPECT_TRUE(passes(subject, kNone, gap));
}

TEST_F(PackedMutants, AStartOffByOne) {
  for (const Subject& subject : {kPrefills, kDecodes, kShares})
    for (const std::string list : {"cache->q_starts", "first_rows"})
      for (const char* wrong : {" + sequence) + 1", " + sequence + 1)", ")"})
        EXPECT_FALSE(passes(subject, {kSequence, "__ldg(" + list + " + sequence)", "__ldg(" + list + wrong}, 1))
            << list << wrong;
}

TEST_F(PackedMutants, ALengthOfTheNeighbour) {
  const Fault starts = {kSequence, "__ldg(starts + sequence + 1) - __ldg(starts + sequence)",
                        "__ldg(starts + 1) - __ldg(starts)"};
  const Fault lengths = {kSequence, "__ldg(lengths + sequence)", "__ldg(lengths)"};
  for (const Subject& subject : {kPrefills, kDecodes, kShares}) {
    EXPECT_FALSE(passes(subject, starts));
    EXPECT_FALSE(passes(subject, lengths, 3));
  }
}

// Where used lengths are given, the starts do not say them.
TEST_F(PackedMutants, UsedLengthsThatNobodyReads) {
  const Fault fault = {kSequence, "return lengths != nullptr ?", "return false ?"};
  for (const Subject& subject : {kPrefills, kDecodes, kShares}) EXPECT_FALSE(passes(subject, fault, 3));
}

// More rows are used, says the call, than there are.
TEST_F(PackedMutants, UsedLengthsBelieved) {
  const Fault fault = {kSequence, "min(__ldg(lengths + sequence), rows)", "__ldg(lengths + sequence)"};
  for (const Subject& subject : {kPrefills, kDecodes, kShares}) {
    test::Packing packing = {subject.queries};
    packing.beyond = 3;
    EXPECT_TRUE(passes_packed(subject, kNone, packing));
    EXPECT_FALSE(passes_packed(subject, fault, packing));
  }
}

// Slots of a cache come in any order: their starts say nothing of where one ends.
TEST_F(PackedMutants, ASlotThatEndsWhereTheNextBegins) {
  const Fault fault = {kSequence, "cache->k_in_slots != 0", "false"};
  for (const Subject& subject : {kPrefills, kDecodes, kShares}) {
    test::Packing packing = {subject.queries};
    packing.in_slots = true;
    EXPECT_TRUE(passes_packed(subject, kNone, packing));
    EXPECT_FALSE(passes_packed(subject, fault, packing));
  }
}

// Values may begin at rows of their own.
TEST_F(PackedMutants, ValuesThatBeginWhereKeysDo) {
  const Fault fault = {kSource, "first_key_of<Config>(cache->v_starts", "first_key_of<Config>(cache->k_starts"};
  for (const Subject& subject : {kPrefills, kDecodes, kShares}) {
    test::Packing packing = {subject.queries};
    packing.in_slots = packing.values_apart = true;
    EXPECT_TRUE(passes_packed(subject, kNone, packing));
    EXPECT_FALSE(passes_packed(subject, fault, packing));
  }
}

TEST_F(PackedMutants, RowsStoredPastASequencesQueries) {
  const Fault fault = {kRows, "row / Config::kPack < own_queries", "row / Config::kPack < p.q_len"};
  for (const Subject& subject : {kPrefills, kDecodes, kShares})
    for (const int gap : {0, 3}) EXPECT_FALSE(passes(subject, fault, gap));
}

TEST_F(PackedMutants, KeysReadPastASequencesEnd) {
  const Fault all = {kSequence, "min(packed_keys(cache, sequence), p.kv_len)", "p.kv_len"};
  const Fault loaded = {kWalk, "return Below{end(first_row)};", "return Below{p.kv_len};"};
  for (const Subject& subject : {kPrefills, kDecodes, kShares}) {
    EXPECT_FALSE(passes(subject, all));
    EXPECT_FALSE(passes(subject, loaded, 0, 1));
  }
}

TEST_F(PackedMutants, AMaskAlignedToTheMostQueries) {
  const Fault fault = {kWalk, "keys() - queries()", "keys() - p.q_len"};
  for (const Subject& subject : {kPrefills, kDecodes, kShares}) EXPECT_FALSE(passes(subject, fault));
}

TEST_F(PackedMutants, ALastTileLeftOut) {
  EXPECT_FALSE(passes({"b=2,hq=2,hk=1,sq=40,sk=60,d=32,packq,packk,lse",
                       "split m=16 n=16 warps=2 stages=2 pack=1 even=1 splits=3",
                       {20, 40},
                       {60, 30}},
                      {kEvenSplits, "(walk.queries() * Config::kPack - 1)", "(walk.queries() * Config::kPack - 16)"}));
}

// The last sequence's keys lie past the tensor's end: a read of them faults.
::testing::AssertionResult runs_without_last_keys(const Subject& subject, const Fault& fault) {
  Candidate candidate;
  const KernelText text = text_of(subject, fault, &candidate);
  return judged(text, [&](const Kernel& kernel) -> ::testing::AssertionResult {
    test::CacheCase t(subject.problem, subject.keys, false, {subject.queries});
    t.k_starts.back() += t.call.problem.kv_len;
    const Status status = run_cache(kernel, candidate, &t);
    if (!status.ok()) return ::testing::AssertionFailure() << status.message();
    return ::testing::AssertionSuccess();
  });
}

TEST_F(PackedMutants, KeysOfASequenceWithoutQueriesAreNotRead) {
  const Subject subjects[] = {{kPrefills.problem, kPrefills.candidate, {5, 0, 1, 40, 0}, {60, 7, 33, 20, 0}},
                              {kShares.problem, kShares.candidate, {20, 1, 2, 0}, {33, 90, 20, 0}},
                              {kDecodes.problem, kDecodes.candidate, {1, 2, 0, 1, 2, 0}, {33, 90, 20, 0, 64, 0}}};
  for (const Subject& subject : subjects) EXPECT_TRUE(runs_without_last_keys(subject, kNone));
  EXPECT_FALSE(runs_without_last_keys(subjects[0], {kFlashKernel, "queries(), first_row)) return;", "1, 0)) return;"}));
  EXPECT_FALSE(
      runs_without_last_keys(subjects[1], {kSplit, "own_queries, place.first_row)) return;", "1, 0)) return;"}));
  EXPECT_FALSE(runs_without_last_keys(subjects[2], {kEvenSplits, "if (walk.queries() == 0) return 0;", ";"}));
}

}  // namespace
}  // namespace gqa::simt
