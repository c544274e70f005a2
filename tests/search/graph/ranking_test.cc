// ranking_test.cc: the version of the search is raised where graphs get other programs or thread plans, or in another
// order.
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>

#include "search/graph/ir/graph_text.h"
#include "search/graph/tile/kernel_plan.h"
#include "search/version.h"
#include "tests/golden_version.h"
#include "tests/search/graph/enumerate/search_support.h"

namespace gqa {
namespace {

constexpr std::size_t kPrograms = 8, kPlans = 8;

// Times to four digits, and lines in the order of their text: another compiler's last bits of a time, or programs that
// tie, are no change. Thread plans have no time: their place stands for it.
std::string program_hash(const std::string& text) {
  std::vector<std::string> lines;
  for (const RankedProgram& ranked : search(graph_of(text), "", kPrograms).programs) {
    char time[32];
    std::snprintf(time, sizeof time, "%.4g s\n", ranked.program.seconds);
    std::string line = time;
    for (const KernelGraph& plan : thread_plans(ranked.program.graph, hopper(), kPlans)) line += to_text(plan);
    lines.push_back(std::move(line));
  }
  EXPECT_GT(lines.size(), 2u);
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const std::string& line : lines) all += line;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(XXH3_64bits(all.data(), all.size())));
  return digits;
}

TEST(ProgramRankings, TheSearchsVersionIsRaisedWhereTheyChange) {
  GoldenVersions golden(GQA_GOLDEN_DIR "/programs.txt");
  const struct {
    const char* name;
    const std::string& text;
  } graphs[] = {{"attention", programs::kNaive}, {"norm_linear", programs::kNormLinear}, {"gated", programs::kGated}};
  for (const auto& graph : graphs)
    golden.expect(std::string("programs/") + graph.name, kSearchVersion, program_hash(graph.text),
                  "kSearchVersion (search/version.h)");
}

}  // namespace
}  // namespace gqa
