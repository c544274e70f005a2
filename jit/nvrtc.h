// nvrtc.h: CUDA source to PTX and CUBIN, by the NVRTC found on this machine.
// Owns: finding and loading libnvrtc, its options, and reading registers and spills from its log.
// Never: needs a toolkit, a header file, a GPU or a driver; the library is loaded on first use only.
// Threads: one Nvrtc may compile on many threads at once.
//
// The path given (gqa_options.nvrtc_path; a file, or a folder that holds one) is the only place looked at, where there
// is one. Else the first is taken that loads and meets the needs, of $GQA_NVRTC and the places of nvrtc_search.h. What
// $GQA_NVRTC names must load.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/dynamic_library.h"
#include "jit/nvrtc_search.h"
#include "search/status.h"

namespace gqa {

struct Compiled {
  std::string ptx, cubin, log;
  int registers = 0, spill_bytes = 0, static_smem = 0;
};

class Nvrtc {
 public:
  // kNoCompiler names every place that was tried, what each one lacks, and how to get NVRTC.
  static Status load(const std::string& explicit_path, const NvrtcNeeds& needs, std::shared_ptr<const Nvrtc>* nvrtc);

  const std::string& path() const { return path_; }
  std::string version_text() const;  // "13.0"
  bool supports(const std::string& arch) const { return knows(facts_, arch); }
  // The options of every compilation, without the architecture: part of kernel keys.
  static std::string options_text();

  // Compiles source that may include the embedded device headers, for an architecture such as "sm_90a".
  Status compile(const std::string& source, const std::string& arch, Compiled* compiled) const;

 private:
  struct Api;
  Nvrtc() = default;
  static std::shared_ptr<const Nvrtc> from_file(const std::string& file, std::string* why);
  static Status check_loads(const std::string& path);
  static Status load_given(const std::string& path, const NvrtcNeeds& needs, std::shared_ptr<const Nvrtc>* nvrtc);
  std::string does_not_know(const std::string& arch) const;

  std::unique_ptr<DynamicLibrary> library_;
  std::shared_ptr<const Api> api_;
  std::string path_;
  NvrtcFacts facts_;
};

}  // namespace gqa
