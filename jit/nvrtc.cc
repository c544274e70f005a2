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

constexpr int kOldestVersion = 12000;   // 12.0: the first to know sm_90a
constexpr int kCachingVersion = 12090;  // 12.9: the first to keep what it has compiled, without its log

std::vector<std::string> options() {
  return {"--std=c++17", "--ptxas-options=-v", "--no-source-include", "--device-as-default-execution-space"};
}

// libnvrtc's possible file names, newest first.
const std::vector<std::string>& file_names() {
  static const std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  return names;
}

void add_folder(const std::string& folder, std::vector<std::string>* files) {
  for (const std::string& name : file_names()) files->push_back(folder + "/" + name);
}

void add_given(const std::string& path, std::vector<std::string>* files) {
  std::error_code ignored;
  if (path.empty()) return;
  if (std::filesystem::is_directory(path, ignored))
    add_folder(path, files);
  else
    files->push_back(path);
}

// NVIDIA's wheels, seen from a package in site-packages or from a command in a virtual environment's bin.
void add_wheels(const std::string& own, std::vector<std::string>* files) {
  std::vector<std::string> sites = {own + "/.."};
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(own + "/../lib", ignored))
    if (entry.path().filename().string().rfind("python3", 0) == 0)
      sites.push_back(entry.path().string() + "/site-packages");
  for (const std::string& site : sites) {
    add_folder(site + "/nvidia/cu13/lib", files);
    add_folder(site + "/nvidia/cuda_nvrtc/lib", files);
  }
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
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
  return std::to_string(version_ / 1000) + "." + std::to_string(version_ % 1000 / 10);
}

std::vector<std::string> Nvrtc::search_order(const std::string& explicit_path) {
  std::vector<std::string> files;
  add_given(explicit_path, &files);
  add_given(environment("GQA_NVRTC"), &files);
  const std::string own = own_folder();
  add_folder(own, &files);
  add_wheels(own, &files);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string root = environment(variable); !root.empty()) add_folder(root + "/lib64", &files);
  add_folder("/usr/local/cuda/lib64", &files);
  files.insert(files.end(), file_names().begin(), file_names().end());
  return files;
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
  nvrtc->version_ = 1000 * major + 10 * minor;
  if (api->nvrtcGetNumSupportedArchs(&count) == 0 && count > 0) {
    nvrtc->archs_.resize(static_cast<size_t>(count));
    api->nvrtcGetSupportedArchs(nvrtc->archs_.data());
  }
  nvrtc->path_ = library->path(reinterpret_cast<void*>(api->nvrtcVersion));
  nvrtc->library_ = std::move(library);
  nvrtc->api_ = std::move(api);
  return nvrtc;
}

Status Nvrtc::load(const std::string& explicit_path, std::shared_ptr<const Nvrtc>* nvrtc) {
  // A path that was given must work: falling through to another NVRTC would hide the mistake.
  if (!explicit_path.empty()) {
    std::vector<std::string> given;
    std::string why;
    add_given(explicit_path, &given);
    for (const std::string& file : given)
      if ((*nvrtc = from_file(file, &why)) != nullptr) return {};
    return {Code::kNoCompiler, "NVRTC could not be loaded from '" + explicit_path + "': " + why +
                                   "; give the libnvrtc.so file or its folder, or leave the path out to search"};
  }
  std::vector<std::string> tried;
  std::error_code ignored;
  for (const std::string& file : search_order(explicit_path)) {
    if (file.find('/') != std::string::npos && !std::filesystem::exists(file, ignored)) continue;
    std::string why;
    if ((*nvrtc = from_file(file, &why)) != nullptr) return {};
    tried.push_back(file + " (" + why + ")");
  }
  return {Code::kNoCompiler,
          "no NVRTC was found (tried " + (tried.empty() ? "every known place" : join(tried, ", ")) +
              "); install it with 'pip install nvidia-cuda-nvrtc', or point GQA_NVRTC at libnvrtc.so"};
}

bool Nvrtc::supports(const std::string& arch) const {
  const int number = std::atoi(arch.substr(std::min<size_t>(3, arch.size())).c_str());
  return std::find(archs_.begin(), archs_.end(), number) != archs_.end();
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
  if (version_ >= kCachingVersion) flags.push_back("--no-cache");
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
