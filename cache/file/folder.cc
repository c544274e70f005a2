// folder.cc: flock and rename.
// Owns: see folder.h.
// Threads: see folder.h.
#include "cache/file/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>

#include "cache/file/sidecars.h"

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

bool is_taken(const std::string& name) {
  struct stat at;
  return lstat(name.c_str(), &at) == 0;
}

std::string free_name(const std::string& path, const char* state) {
  const std::string base = path + "." + state + "-" + std::to_string(std::time(nullptr));
  std::string name = base;
  for (int n = 1; is_taken(name) || !any_sidecar(name).empty(); ++n) name = base + "." + std::to_string(n);
  return name;
}

void rename_sidecars(const std::string& from, const std::string& to) {
  for (const char* sidecar : kSidecars) rename_to_new(from + sidecar, to + sidecar);
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

bool rename_to_new(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // Not every filesystem knows how.
  if (is_taken(to)) return errno = EEXIST, false;
  return std::rename(from.c_str(), to.c_str()) == 0;
}

std::string set_aside(const std::string& path, const FileId& file, const char* state, std::string* why) {
  why->clear();
  if (file_id(path) != file) return "";
  const std::string name = free_name(path, state);
  // The sidecars first: a new file must never meet an old "-wal".
  rename_sidecars(path, name);
  const bool renamed = rename_to_new(path, name);
  if (!renamed) *why = std::strerror(errno);
  if (renamed && file_id(name) == file) return name;
  // Somebody who takes no locks put another file there in that moment: it goes back.
  if (renamed && !rename_to_new(name, path)) *why = "what lay there by then is now " + name;
  rename_sidecars(name, path);
  return "";
}

}  // namespace gqa::cache
