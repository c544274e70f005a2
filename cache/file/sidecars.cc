// sidecars.cc: their first bytes.
// Owns: see sidecars.h.
// Threads: see sidecars.h.
#include "cache/file/sidecars.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "cache/file/kind.h"
#include "cache/file/origin.h"

namespace gqa::cache {
namespace {

constexpr std::size_t kJournalPagesAt = 16, kWalHeaderBytes = 32, kEnoughForAKind = 512;
constexpr std::string_view kShmVersion("\x18\xe2\x2d", 3);  // of the index of a write-ahead log, on all that we run on

// "" if it is not there or cannot be read: then SQLite cannot either. SQLite locks nothing in "-wal" and "-journal", so
// that closing another descriptor of them drops no lock; in "-shm" it does, but nobody of us has a file that is not
// there.
std::string first_bytes(const std::string& path, std::size_t most) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return "";
  std::string bytes(most, '\0');
  std::size_t size = 0;
  for (ssize_t got = 1; got > 0 && size < most; size += static_cast<std::size_t>(std::max<ssize_t>(0, got))) {
    got = ::read(file, bytes.data() + size, most - size);
  }
  close(file);
  bytes.resize(size);
  return bytes;
}

bool all_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

// Any log of a file of ours may be damaged; but what is plainly something else is not its log.
bool may_be_our_files(std::string_view bytes) {
  return bytes.empty() || bytes.starts_with(kWalMagic) || bytes.starts_with(kJournalMagic) || is_unknown_binary(bytes);
}

// A journal that is not in force begins with a zero: not synced yet, or over. One of a database that had no page yet
// has none to give back.
bool is_spent_journal(std::string_view bytes) {
  return bytes.starts_with('\0') || (bytes.starts_with(kJournalMagic) && header_word(bytes, kJournalPagesAt) == 0);
}

// Where there is no database SQLite deletes its logs: those must be ours, or empty of pages.
bool may_go(std::string_view sidecar, std::string_view bytes) {
  if (all_zero(bytes) || (sidecar == "-shm" && bytes.starts_with(kShmVersion))) return true;
  if (sidecar == "-journal" && is_spent_journal(bytes)) return true;
  return (bytes.starts_with(kWalMagic) && bytes.size() <= kWalHeaderBytes) || log_bears_our_mark(bytes);
}

}  // namespace

std::string sidecar_complaint(const std::string& path, Beside beside) {
  for (const char* sidecar : kSidecars) {
    const std::string name = path + sidecar;
    const bool shared_memory = std::string_view(sidecar) == "-shm";
    if (shared_memory && beside == Beside::kOurFile) continue;  // others have it open, and it holds nothing to lose
    const std::string bytes = first_bytes(name, beside == Beside::kOurFile ? kEnoughForAKind : kLogMarkBytes);
    if (beside == Beside::kOurFile ? may_be_our_files(bytes) : may_go(sidecar, bytes)) continue;
    return name + " is " + kind_of(bytes) + " that is not a gqa cache's, and SQLite would overwrite it";
  }
  return "";
}

std::string any_sidecar(const std::string& path) {
  for (const char* sidecar : kSidecars) {
    struct stat at;
    if (lstat((path + sidecar).c_str(), &at) == 0) return path + sidecar;
  }
  return "";
}

}  // namespace gqa::cache
