// nvrtc.h: CUDA source to PTX and CUBIN, by the NVRTC found on this machine.
// Owns: finding and loading libnvrtc, its options, and reading registers and spills from its log.
// Never: needs a toolkit, a header file, a GPU or a driver; the library is loaded on first use only.
// Threads: one Nvrtc may compile on many threads at once.
//
// Where libnvrtc is looked for, in this order; the first that loads is taken:
//   1. the path given (gqa_options.nvrtc_path), then $GQA_NVRTC; a file, or a folder that holds one;
//   2. beside this library;
//   3. NVIDIA's wheels, nvidia/cu13/lib and nvidia/cuda_nvrtc/lib, in the site-packages that hold this library or
//   belong to
//      the environment whose bin holds this command;
//   4. a toolkit: $CUDA_HOME/lib64, $CUDA_PATH/lib64, /usr/local/cuda/lib64;
//   5. the loader's own search (LD_LIBRARY_PATH, ldconfig).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/dynamic_library.h"
#include "search/status.h"

namespace gqa {

struct Compiled {
  std::string ptx, cubin, log;
  int registers = 0, spill_bytes = 0, static_smem = 0;
};

class Nvrtc {
 public:
  // kNoCompiler names every place that was tried and how to get NVRTC.
  static Status load(const std::string& explicit_path, std::shared_ptr<const Nvrtc>* nvrtc);
  // The files load() tries, in order.
  static std::vector<std::string> search_order(const std::string& explicit_path);

  const std::string& path() const { return path_; }
  int version() const { return version_; }  // 1000 * major + 10 * minor, as CUDA counts
  std::string version_text() const;         // "13.0"
  bool supports(const std::string& arch) const;
  // The options of every compilation, without the architecture: part of kernel keys.
  static std::string options_text();

  // Compiles source that may include the embedded device headers, for an architecture such as "sm_90a".
  Status compile(const std::string& source, const std::string& arch, Compiled* compiled) const;

 private:
  struct Api;
  Nvrtc() = default;
  static std::shared_ptr<const Nvrtc> from_file(const std::string& file, std::string* why);

  std::unique_ptr<DynamicLibrary> library_;
  std::shared_ptr<const Api> api_;
  std::string path_;
  int version_ = 0;
  std::vector<int> archs_;
};

}  // namespace gqa
