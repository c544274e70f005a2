// nvrtc.cc: see nvrtc.h.
#include "jit/nvrtc.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <type_traits>

#include "jit/embedded.h"
#include "jit/ptxas_log.h"

namespace gqa {

using nvrtcProgram = struct NvrtcProgramOpaque*;

// The few functions of NVRTC that are used, by the signatures of its documentation; 0 is success.
#define GQA_NVRTC_SYMBOLS(X)                                                                                           \
  X(nvrtcVersion, int (*)(int*, int*))                                                                                 \
  X(nvrtcGetNumSupportedArchs, int (*)(int*))                                                                          \
  X(nvrtcGetSupportedArchs, int (*)(int*))                                                                             \
  X(nvrtcCreateProgram, int (*)(nvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(nvrtcDestroyProgram, int (*)(nvrtcProgram*))                                                                       \
  X(nvrtcCompileProgram, int (*)(nvrtcProgram, int, const char* const*))                                               \
  X(nvrtcGetPTXSize, int (*)(nvrtcProgram, size_t*))                                                                   \
  X(nvrtcGetPTX, int (*)(nvrtcProgram, char*))                                                                         \
  X(nvrtcGetCUBINSize, int (*)(nvrtcProgram, size_t*))                                                                 \
  X(nvrtcGetCUBIN, int (*)(nvrtcProgram, char*))                                                                       \
  X(nvrtcGetProgramLogSize, int (*)(nvrtcProgram, size_t*))                                                            \
  X(nvrtcGetProgramLog, int (*)(nvrtcProgram, char*))                                                                  \
  X(nvrtcGetErrorString, const char* (*)(int))

struct Nvrtc::Api {
#define GQA_POINTER(name, ...) std::type_identity_t<__VA_ARGS__> name = nullptr;
  GQA_NVRTC_SYMBOLS(GQA_POINTER)
#undef GQA_POINTER
};

namespace {

namespace fs = std::filesystem;

constexpr int kOldestVersion = 12000;   // 12.0: the first to know sm_90a
constexpr int kCachingVersion = 12090;  // 12.9: the first to keep what it has compiled, without its log

std::vector<std::string> options() {
  return {"--std=c++17", "--ptxas-options=-v", "--no-source-include", "--device-as-default-execution-space"};
}

// NVRTC opens its builtins by their bare name when it compiles first, and the loader looks for that in its own places
// only: NVIDIA's wheels and toolkits give no RUNPATH. What is loaded already is found by its name, so they are loaded
// from beside NVRTC first, in exactly its version: others may lie there. Where there are none the loader may know them.
void load_builtins(const std::string& nvrtc_file, const std::string& version) {
  std::error_code ignored;
  for (const fs::path& file : {fs::path(nvrtc_file), fs::canonical(nvrtc_file, ignored)}) {  // the latter: of a link
    const fs::path builtins = file.parent_path() / ("libnvrtc-builtins.so." + version);
    std::string why;
    if (fs::exists(builtins, ignored) && DynamicLibrary::open(builtins, &why) != nullptr) return;
  }
}

template <typename Size, typename Get>
std::string read_text(Size size, Get get, nvrtcProgram program) {
  size_t bytes = 0;
  if (size(program, &bytes) != 0 || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (get(program, text.data()) != 0) return {};
  return text;
}

void drop_terminator(std::string* text) {
  if (!text->empty() && text->back() == '\0') text->pop_back();
}

std::string join(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

}  // namespace

std::string Nvrtc::options_text() { return join(options(), " "); }

std::string Nvrtc::version_text() const {
  return std::to_string(facts_.version / 1000) + "." + std::to_string(facts_.version % 1000 / 10);
}

std::shared_ptr<const Nvrtc> Nvrtc::from_file(const std::string& file, std::string* why) {
  auto library = DynamicLibrary::open(file, why);
  if (library == nullptr) return nullptr;
  auto api = std::make_shared<Api>();
  bool complete = true;
#define GQA_RESOLVE(name, ...)                                               \
  api->name = reinterpret_cast<decltype(api->name)>(library->symbol(#name)); \
  complete = complete && api->name != nullptr;
  GQA_NVRTC_SYMBOLS(GQA_RESOLVE)
#undef GQA_RESOLVE
  int major = 0, minor = 0, count = 0;
  if (!complete || api->nvrtcVersion(&major, &minor) != 0 || 1000 * major + 10 * minor < kOldestVersion) {
    *why = "is older than NVRTC 12.0";
    return nullptr;
  }
  auto nvrtc = std::shared_ptr<Nvrtc>(new Nvrtc());
  nvrtc->facts_.version = 1000 * major + 10 * minor;
  if (api->nvrtcGetNumSupportedArchs(&count) == 0 && count > 0) {
    nvrtc->facts_.archs.resize(static_cast<size_t>(count));
    api->nvrtcGetSupportedArchs(nvrtc->facts_.archs.data());
  }
  nvrtc->path_ = library->path(reinterpret_cast<void*>(api->nvrtcVersion));
  load_builtins(nvrtc->path_, nvrtc->version_text());
  nvrtc->library_ = std::move(library);
  nvrtc->api_ = std::move(api);
  return nvrtc;
}

std::string Nvrtc::does_not_know(const std::string& arch) const {
  std::string known;
  for (const int number : facts_.archs) known += (known.empty() ? "sm_" : ", sm_") + std::to_string(number);
  return "NVRTC " + version_text() + " does not know " + arch + ", only " + known;
}

// What was given must work: falling through to another NVRTC would hide the mistake.
Status Nvrtc::load_given(const std::string& path, const NvrtcNeeds& needs, std::shared_ptr<const Nvrtc>* nvrtc) {
  std::string why;
  for (const std::string& file : nvrtc_files_of(path)) {
    const std::shared_ptr<const Nvrtc> found = from_file(file, &why);
    if (found == nullptr) continue;
    if (fit_of(found->facts_, needs, true) != NvrtcFit::kNever) {
      *nvrtc = found;
      return {};
    }
    why = found->does_not_know(needs.arch);
    break;
  }
  return {Code::kNoCompiler, "NVRTC could not be taken from '" + path + "': " + why +
                                 "; give another libnvrtc.so file or its folder, or leave the path out to search"};
}

// One that the environment names and that is not there is a mistake, too. One that does not know the architecture is
// none: another may.
Status Nvrtc::check_loads(const std::string& path) {
  std::string why;
  for (const std::string& file : nvrtc_files_of(path))
    if (from_file(file, &why) != nullptr) return {};
  return {Code::kNoCompiler, "GQA_NVRTC names '" + path + "', which cannot be loaded: " + why +
                                 "; point it at a libnvrtc.so file or its folder, or unset it to search"};
}

Status Nvrtc::load(const std::string& explicit_path, const NvrtcNeeds& needs, std::shared_ptr<const Nvrtc>* nvrtc) {
  nvrtc->reset();
  if (!explicit_path.empty()) return load_given(explicit_path, needs, nvrtc);
  const std::string named = environment("GQA_NVRTC");
  if (Status status = named.empty() ? Status() : check_loads(named); !status.ok()) return status;
  std::vector<std::string> files = nvrtc_files_of(named), tried;
  const std::size_t given = files.size();
  for (const std::string& file : nvrtc_search_order()) files.push_back(file);
  std::error_code ignored;
  for (std::size_t at = 0; at < files.size(); ++at) {
    if (files[at].find('/') != std::string::npos && !fs::exists(files[at], ignored)) continue;
    std::string why;
    const std::shared_ptr<const Nvrtc> found = from_file(files[at], &why);
    const NvrtcFit fit = found == nullptr ? NvrtcFit::kNever : fit_of(found->facts_, needs, at < given);
    if (fit != NvrtcFit::kNever && (fit == NvrtcFit::kTake || *nvrtc == nullptr)) *nvrtc = found;
    if (fit == NvrtcFit::kTake) return {};
    if (fit == NvrtcFit::kNever)
      tried.push_back(files[at] + " (" + (found == nullptr ? why : found->does_not_know(needs.arch)) + ")");
  }
  if (*nvrtc != nullptr) return {};
  return {Code::kNoCompiler, "no NVRTC " + (needs.arch.empty() ? "" : "for " + needs.arch + " ") + "was found (tried " +
                                 (tried.empty() ? "every known place" : join(tried, ", ")) +
                                 "); install one with 'pip install -U nvidia-cuda-nvrtc', or point GQA_NVRTC at " +
                                 "libnvrtc.so"};
}

Status Nvrtc::compile(const std::string& source, const std::string& arch, Compiled* compiled) const {
  std::vector<const char*> names, texts, arguments;
  for (const EmbeddedHeader& header : embedded_headers()) {
    names.push_back(header.name.c_str());
    texts.push_back(header.text.c_str());
  }
  std::vector<std::string> flags = options();
  flags.push_back("--gpu-architecture=" + arch);
  // Registers and spills are read from the log.
  if (facts_.version >= kCachingVersion) flags.push_back("--no-cache");
  for (const std::string& flag : flags) arguments.push_back(flag.c_str());

  nvrtcProgram program = nullptr;
  int error = api_->nvrtcCreateProgram(&program, source.c_str(), "gqa.cu", static_cast<int>(names.size()), texts.data(),
                                       names.data());
  if (error != 0) return {Code::kInternal, std::string("nvrtcCreateProgram: ") + api_->nvrtcGetErrorString(error)};
  error = api_->nvrtcCompileProgram(program, static_cast<int>(arguments.size()), arguments.data());
  compiled->log = read_text(api_->nvrtcGetProgramLogSize, api_->nvrtcGetProgramLog, program);
  drop_terminator(&compiled->log);
  if (error == 0) {
    compiled->ptx = read_text(api_->nvrtcGetPTXSize, api_->nvrtcGetPTX, program);
    drop_terminator(&compiled->ptx);
    compiled->cubin = read_text(api_->nvrtcGetCUBINSize, api_->nvrtcGetCUBIN, program);
  }
  api_->nvrtcDestroyProgram(&program);
  if (error != 0)
    return {Code::kNoCompiler, "NVRTC " + version_text() + " did not compile for " + arch + ": " +
                                   first_error(compiled->log, api_->nvrtcGetErrorString(error))};
  const PtxasReport report = read_ptxas_report(compiled->log);
  compiled->registers = report.registers;
  compiled->spill_bytes = report.spill_bytes;
  compiled->static_smem = report.static_smem;
  return {};
}

}  // namespace gqa
