// guard.cc: stat, and opinions about it.
// Owns: see guard.h. Threads: see guard.h.
#include "cache/guard.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace gqa::cache {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
constexpr uid_t kUnmapped = 65534;  // an owner from outside this user namespace, e.g. "/" in a rootless container

std::string octal(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

bool ours_or_roots(uid_t owner) { return owner == geteuid() || owner == 0; }

std::string owner_complaint(const std::string& path, uid_t owner) {
  return path + " belongs to user " + std::to_string(owner) + ", who could put code into it; expected user " +
         std::to_string(geteuid()) + " or root: change its owner, or set GQA_CACHE to a path of your own";
}

std::string mode_complaint(const std::string& path, mode_t mode) {
  return path + " has mode " + octal(mode) + ", so other users can put code into it: chmod go-w " + path;
}

// Links are judged themselves and not followed: in a sticky folder anybody may plant one.
std::string file_complaint(const std::string& path) {
  struct stat at;
  if (lstat(path.c_str(), &at) != 0) return "";
  if (!ours_or_roots(at.st_uid)) return owner_complaint(path, at.st_uid);
  if (S_ISLNK(at.st_mode)) return "";
  if (!S_ISREG(at.st_mode)) return path + " is not a file; expected an SQLite file or nothing there";
  if (at.st_mode & kOthersWrite) return mode_complaint(path, at.st_mode);
  return "";
}

std::string folder_complaint(const std::string& path, bool holds_the_file) {
  struct stat at;
  if (stat(path.c_str(), &at) != 0) return "";
  const bool unmapped_above = !holds_the_file && at.st_uid == kUnmapped;
  if (!ours_or_roots(at.st_uid) && !unmapped_above) return owner_complaint(path, at.st_uid);
  if ((at.st_mode & kOthersWrite) && !(at.st_mode & S_ISVTX)) return mode_complaint(path, at.st_mode);
  return "";
}

std::string failed(const char* what, const std::string& path, int error) {
  return std::string(what) + " " + path + ": " + std::strerror(error);
}

}  // namespace

std::string resolved(const std::string& path) {
  std::error_code error;
  const auto whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return error || whole.empty() ? path : whole.string();
}

std::string guard_complaint(const std::string& path) {
  if (std::string why = file_complaint(path); !why.empty()) return why;
  // A link's target is what will be opened; judge it where it lies.
  const std::filesystem::path target(resolved(path));
  if (std::string why = file_complaint(target.string()); !why.empty()) return why;
  for (const char* sidecar : kSidecars) {
    if (std::string why = file_complaint(target.string() + sidecar); !why.empty()) return why;
  }
  bool nearest = true;
  for (std::filesystem::path folder = target.parent_path();; folder = folder.parent_path()) {
    if (std::string why = folder_complaint(folder.string(), nearest); !why.empty()) return why;
    nearest = false;
    if (folder == folder.root_path() || folder.empty()) return "";
  }
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
