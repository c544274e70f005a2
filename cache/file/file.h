// file.h: the one connection, and keeping it usable whatever happens to the file.
// Owns: opening (guard, schema, fallbacks), the mutex, healing (set a damaged file aside, follow a replaced one, start
// over after a fork), the mode, and the warnings.
// Never: knows rows. Never throws to its caller: run() gives the fallback instead.
// Threads: any; one body at a time, under the mutex.
#pragma once

#include <sys/types.h>

#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/file/database.h"
#include "cache/file/folder.h"
#include "cache/schema.h"
#include "cache/store.h"

namespace gqa::cache {

class File {
 public:
  File(std::string path, Mode asked);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // What body(database, writable) returns; `fallback` if there is no file or it failed (then a warning names `doing`).
  // A body that finds the file damaged throws; the file is set aside, and the body runs once more on a new one. So a
  // body starts from nothing each time.
  template <class T, class Body>
  T run(const char* doing, T fallback, Body&& body) {
    const std::lock_guard hold(mutex_);
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        if (!ready()) return fallback;
        return body(*db_, mode_ == Mode::kReadWrite);
      } catch (const std::exception& error) {
        if (!heal(doing, error)) return fallback;
      }
    }
    return fallback;
  }

  Mode mode();
  std::string mode_text();  // with why, if it is not what was asked for
  std::string path();       // "" when off
  void warn(const std::string& text);
  std::vector<std::string> take_warnings();

  // Moves the file away, whatever its state, and begins a new one; the name it got, or "". One that is not ours by now
  // stays.
  std::string replace(const std::string& why);

 private:
  enum class Opened { kYes, kNeedsExclusive, kNo };
  void open();
  void open_asked();
  Opened open_under(FolderLock::Kind kind);
  bool present_and_trusted();
  bool may_be_asked(Inspection* found);
  Opened connect_for_writing(FolderLock::Kind kind);
  Opened connect_for_reading(const std::string& why_not_writing);
  Opened unusable(FolderLock::Kind kind, const char* state, const std::string& what);
  bool ready();
  bool heal(const char* doing, const std::exception& error);
  std::string replace_locked(const std::string& why);
  std::string move_away(const char* state, const std::string& what);
  std::string not_ours() const;
  void close();
  void go_off(const std::string& why);
  std::string given(const std::string& why) const;

  const std::string asked_path_;
  const Mode asked_;
  std::string path_;
  std::mutex mutex_;           // guards everything below
  std::mutex warnings_mutex_;  // taken last
  Mode mode_ = Mode::kOff;
  std::string why_;  // of a mode that was not asked for
  std::unique_ptr<Database> db_;
  std::optional<FileId> id_;  // of the file db_ has open
  pid_t pid_ = 0;             // that opened it
  std::deque<std::string> warnings_;
};

}  // namespace gqa::cache
