// probe.h: what of CUDA this machine has, in words.
// Owns: one human line each for NVRTC and the driver, what `gqa-cache stats` and `doctor` print.
// Never: fails: what is missing is said.
// Threads: any.
#pragma once

#include <string>

#include "search/status.h"

namespace gqa {

// "NVRTC 13.0 at /usr/lib/libnvrtc.so.13", or why there is none.
std::string describe_nvrtc(const std::string& explicit_path);
// The one that a device of that architecture would use here, in the same words; else kNoCompiler with the reason.
Status find_nvrtc_for(const std::string& arch, std::string* found);
// "driver for CUDA 13.0, 1 device: cuda:0 NVIDIA H200 (sm_90a)", or why there is none.
std::string describe_driver();

}  // namespace gqa
