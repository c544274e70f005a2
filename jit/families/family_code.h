// family_code.h: what a family's kernel adds to the frame that codegen.cc writes around all of them.
// Owns: FamilyCode, the parts, and an overload of code_of for each family, in a file of its name.
// Never: knows how the parts are put together.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search/families/candidate.h"
#include "search/problem/problem.h"

namespace gqa {

struct FamilyCode {
  std::vector<std::string> headers;  // of jit/device/
  std::string_view type;             // of the kernel, and of its shared memory: templates of a Config
  std::string_view smem;
  std::string_view what;      // of it, in the banner
  std::string products = {};  // functions that stand before the Config, which names them
  std::string config = {};    // lines of the Config that this family has always
  std::string features = {};  // and those that only some of its kernels have
};

FamilyCode code_of(const Problem& problem, const MmaFlash& candidate);
FamilyCode code_of(const Problem& problem, const SplitKv& candidate);
FamilyCode code_of(const Problem& problem, const WgmmaFlash& candidate);

// The lines that every family begins with.
std::string terms_config(int terms);  // of float32 elements
std::string tile_config(int tile_m, int tile_n, int warps, int stages, int pack);

}  // namespace gqa
