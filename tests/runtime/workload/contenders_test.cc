// contenders_test.cc: which programs are tried first: the best of each kind, families and tile kernels in turn.
#include "runtime/workload/contenders.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/search/graph/enumerate/search_support.h"
#include "tests/search/graph/programs.h"

namespace gqa {
namespace {

const DeviceSpec kHopper = *DeviceSpec::for_arch("sm_90a");

bool safe(const FoundProgram& program) { return program.safe; }

std::string kind_of(const SearchResult& result, const Contender& contender) {
  for (const RankedProgram& ranked : result.programs) {
    if (describe(ranked.program.graph) == describe(contender.plan.program)) return ranked.program.kind;
  }
  return "";
}

TEST(Contenders, EveryKindOfTileProgramHasItsTurnBeforeAnyHasTwo) {
  const SearchResult result = search(graph_of(programs::kNormLinear));
  std::set<std::string> kinds;
  for (const RankedProgram& ranked : result.programs) kinds.insert(ranked.program.kind);
  const std::vector<Contender> list = contenders(result.programs, safe, kHopper, 64);
  ASSERT_GT(kinds.size(), 3U);
  ASSERT_GT(list.size(), kinds.size());
  std::set<std::string> first;
  for (std::size_t at = 0; at + 1 < kinds.size(); ++at) first.insert(kind_of(result, list[at]));
  // A kind whose programs have no plan on the device has no turn.
  EXPECT_GE(first.size() + 1, kinds.size() - 1);
  EXPECT_TRUE(first.count("loop") + first.count("loop+splits") > 0);
}

TEST(Contenders, FamiliesAndTileKernelsTakeTurns) {
  const SearchResult result = search(graph_of(programs::kNaive), "attention");
  const std::vector<Contender> list = contenders(result.programs, safe, kHopper, 16);
  ASSERT_EQ(list.size(), 16U);
  int families = 0;
  for (const Contender& each : list) families += each.family;
  EXPECT_EQ(families, 12);
}

// Two heads of 256 queries: eight tiles of flash would leave the device idle.
TEST(Contenders, FewHeadsGetSplitFamilies) {
  const SearchResult result = search(graph_of(programs::kNaive), "attention");
  bool split = false;
  for (const Contender& each : contenders(result.programs, safe, kHopper, 8)) {
    for (const PlannedKernel& kernel : each.plan.kernels)
      split = split || (kernel.family && name(kernel.family->candidate) == "split");
  }
  EXPECT_TRUE(split);
}

}  // namespace
}  // namespace gqa
