// folder.cc: flock and rename.
// Owns: see folder.h. Threads: see folder.h.
#include "cache/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>

#include "cache/guard.h"

namespace gqa::cache {
namespace {

using std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience(5);
constexpr std::chrono::milliseconds kPause(2);

// True once locked. A filesystem without flock counts as locked: all that is lost is the exclusion of a rare race.
bool lock(int folder, int operation) {
  const auto end = steady_clock::now() + kPatience;
  while (flock(folder, operation | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return true;
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

std::string free_name(const std::string& path) {
  const std::string base = path + ".damaged-" + std::to_string(std::time(nullptr));
  std::string name = base;
  for (int n = 1; file_id(name); ++n) name = base + "." + std::to_string(n);
  return name;
}

}  // namespace

FolderLock::FolderLock(const std::string& file_path, Kind kind) {
  const auto folder = std::filesystem::path(file_path).parent_path();
  folder_ = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  held_ = folder_ < 0 || lock(folder_, kind == Kind::kShared ? LOCK_SH : LOCK_EX);
}

FolderLock::~FolderLock() {
  if (folder_ < 0) return;
  flock(folder_, LOCK_UN);  // explicitly: a child forked meanwhile holds a copy of the descriptor
  close(folder_);
}

std::optional<FileId> file_id(const std::string& path) {
  struct stat at;
  if (stat(path.c_str(), &at) != 0) return std::nullopt;
  return FileId{at.st_dev, at.st_ino};
}

std::string set_aside(const std::string& path, const FileId& damaged, std::string* why) {
  why->clear();
  if (file_id(path) != damaged) return "";
  const std::string name = free_name(path);
  // The sidecars first: a new file must never meet an old "-wal".
  for (const char* sidecar : kSidecars) std::rename((path + sidecar).c_str(), (name + sidecar).c_str());
  if (std::rename(path.c_str(), name.c_str()) == 0) return name;
  *why = std::strerror(errno);
  return "";
}

}  // namespace gqa::cache
