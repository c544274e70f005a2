// file.cc: opening with its fallbacks, and healing.
// Owns: see file.h.
// Never: writes to or moves a file that is newer, not ours, or writable by others; nor has SQLite look beside one.
// Threads: see file.h; the private functions expect the mutex.
#include "cache/file/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cache/file/guard.h"
#include "cache/file/sidecars.h"

namespace gqa::cache {
namespace {

constexpr std::size_t kMostWarnings = 64;
constexpr const char *kDamaged = "damaged", *kOlder = "older";  // what is set aside, and part of its new name
const std::string kLocked = "another process has kept the folder locked for seconds: ";

const char* name(Mode mode) {
  if (mode == Mode::kReadWrite) return "read-write";
  return mode == Mode::kReadOnly ? "read-only" : "off";
}

bool is_ours(const Inspection& found) { return found.verdict != Verdict::kForeign && found.verdict != Verdict::kNewer; }

// What kind of file a path that is refused leads to; "" if it may be a cache, or cannot be read.
std::string foreign_kind(const std::string& path) {
  if (!file_id(path) || !not_a_file(path).empty()) return "";
  try {
    Database db(path, Database::Open::kReadOnly);
    const Inspection found = look(db);
    return found.verdict == Verdict::kForeign ? found.why : "";
  } catch (const Error&) {
    return "";
  }
}

// A mode without write bits is somebody's wish, and root has to be told of it.
std::string write_protection(const std::string& path) {
  struct stat at;
  const bool writable = stat(path.c_str(), &at) != 0 || (at.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) != 0;
  return writable ? "" : "its mode says that it is not to be written: chmod u+w " + path;
}

// Nobody may write it, and nobody has it open for that.
bool is_at_rest(const std::string& path) { return !write_protection(path).empty() && any_sidecar(path).empty(); }

// An empty file of this user's is as good as none: nothing is in it, and mktemp makes such.
std::string empty_complaint(const std::string& path) {
  struct stat at;
  if (stat(path.c_str(), &at) != 0) return "it is gone";
  if (at.st_uid != geteuid()) return "it is an empty file of user " + std::to_string(at.st_uid);
  return at.st_size == 0 ? "" : "it is a file of " + std::to_string(at.st_size) + " bytes";
}

}  // namespace

File::File(std::string path, Mode asked) : asked_path_(std::move(path)), asked_(asked) {
  const std::lock_guard hold(mutex_);
  open();
}

File::~File() {
  const std::lock_guard hold(mutex_);
  close();
}

void File::open() {
  mode_ = Mode::kOff;
  why_.clear();
  try {
    if (asked_ != Mode::kOff) open_asked();
  } catch (const std::exception& error) {
    go_off("cannot open " + path_ + ": " + error.what());
  }
}

void File::open_asked() {
  path_ = resolved(asked_path_);
  if (path_.ends_with('/')) return go_off(path_ + " names a folder; expected a file's path");
  if (asked_ == Mode::kReadWrite) {
    if (const std::string why = make_folders(path_); !why.empty()) return go_off(why);
  }
  if (!file_id(path_) && asked_ == Mode::kReadOnly) return go_off("there is no file " + path_);
  Opened opened = file_id(path_) ? open_under(FolderLock::Kind::kShared) : Opened::kNeedsExclusive;
  // Twice: the second time is for a file that turned out damaged and was moved away the first time.
  for (int i = 0; i < 2 && opened == Opened::kNeedsExclusive; ++i) opened = open_under(FolderLock::Kind::kExclusive);
  if (opened == Opened::kNeedsExclusive) go_off("cannot begin a new file " + path_);
}

File::Opened File::open_under(FolderLock::Kind kind) {
  const FolderLock lock(path_, kind);
  if (!lock.held() && kind == FolderLock::Kind::kExclusive) return go_off(kLocked + path_), Opened::kNo;
  if (!present_and_trusted()) return Opened::kNo;
  id_ = file_id(path_);
  pid_ = getpid();
  if (asked_ == Mode::kReadOnly) return connect_for_reading("");
  if (const std::string why = write_protection(path_); !why.empty()) return connect_for_reading(why);
  const Opened opened = connect_for_writing(kind);
  if (opened != Opened::kYes) return opened;
  // Once more, now that SQLite has made or found what it keeps beside the file.
  const std::string why = guard_complaint(path_);
  if (why.empty()) return Opened::kYes;
  go_off(why);
  return Opened::kNo;
}

bool File::present_and_trusted() {
  std::string why = guard_complaint(asked_path_);
  if (!why.empty()) {
    // Where it is no cache anyway, that is what its owner wants to know.
    if (const std::string kind = foreign_kind(path_); !kind.empty())
      why = left_untouched(path_, kind) + " (" + why + ")";
  } else if (asked_ == Mode::kReadWrite && !file_id(path_)) {
    why = sidecar_complaint(path_, Beside::kNothing);
    if (why.empty()) why = make_file(path_);
  }
  if (!why.empty()) go_off(why);
  return why.empty();
}

// Whose file db_ has open, and whose lie beside it. False if SQLite must not see them: then off.
bool File::may_be_asked(Inspection* found) {
  *found = look(*db_);
  std::string why;
  if (found->verdict == Verdict::kForeign) {
    why = left_untouched(path_, found->why);
  } else if (found->verdict == Verdict::kNewer) {
    why = path_ + " is left untouched: " + found->why + "; expected a gqa cache of schema " +
          std::to_string(kSchemaVersion) + ": use a newer gqa, or another path";
  } else {
    why = sidecar_complaint(path_, found->verdict == Verdict::kEmpty ? Beside::kNothing : Beside::kOurFile);
  }
  if (!why.empty()) go_off(why);
  return why.empty();
}

File::Opened File::connect_for_writing(FolderLock::Kind kind) {
  try {
    db_ = std::make_unique<Database>(path_, Database::Open::kReadWrite);
    if (file_id(path_) != id_) return close(), Opened::kNeedsExclusive;  // replaced since it was judged
    Inspection found;
    if (!may_be_asked(&found)) return Opened::kNo;
    if (db_->read_only()) return connect_for_reading("the file cannot be written");
    if (found.verdict == Verdict::kOurs) found = inspect(*db_);
    if (found.verdict == Verdict::kDamaged) return unusable(kind, kDamaged, found.why);
    if (found.verdict == Verdict::kOlder) return unusable(kind, kOlder, found.why);
    if (found.verdict == Verdict::kEmpty) {
      if (kind == FolderLock::Kind::kShared) return close(), Opened::kNeedsExclusive;
      if (const std::string why = empty_complaint(path_); !why.empty()) {
        go_off(left_untouched(path_, why));
        return Opened::kNo;
      }
      create_schema(*db_);
    }
    use_wal(*db_);
    mode_ = Mode::kReadWrite;
    return Opened::kYes;
  } catch (const Error& error) {
    if (error.fault() == Fault::kDamaged) return unusable(kind, kDamaged, error.what());
    if (error.fault() != Fault::kReadOnly && error.fault() != Fault::kFull) throw;
    return connect_for_reading(error.what());
  }
}

File::Opened File::connect_for_reading(const std::string& why_not_writing) {
  std::string why;
  for (const auto how : {Database::Open::kReadOnly, Database::Open::kImmutable}) {
    // SQLite begins a "-wal" beside even what it may only read. Where nobody writes there is no need for one.
    if (how == Database::Open::kReadOnly && is_at_rest(path_)) continue;
    try {
      db_ = std::make_unique<Database>(path_, how);
      Inspection found;
      if (!may_be_asked(&found)) return Opened::kNo;
      if (found.verdict == Verdict::kOurs) found = inspect(*db_);
      if (found.verdict == Verdict::kOurs) {
        mode_ = Mode::kReadOnly;
        if (why_not_writing.empty()) return Opened::kYes;
        why_ = why_not_writing;
        warn("the cache " + path_ + " is read-only, nothing new will be kept: " + why_);
        return Opened::kYes;
      }
      why = found.verdict == Verdict::kEmpty ? "it is an empty file" : found.why;
      break;
    } catch (const Error& error) {
      why = error.what();
    }
  }
  if (!why_not_writing.empty()) why += "; and " + why_not_writing;
  go_off("cannot read " + path_ + ": " + why);
  return Opened::kNo;
}

File::Opened File::unusable(FolderLock::Kind kind, const char* state, const std::string& what) {
  if (kind == FolderLock::Kind::kShared) return close(), Opened::kNeedsExclusive;
  move_away(state, what);
  return why_.empty() ? Opened::kNeedsExclusive : Opened::kNo;
}

// With the folder locked exclusively. "" if somebody else had moved it already, or if it failed (then off).
std::string File::move_away(const char* state, const std::string& what) {
  std::string why = not_ours();
  if (db_) db_->forget_path();
  db_.reset();
  if (!why.empty()) return go_off(left_untouched(path_, why)), "";
  const std::string name = id_ ? set_aside(path_, *id_, state, &why) : "";
  const std::string cache = "the cache " + path_ + " is " + state + " (" + what + ")";
  if (!name.empty()) warn(cache + ": set aside as " + name + ", a new one begun");
  if (!why.empty()) go_off(cache + " and cannot be set aside: " + why);
  return name;
}

// "", or what db_ has open by now, if somebody wrote another file over ours.
std::string File::not_ours() const {
  if (!db_) return "it cannot be opened";
  try {
    const Inspection found = look(*db_);
    return is_ours(found) ? "" : found.why;
  } catch (const Error& error) {
    return std::string("it cannot be read: ") + error.what();
  }
}

bool File::ready() {
  if (!db_) return false;
  if (pid_ != getpid()) {
    db_->abandon();
    db_.reset();
    open();
  } else if (file_id(path_) != id_) {
    // Set aside by another process, or removed by hand: what we have open has no name any more.
    close();
    open();
  } else if (const Inspection found = look(*db_); !is_ours(found)) {
    go_off(left_untouched(path_, found.why));  // somebody wrote another file over it
  }
  return db_ != nullptr;
}

bool File::heal(const char* doing, const std::exception& error) {
  const auto* sql = dynamic_cast<const Error*>(&error);
  if (!sql || sql->fault() != Fault::kDamaged || mode_ != Mode::kReadWrite) {
    warn(std::string("the cache ") + path_ + " could not " + doing + ": " + error.what());
    return false;
  }
  replace_locked(error.what());
  return db_ != nullptr;
}

std::string File::replace(const std::string& why) {
  const std::lock_guard hold(mutex_);
  return db_ && mode_ == Mode::kReadWrite ? replace_locked(why) : "";
}

std::string File::replace_locked(const std::string& why) {
  std::string name;
  {
    const FolderLock lock(path_, FolderLock::Kind::kExclusive);
    if (lock.held())
      name = move_away(kDamaged, why);
    else
      go_off(kLocked + path_);
  }
  if (why_.empty()) open();
  return name;
}

// Under the folder's lock, so that nobody can move the file between the look and SQLite's own clean-up by name.
void File::close() {
  if (!db_) return;
  if (pid_ != getpid()) {
    db_->abandon();
  } else {
    const FolderLock lock(path_, FolderLock::Kind::kShared);
    if (file_id(path_) != id_ || !not_ours().empty()) db_->forget_path();
    db_.reset();
  }
  db_.reset();
}

void File::go_off(const std::string& why) {
  if (db_) db_->forget_path();
  db_.reset();
  mode_ = Mode::kOff;
  why_ = given(why);
  warn("the cache is off, nothing is kept: " + why_);
}

// Names what was given, where a link leads to what is complained of.
std::string File::given(const std::string& why) const {
  std::error_code error;
  const bool link = std::filesystem::is_symlink(asked_path_, error);
  return link && why.find(asked_path_) == std::string::npos ? why + "; the link " + asked_path_ + " leads there" : why;
}

Mode File::mode() {
  const std::lock_guard hold(mutex_);
  return mode_;
}

std::string File::mode_text() {
  const std::lock_guard hold(mutex_);
  return why_.empty() ? name(mode_) : std::string(name(mode_)) + " (" + why_ + ")";
}

std::string File::path() {
  const std::lock_guard hold(mutex_);
  return mode_ == Mode::kOff ? "" : path_;
}

void File::warn(const std::string& text) {
  const std::lock_guard hold(warnings_mutex_);
  // A full disk fails every put the same way: said once is enough, and nobody may be listening at all.
  if (std::find(warnings_.begin(), warnings_.end(), text) != warnings_.end()) return;
  if (warnings_.size() == kMostWarnings) warnings_.pop_front();
  warnings_.push_back(text);
}

std::vector<std::string> File::take_warnings() {
  const std::lock_guard hold(warnings_mutex_);
  std::vector<std::string> taken(warnings_.begin(), warnings_.end());
  warnings_.clear();
  return taken;
}

}  // namespace gqa::cache
