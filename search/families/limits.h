// limits.h: what refuses candidates of more than one family.
// Owns: a rule a function, each with its own words: "" where it holds.
// Never: knows a family; each calls those that are its own, in its own order.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search/device_spec.h"
#include "search/families/launch_plan.h"
#include "search/problem/problem.h"

namespace gqa {

// Numbers that mean nothing in any family.
std::string wrong_tile(const CandidateShape& shape, int warps);

// In a family without splits, whose text has their number all the same.
std::string more_than_one_split(int splits, std::string_view family);

std::string wrong_pack(const Problem& problem, const CandidateShape& shape);
// In families where packing only fills tiles that one head leaves empty.
std::string useless_pack(const Problem& problem, const CandidateShape& shape);

// Half the rows or keys of the only tile would be padding, and a smaller tile is in the list, down to these.
std::string oversized(const Problem& problem, const CandidateShape& shape, int least_rows, int least_keys);

std::string over_grid(const LaunchPlan& launch);
std::string over_shared_memory(const LaunchPlan& launch, const DeviceSpec& device);

// Ways to share a group's heads among tiles.
std::vector<int> divisors(int number);

}  // namespace gqa
