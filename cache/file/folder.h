// folder.h: names in the cache's folder: which file lies under ours, and moving one away without losing another.
// Owns: the folder's lock (flock on the folder itself, so there is no lock file), file identity, set_aside().
// Never: opens the database file: closing any descriptor of it would drop this process's SQLite locks.
// Threads: a FolderLock excludes other threads as well as other processes.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace gqa::cache {

// Held while a file is made, opened, closed or moved away: those look at more than one name at once.
class FolderLock {
 public:
  enum class Kind { kShared, kExclusive };
  FolderLock(const std::string& file_path, Kind kind);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  // False if somebody kept it for seconds (a stopped process). A folder that cannot be locked at all counts as held.
  bool held() const { return held_; }

 private:
  int folder_ = -1;
  bool held_ = false;
};

struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};
std::optional<FileId> file_id(const std::string& path);  // none if it is not there

// Renames, and never onto something. False, with errno, if it could not.
bool rename_to_new(const std::string& from, const std::string& to);

// Renames the file and its sidecars to <path>.<state>-<unix seconds>[.n], a name that nothing has; gives it, or "" with
// `why`. If another file lies there by now, somebody did it already: "" with an empty `why`, and that file stays. Call
// with the lock held exclusively.
std::string set_aside(const std::string& path, const FileId& file, const char* state, std::string* why);

}  // namespace gqa::cache
