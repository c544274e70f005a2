// nvrtc_search.cc: see nvrtc_search.h.
#include "jit/nvrtc_search.h"

#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "jit/dynamic_library.h"

namespace gqa {
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
constexpr const char* kWheels[] = {"/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib"};
constexpr const char* kPackageFolders[] = {"site-packages", "dist-packages"};  // the second is Debian's word

void add_folder(const std::string& folder, Texts* files) {
  for (const char* name : kNames) files->push_back(folder + "/" + name);
}

void add_site(const std::string& site, Texts* files) {
  for (const char* wheel : kWheels) add_folder(site + wheel, files);
}

// The folders of Python packages below a prefix such as /usr/local or a virtual environment, in a fixed order.
void add_prefix(const std::string& prefix, Texts* files) {
  Texts sites;
  for (const char* lib : {"/lib", "/lib64"}) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(prefix + lib, ignored)) {
      if (entry.path().filename().string().rfind("python3", 0) != 0) continue;
      for (const char* packages : kPackageFolders) sites.push_back(entry.path() / packages);
    }
  }
  std::sort(sites.begin(), sites.end());
  for (const std::string& site : sites) add_site(site, files);
}

// The folders of Python packages that what this process has loaded lies in.
int add_loaded(dl_phdr_info* info, std::size_t, void* sites) {
  const std::string file = info->dlpi_name != nullptr ? info->dlpi_name : "";
  for (const std::string packages : kPackageFolders) {
    const auto at = file.find("/" + packages + "/");
    if (at != std::string::npos) static_cast<Texts*>(sites)->push_back(file.substr(0, at + 1) + packages);
  }
  return 0;
}

void add_elsewhere(Texts* files) {
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = environment(variable);
    if (prefix.empty()) continue;
    add_folder(prefix + "/lib", files);  // Conda's own package
    add_prefix(prefix, files);
  }
  Texts loaded;
  dl_iterate_phdr(add_loaded, &loaded);
  std::sort(loaded.begin(), loaded.end());
  loaded.erase(std::unique(loaded.begin(), loaded.end()), loaded.end());
  for (const std::string& site : loaded) add_site(site, files);
  if (const std::string user = environment("PYTHONUSERBASE"); !user.empty())
    add_prefix(user, files);
  else if (const std::string home = environment("HOME"); !home.empty())
    add_prefix(home + "/.local", files);
  for (const char* prefix : {"/usr/local", "/usr"}) add_prefix(prefix, files);
}

}  // namespace

std::vector<std::string> nvrtc_files_of(const std::string& path) {
  std::error_code ignored;
  if (path.empty()) return {};
  if (!fs::is_directory(path, ignored)) return {path};
  Texts files;
  add_folder(path, &files);
  return files;
}

std::vector<std::string> nvrtc_search_order() {
  Texts files;
  const std::string own = own_folder();
  add_folder(own, &files);
  add_site(own + "/..", &files);
  add_prefix(own + "/..", &files);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string root = environment(variable); !root.empty()) add_folder(root + "/lib64", &files);
  add_folder("/usr/local/cuda/lib64", &files);
  files.insert(files.end(), std::begin(kNames), std::end(kNames));
  add_elsewhere(&files);
  return files;
}

bool knows(const NvrtcFacts& facts, const std::string& arch) {
  const int number = std::atoi(arch.substr(std::min<std::size_t>(3, arch.size())).c_str());
  return std::find(facts.archs.begin(), facts.archs.end(), number) != facts.archs.end();
}

NvrtcFit fit_of(const NvrtcFacts& facts, const NvrtcNeeds& needs, bool given) {
  if (!needs.arch.empty() && !knows(facts, needs.arch)) return NvrtcFit::kNever;
  const bool newer = needs.driver > 0 && facts.version / 1000 > needs.driver / 1000;
  return newer && !given ? NvrtcFit::kIfNoOther : NvrtcFit::kTake;
}

}  // namespace gqa
