// guard.cc: stat, and opinions about it.
// Owns: see guard.h.
// Threads: see guard.h.
#include "cache/file/guard.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "cache/file/kind.h"
#include "cache/file/sidecars.h"

namespace gqa::cache {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
constexpr int kMostLinks = 40;
constexpr uid_t kUnmapped = 65534;  // an owner from outside this user namespace, e.g. "/" in a rootless container

// What the kernel shows of itself as files: writing there does things.
constexpr std::uint32_t kKernels[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC,    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
                                      DEBUGFS_MAGIC,    TRACEFS_MAGIC,  SECURITYFS_MAGIC,   SELINUX_MAGIC,
                                      PSTOREFS_MAGIC,   EFIVARFS_MAGIC, BPF_FS_MAGIC,       DEVPTS_SUPER_MAGIC};

bool is_the_kernels(const std::string& path) {
  struct statfs at;
  if (statfs(path.c_str(), &at) != 0) return false;
  return std::find(std::begin(kKernels), std::end(kKernels), static_cast<std::uint32_t>(at.f_type)) !=
         std::end(kKernels);
}

std::string octal(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

bool ours_or_roots(uid_t owner) { return owner == geteuid() || owner == 0; }

std::string owner_complaint(const std::string& path, const struct stat& at) {
  return path + " belongs to user " + std::to_string(at.st_uid) + ", who could put code into it; expected user " +
         std::to_string(geteuid()) + " or root: change its owner, or set GQA_CACHE to a path of your own" +
         (S_ISDIR(at.st_mode) ? "" : " (it is " + kind_of(at) + ")");
}

std::string mode_complaint(const std::string& path, mode_t mode) {
  return path + " has mode " + octal(mode) + ", so other users can put code into it: chmod go-w " + path;
}

// Links are judged themselves and not followed: in a sticky folder anybody may plant one.
std::string file_complaint(const std::string& path) {
  struct stat at;
  if (lstat(path.c_str(), &at) != 0) return "";
  if (!ours_or_roots(at.st_uid)) return owner_complaint(path, at);
  if (S_ISLNK(at.st_mode)) return "";
  if (const std::string what = not_a_file(path); !what.empty()) return left_untouched(path, "it is " + what);
  if (at.st_mode & kOthersWrite) return mode_complaint(path, at.st_mode);
  return "";
}

// SQLite makes no links and follows none.
std::string sidecar_file_complaint(const std::string& path) {
  struct stat at;
  if (lstat(path.c_str(), &at) == 0 && S_ISLNK(at.st_mode)) return left_untouched(path, "it is " + kind_of(at));
  return file_complaint(path);
}

std::string folder_complaint(const std::string& path, bool holds_the_file) {
  struct stat at;
  if (stat(path.c_str(), &at) != 0) return "";
  const bool unmapped_above = !holds_the_file && at.st_uid == kUnmapped;
  if (!ours_or_roots(at.st_uid) && !unmapped_above) return owner_complaint(path, at);
  if ((at.st_mode & kOthersWrite) && !(at.st_mode & S_ISVTX)) return mode_complaint(path, at.st_mode);
  return "";
}

std::string failed(const char* what, const std::string& path, int error) {
  return std::string(what) + " " + path + ": " + std::strerror(error);
}

}  // namespace

std::string resolved(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  std::error_code absent;
  // What is left of links at its end leads nowhere yet; a circle leads nowhere ever, and opening it will say so.
  for (int hop = 0; !error && hop < kMostLinks && fs::is_symlink(fs::symlink_status(whole, absent)); ++hop) {
    const fs::path target = fs::read_symlink(whole, error);
    if (!error) whole = fs::weakly_canonical(whole.parent_path() / target, error);
  }
  return error || whole.empty() ? path : whole.string();
}

std::string not_a_file(const std::string& path) {
  struct stat at;
  if (stat(path.c_str(), &at) != 0) return "";
  if (!S_ISREG(at.st_mode)) return kind_of(at);
  return is_the_kernels(path) ? "a file of the kernel's" : "";
}

std::string guard_complaint(const std::string& path) {
  if (std::string why = file_complaint(path); !why.empty()) return why;
  // A link's target is what will be opened; judge it where it lies.
  const std::filesystem::path target(resolved(path));
  if (std::string why = file_complaint(target.string()); !why.empty()) return why;
  for (const char* sidecar : kSidecars) {
    if (std::string why = sidecar_file_complaint(target.string() + sidecar); !why.empty()) return why;
  }
  bool nearest = true;
  for (std::filesystem::path folder = target.parent_path();; folder = folder.parent_path()) {
    if (std::string why = folder_complaint(folder.string(), nearest); !why.empty()) return why;
    nearest = false;
    if (folder == folder.root_path() || folder.empty()) return "";
  }
}

std::string left_untouched(const std::string& path, const std::string& why) {
  return path + " is left untouched: " + why + "; expected a gqa cache, or no file there: name another path";
}

std::string make_folders(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) return "";
  std::filesystem::path made;
  for (const auto& part : folder) {
    made /= part;
    if (mkdir(made.c_str(), 0700) == 0 || errno == EEXIST) continue;
    const int error = errno;
    std::error_code ignored;
    // A folder that is there may answer EROFS or EACCES instead of EEXIST.
    if (!std::filesystem::is_directory(made, ignored)) return failed("cannot make the folder", made.string(), error);
  }
  return "";
}

std::string make_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return errno == EEXIST ? "" : failed("cannot make", path, errno);
  close(file);
  return "";
}

}  // namespace gqa::cache
