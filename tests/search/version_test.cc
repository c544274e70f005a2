// version_test.cc: the numbers that winners depend on: their text, and that the search's is raised where what it ranks
// changes.
#include "search/version.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>

#include "search/families/candidate.h"
#include "tests/golden_version.h"
#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

TEST(Versions, EverySkeletonIsAFamily) {
  for (const std::string_view family : family_names()) EXPECT_GT(family_version(family), 0) << family;
  EXPECT_GT(family_version(kBlockFamily), 0);
  EXPECT_EQ(family_version("check"), 0);
  EXPECT_EQ(family_version(""), 0);
}

TEST(Versions, ATextNamesEachFamilyOnceInOrder) {
  const std::string_view names[] = {"flash", "block", "flash"};
  EXPECT_EQ(families_text(names),
            "block=" + std::to_string(family_version("block")) + " flash=" + std::to_string(family_version("flash")));
}

TEST(Versions, WhatIsOfAnotherVersionIsOutdated) {
  const std::string_view names[] = {"split", "block"};
  const std::string text = families_text(names);
  EXPECT_EQ(outdated_families(text), "");
  EXPECT_NE(outdated_families(text + "1"), "") << "split of a later version";
  EXPECT_NE(outdated_families(text + " warpgroup=0"), "");
  EXPECT_NE(outdated_families(text + " warpgroup"), "");
  EXPECT_NE(outdated_families("split"), "");
  EXPECT_NE(outdated_families(""), "") << "a winner has kernels, and they are of some family";
  EXPECT_NE(outdated_families("other=1").find("'other'"), std::string::npos);
  EXPECT_NE(outdated_families("block=99").find("'block=99'"), std::string::npos);
}

// Times to four digits, and lines in the order of their text: another compiler's last bits of a time, or two candidates
// that tie, are no change.
std::string ranking_hash(const DeviceSpec& device) {
  std::vector<std::string> lines;
  for (const char* shape : kShapes) {
    for (const Ranked& ranked : enumerate(problem_of(shape), device).ranked) {
      char time[32];
      std::snprintf(time, sizeof time, " %.4g", ranked.predicted_us);
      lines.push_back(shape + (" " + to_text(ranked.candidate)) + time);
    }
  }
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  EXPECT_GT(lines.size(), 100u);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(XXH3_64bits(all.data(), all.size())));
  return digits;
}

TEST(Versions, TheSearchsIsRaisedWhereRankingsOfCandidatesChange) {
  GoldenVersions golden(GQA_GOLDEN_DIR "/rankings.txt");
  for (const DeviceSpec& device : {*DeviceSpec::for_arch("sm_80"), h200(), host()})
    golden.expect("candidates/" + device.arch, kSearchVersion, ranking_hash(device),
                  "kSearchVersion (search/version.h)");
}

}  // namespace
}  // namespace gqa
