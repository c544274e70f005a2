// version.h: the numbers that decide which of the winners kept on disk are still good.
// Owns: the version of the search, and one of each kernel family. Somebody raises them on purpose; golden tests fail
// where one should have been raised and was not, and say which.
// Never: part of a kernel's key: a kernel is kept under its source (jit/closure.h), which needs no number.
// Threads: constants and pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gqa {

// Raised when other candidates or programs are enumerated, or they are ranked otherwise: all winners are then tuned
// anew.
inline constexpr int kSearchVersion = 9;

// A family's is raised when its kernels change in what they compute, how fast or under which conditions: winners that
// run them are then tuned anew, and no others.
inline constexpr std::string_view kBlockFamily = "block";    // the tile kernels of graphs
inline constexpr std::string_view kCheckFamily = "check";    // those that verify others; no winner runs them
inline constexpr std::string_view kMergeFamily = "merge";    // what merges states
inline constexpr std::string_view kAppendFamily = "append";  // what appends to caches
struct FamilyVersion {
  std::string_view name;
  int version;
};
inline constexpr FamilyVersion kFamilyVersions[] = {
    {"flash", 4}, {"split", 5}, {"warpgroup", 5}, {kBlockFamily, 3}, {kMergeFamily, 2}, {kAppendFamily, 2},
};

// 0: no such family.
int family_version(std::string_view family);

// "block=1 flash=2": each of the names once, in alphabetical order, with its present version.
std::string families_text(std::span<const std::string_view> names);

// What is not of this version in a text of families_text(), of whatever version: "warpgroup is of version 2, expected
// 3". "": all is.
std::string outdated_families(std::string_view text);

}  // namespace gqa
