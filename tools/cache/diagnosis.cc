// diagnosis.cc: see diagnosis.h.
#include "tools/cache/diagnosis.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "cache/layer_paths.h"
#include "runtime/cuda/driver/probe.h"
#include "runtime/workload/attention_workload.h"
#include "tools/cache/errors.h"

namespace gqa::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMendNvrtc = "pip install nvidia-cuda-nvrtc, or GQA_NVRTC=/path/to/libnvrtc.so";
constexpr const char* kMendDriver =
    "install NVIDIA's driver (nvidia-smi then lists the GPU); in a container: docker run --gpus all";
constexpr const char* kMendCache = "GQA_CACHE=PATH, or --db PATH, of a file that this user may write";

std::string user_name(uid_t id) {
  const passwd* user = getpwuid(id);
  return user != nullptr ? user->pw_name : "user " + std::to_string(id);
}

// Whether a file can be begun there: by the folder, or by the nearest one above it that exists.
bool can_begin(const std::string& path) {
  std::error_code error;
  fs::path folder = fs::absolute(path, error).parent_path();
  while (!folder.empty() && !fs::exists(folder, error) && folder != folder.parent_path()) folder = folder.parent_path();
  return fs::is_directory(folder, error) && access(folder.c_str(), W_OK | X_OK) == 0;
}

// What the store says of it, opened alone and read-only.
void look_into(CacheFile* file) {
  cache::Store::Options options;
  options.path = cache::as_layer(file->path);
  options.mode = cache::Mode::kReadOnly;
  const std::unique_ptr<cache::Store> store = cache::Store::open(options);
  const cache::Stats stats = store->stats();
  const std::vector<std::string> warnings = store->take_warnings();
  file->winners = stats.winners;
  file->bytes = stats.file_bytes;
  if (!warnings.empty()) file->complaint = warnings.front();
}

CacheFile cache_file(const std::string& path, bool first) {
  CacheFile file;
  file.path = path;
  file.first = first;
  struct stat at = {};
  file.exists = stat(path.c_str(), &at) == 0;
  file.writable = file.exists ? access(path.c_str(), W_OK) == 0 && can_begin(path) : can_begin(path);
  if (!file.exists) {
    if (!first) file.complaint = "it is not there";
    return file;
  }
  file.owner = user_name(at.st_uid);
  look_into(&file);
  return file;
}

// A decode and a prefill of a model with 32 query heads and 8 of keys and values.
std::vector<FirstCall> typical_calls() {
  return {{"a decode on 4,096 keys", "b=1,hq=32,hk=8,sq=1,sk=4096,d=128", {}},
          {"a prefill of 2,048 tokens", "b=1,hq=32,hk=8,sq=2048,sk=2048,d=128,causal", {}}};
}

// The calls whose cost can be told; a store that cannot be read counts as empty.
std::vector<FirstCall> forecast(const Device& device, const std::string& db) {
  cache::Store::Options options;
  options.path = db;
  options.mode = cache::Mode::kReadOnly;
  const std::unique_ptr<cache::Store> store = cache::Store::open(options);
  std::vector<FirstCall> told;
  for (FirstCall& call : typical_calls()) {
    Problem problem;
    if (!parse(call.problem, &problem).ok()) continue;
    AttentionWorkload workload{Signature(problem)};
    Forecast forecast(device, *store, TunePolicy(), Forecast::Work::kTune);
    if (!forecast.add(workload).ok()) continue;
    call.outlook = forecast.outlook();
    told.push_back(call);
  }
  return told;
}

void look_at_device(const std::string& name, Diagnosis* made, std::unique_ptr<Device>* device) {
  made->driver = describe_driver();
  const Status status = open_device({name, 0, ""}, device);
  if (status.code() == Code::kOption) throw Usage(status.message());
  if (!status.ok()) {
    made->nvrtc = describe_nvrtc("");
    made->missing.push_back({status.message(), kMendDriver});
    return;
  }
  const DeviceSpec& spec = (*device)->spec();
  made->device = spec.identity();
  made->gpu = spec.kind == DeviceKind::kCuda;
  if (!made->gpu) {
    made->nvrtc = describe_nvrtc("");
  } else if (const Status found = find_nvrtc_for(spec.arch, &made->nvrtc); !found.ok()) {
    made->nvrtc = found.message();
    made->missing.push_back({"no NVRTC for " + spec.arch + ": only kernels that the cache holds can run", kMendNvrtc});
  }
}

void look_at_caches(const std::string& db, Diagnosis* made) {
  bool first = true;
  for (const std::string& path : cache::layer_paths(db)) {
    CacheFile& file = made->caches.emplace_back(cache_file(path, first));
    if (!file.complaint.empty()) made->missing.push_back({path + ": " + file.complaint, kMendCache});
    if (first && !file.writable)
      made->missing.push_back({path + " cannot be written: what is tuned is forgotten with the process", kMendCache});
    first = false;
  }
}

}  // namespace

Diagnosis diagnose(const std::string& device, const std::string& db) {
  Diagnosis made;
  std::unique_ptr<Device> opened;
  look_at_device(device, &made, &opened);
  look_at_caches(db, &made);
  if (opened != nullptr) made.first_calls = forecast(*opened, db);
  return made;
}

}  // namespace gqa::tools
