// export_file.cc: judging the name, and renaming.
// Owns: see export_file.h.
// Threads: see export_file.h.
#include "cache/export_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "cache/file/guard.h"
#include "cache/file/kind.h"
#include "cache/file/sidecars.h"
#include "cache/schema.h"

namespace gqa::cache {
namespace {

constexpr std::size_t kWriteVersionAt = 18;
constexpr char kWal = 2;
constexpr int kMostParts = 1000;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Fault::kOther, path + " is left untouched: " + why + "; expected a new name, or an older export");
}

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(Fault::kOther, "cannot write " + path + ": " + why);
}

std::optional<FileId> id_of_name(const std::string& path) {
  struct stat at;
  if (lstat(path.c_str(), &at) != 0) return std::nullopt;
  return FileId{at.st_dev, at.st_ino};
}

// An export is never in write-ahead mode, a cache always is where its filesystem can.
std::string older_complaint(const std::string& path, const struct stat& at) {
  Database older(path, Database::Open::kReadOnly);
  const Inspection found = look(older);
  if (found.verdict == Verdict::kEmpty && at.st_size == 0 && at.st_uid == geteuid()) return "";
  if (found.verdict == Verdict::kEmpty) return "it is an empty file of user " + std::to_string(at.st_uid);
  if (found.verdict != Verdict::kOurs) return found.why;
  return older.read(kWriteVersionAt + 1).back() == kWal ? "it is a gqa cache, not an export" : "";
}

std::string name_complaint(const std::string& path, const std::string& cache) {
  if (const std::string beside = any_sidecar(path); !beside.empty()) {
    return "beside it lies " + beside + ", so it is a database in use";
  }
  struct stat at;
  if (lstat(path.c_str(), &at) != 0) return "";
  if (!S_ISREG(at.st_mode)) return "it is " + kind_of(at);
  if (const std::string what = not_a_file(path); !what.empty()) return "it is " + what;
  if (id_of_name(path) == file_id(cache)) return "it is the cache itself";
  return older_complaint(path, at);
}

// Links above the name are followed, the name itself is not.
std::string in_resolved_folder(const std::string& path) {
  const std::filesystem::path name(path);
  const std::string folder = resolved(name.has_parent_path() ? name.parent_path().string() : ".");
  return (std::filesystem::path(folder) / name.filename()).string();
}

}  // namespace

ExportFile::ExportFile(const std::string& path, const std::string& cache)
    : given_(path), path_(in_resolved_folder(path)) {
  if (path_.ends_with('/')) refuse(given_, "it names a folder");
  older_ = id_of_name(path_);  // before the look: what is put there after this line is never taken for what was judged
  if (const std::string why = name_complaint(path_, cache); !why.empty()) refuse(given_, why);
  begin();
}

void ExportFile::begin() {
  for (int n = 0; n < kMostParts; ++n) {
    part_ = path_ + ".part-" + std::to_string(getpid()) + "-" + std::to_string(n);
    if (!any_sidecar(part_).empty()) continue;
    const int file = ::open(part_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file >= 0) return static_cast<void>(close(file));
    if (errno != EEXIST) break;
  }
  const std::string why = std::strerror(errno);
  part_.clear();
  fail(given_, why);
}

ExportFile::~ExportFile() {
  if (part_.empty()) return;
  unlink(part_.c_str());
  for (const char* sidecar : kSidecars) unlink((part_ + sidecar).c_str());
}

void ExportFile::publish() {
  const int file = ::open(part_.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = file >= 0 && fsync(file) == 0;
  if (file >= 0) close(file);
  if (!synced) fail(given_, std::strerror(errno));
  if (older_) return replace_older();
  if (!rename_to_new(part_, path_)) fail(given_, std::strerror(errno));
  part_.clear();
}

// They change places, so that whatever lies there by now is not lost: the older one goes, anything else goes back.
void ExportFile::replace_older() {
  if (renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
    if (id_of_name(part_) == older_) return;  // and the destructor removes it
    renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE);
    fail(given_, "another file was put there meanwhile");
  }
  // Not every filesystem knows how.
  const bool knows = errno != EINVAL && errno != ENOSYS;
  if (knows || id_of_name(path_) != older_ || std::rename(part_.c_str(), path_.c_str()) != 0) {
    fail(given_, knows || errno ? std::strerror(errno) : "another file was put there meanwhile");
  }
  part_.clear();
}

}  // namespace gqa::cache
