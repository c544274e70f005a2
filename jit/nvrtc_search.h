// nvrtc_search.h: where libnvrtc may lie on this machine, and which of several will do.
// Owns: the order of the search, as file names; the rule by which one found is taken.
// Never: loads any of them; nvrtc.cc does.
// Threads: any, while nobody changes the environment.
//
//   1. $GQA_NVRTC: a file, or a folder that holds one; an error where it cannot be loaded;
//   2. beside this library;
//   3. NVIDIA's wheels (nvidia/cu13/lib of CUDA 13, nvidia/cuda_nvrtc/lib of CUDA 12) in the site-packages that hold
//      this library, or that belong to the environment whose bin or lib holds this file;
//   4. a toolkit: $CUDA_HOME/lib64, $CUDA_PATH/lib64, /usr/local/cuda/lib64;
//   5. the loader's own search (LD_LIBRARY_PATH, ldconfig, what the process has loaded already);
//   6. NVIDIA's wheels elsewhere: in the active environment ($VIRTUAL_ENV, $CONDA_PREFIX), beside packages that this
//      process has loaded (PyTorch's wheel brings one), in the user's site-packages, in the system's. They come last,
//      since they differ between processes, and the compiler is part of what a cached winner is found by.
#pragma once

#include <string>
#include <vector>

namespace gqa {

// A variable of the environment; empty where it is not set.
std::string environment(const char* name);
// The file itself, or, of a folder, each name that libnvrtc may have in it, newest first. Empty for an empty path.
std::vector<std::string> nvrtc_files_of(const std::string& path);
// 2 to 6; a name without a slash is for the loader to find.
std::vector<std::string> nvrtc_search_order();

// What the kernels' device asks of an NVRTC.
struct NvrtcNeeds {
  std::string arch;  // to be known, such as "sm_90a"; "": any
  int driver = 0;    // the driver's version (1000 * major + 10 * minor); 0: no driver
};

struct NvrtcFacts {
  int version = 0;         // 1000 * major + 10 * minor, as CUDA counts
  std::vector<int> archs;  // that it knows, by number
};

enum class NvrtcFit { kTake, kIfNoOther, kNever };

// NVRTC 12.0 to 13.5 know the `a` form of every architecture from sm_90 on that they list, so its number decides. Where
// its major version is newer than the driver's, PTX cannot be loaded and a CUBIN may be of a form that the driver does
// not know: an NVRTC of such a version that was not given by name is taken only where there is no other.
NvrtcFit fit_of(const NvrtcFacts& facts, const NvrtcNeeds& needs, bool given);
bool knows(const NvrtcFacts& facts, const std::string& arch);

}  // namespace gqa
