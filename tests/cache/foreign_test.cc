// foreign_test.cc: somebody else's file, under the cache's name or an export's: named, and not touched.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <thread>

#include "cache/sidecars.h"
#include "support.h"

namespace gqa::cache {
namespace {

constexpr uid_t kOther = 12345;

// Everything in a folder: names, bytes and identities.
struct Entry {
  std::string name, bytes;
  ino_t inode;
  mode_t mode;
  timespec modified;
  bool operator==(const Entry& other) const {
    return name == other.name && bytes == other.bytes && inode == other.inode && mode == other.mode &&
           modified.tv_sec == other.modified.tv_sec && modified.tv_nsec == other.modified.tv_nsec;
  }
};
std::ostream& operator<<(std::ostream& out, const Entry& entry) {
  return out << entry.name << " (" << entry.bytes.size() << " bytes)";
}

std::vector<Entry> snapshot(const std::string& folder) {
  std::vector<Entry> entries;
  for (const std::string& path : files_in(folder, "")) {
    struct stat at;
    EXPECT_EQ(lstat(path.c_str(), &at), 0);
    const std::string bytes = S_ISREG(at.st_mode) ? read_bytes(path) : "";
    entries.push_back({path, bytes, at.st_ino, at.st_mode, at.st_mtim});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

// Every door of a store is tried on the path; the folder is then as it was, and the refusal says what lies there.
void expect_untouched(const std::string& path, const std::string& folder, const std::string& what) {
  const std::vector<Entry> before = snapshot(folder);
  const TempFolder elsewhere;
  for (const Mode mode : {Mode::kReadWrite, Mode::kReadOnly}) {
    const auto store = open_store(path, mode);
    EXPECT_EQ(store->mode(), Mode::kOff) << what;
    EXPECT_FALSE(put_both(*store, "a"));
    EXPECT_FALSE(store->find_winner(sample_key("a")));
    EXPECT_TRUE(store->verify(true).empty());
    EXPECT_EQ(store->prune(0, 0).winners, 0);
    EXPECT_NE(store->import_from(path), "");
    EXPECT_NE(store->export_to(elsewhere.file()), "");
    const auto warnings = store->take_warnings();
    EXPECT_EQ(warnings.size(), 1u) << "said once:\n" << joined(warnings);
    EXPECT_TRUE(contains(joined(warnings), path)) << joined(warnings);
    EXPECT_TRUE(contains(joined(warnings), what)) << "expected " << what << "\n" << joined(warnings);
  }
  EXPECT_EQ(snapshot(folder), before) << what;
}

struct Kind {
  std::string bytes, what;
};

std::vector<Kind> foreign_kinds() {
  return {
      {"dear diary\n", "it is a text file"},
      {"x", "it is a text file"},
      {std::string(9000, 'a'), "it is a text file"},
      {"gr\xc3\xbc\xc3\x9f dich", "it is a text file"},
      {std::string(68, '-') + "gqac" + std::string(5000, '-'), "it is a text file"},
      {"\x7f"
       "ELF" +
           noise(5000, 3),
       "it is an ELF binary"},
      {"#!/bin/sh\nexit 0\n", "it is a script"},
      {"\x1f\x8b" + noise(300, 3), "it is a gzip file"},
      {std::string("PK\x03\x04") + noise(300, 3), "it is a zip archive"},
      {noise(20000, 9), "it is a binary file"},
      {std::string(8192, '\0'), "it is a file of zeros"},
      {std::string("SQLite format 3\0", 16), "it is an SQLite database"},
  };
}

TEST(Foreign, AFileOfAnyOtherKindIsLeftUntouchedAndNamed) {
  for (const Kind& kind : foreign_kinds()) {
    const TempFolder folder;
    write_bytes(folder.file(), kind.bytes);
    expect_untouched(folder.file(), folder.path(), kind.what);
  }
}

TEST(Foreign, SoIsOneThatALinkLeadsTo) {
  for (const Kind& kind : foreign_kinds()) {
    const TempFolder folder;
    write_bytes(folder.file("system"), kind.bytes);
    ASSERT_EQ(symlink("system", folder.file("hop").c_str()), 0);
    ASSERT_EQ(symlink(folder.file("hop").c_str(), folder.file().c_str()), 0);
    expect_untouched(folder.file(), folder.path(), kind.what);
  }
}

TEST(Foreign, WritableByItsGroupItIsStillNamed) {
  const TempFolder folder;
  write_bytes(folder.file(), "dear diary\n");
  chmod(folder.file().c_str(), 0664);
  expect_untouched(folder.file(), folder.path(), "it is a text file");
}

TEST(Foreign, WhatIsNoFileIsNamed) {
  const TempFolder folder;
  ASSERT_EQ(mkdir(folder.file().c_str(), 0700), 0);
  expect_untouched(folder.file(), folder.path(), "it is a directory");
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  expect_untouched(folder.file("pipe"), folder.path(), "it is a pipe");
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  folder.file("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  expect_untouched(folder.file("socket"), folder.path(), "it is a socket");
  close(listener);
  for (const char* node : {"/dev/null", "/dev/zero", "/dev/full"}) {
    expect_untouched(node, folder.path(), "it is a device node");
    ASSERT_EQ(symlink(node, folder.file("to-node").c_str()), 0);
    expect_untouched(folder.file("to-node"), folder.path(), "it is a device node");
    unlink(folder.file("to-node").c_str());
  }
}

TEST(Foreign, AFileOfTheKernelsIsNotAnEmptyFile) {
  const TempFolder folder;
  if (geteuid() == 0) {
    const std::string before = read_bytes("/proc/sys/kernel/hostname");
    expect_untouched("/proc/sys/kernel/hostname", folder.path(), "it is a file of the kernel's");
    EXPECT_EQ(read_bytes("/proc/sys/kernel/hostname"), before);
  }
  expect_untouched("/proc/self/comm", folder.path(), "it is a file of the kernel's");
}

// A program that is killed, so that what SQLite had beside its database stays: a "-wal", or a hot "-journal".
void leave_behind(const std::string& path, const std::string& sql) {
  exit_code(spawn([&] {
    sqlite3* db = nullptr;
    sqlite3_open(path.c_str(), &db);
    sqlite3_exec(db, "PRAGMA cache_size=1; PRAGMA synchronous=OFF", nullptr, nullptr, nullptr);
    sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
    kill(getpid(), SIGKILL);
    return 0;
  }));
  chmod(path.c_str(), 0600);
}

const std::string kMail = "CREATE TABLE mail(body TEXT); INSERT INTO mail VALUES(hex(randomblob(20000)));";

TEST(Foreign, AnotherProgramsDatabaseKeepsItsWal) {
  const TempFolder folder;
  leave_behind(folder.file(), "PRAGMA journal_mode=WAL;" + kMail);
  ASSERT_GT(read_bytes(folder.file("cache.db-wal")).size(), 40000u);
  expect_untouched(folder.file(), folder.path(), "an SQLite database of another program (application id 0)");
  EXPECT_EQ(raw_sql(folder.file(), "SELECT count(*) FROM mail"), "1");
}

TEST(Foreign, AnotherProgramsDatabaseKeepsItsHotJournal) {
  const TempFolder folder;
  raw_sql(folder.file(), kMail);
  leave_behind(folder.file(), "BEGIN; UPDATE mail SET body='gone'; INSERT INTO mail VALUES(hex(randomblob(90000)));");
  ASSERT_GT(read_bytes(folder.file("cache.db-journal")).size(), 512u) << "the test needs a hot journal";
  expect_untouched(folder.file(), folder.path(), "an SQLite database of another program");
  EXPECT_EQ(raw_sql(folder.file(), "SELECT count(*), length(body) FROM mail"), "1") << "its own program rolls it back";
}

TEST(Foreign, LogsWithoutTheirDatabaseAreNotDeleted) {
  for (const bool emptied : {false, true}) {
    const TempFolder folder;
    leave_behind(folder.file(), "PRAGMA journal_mode=WAL;" + kMail);
    if (emptied)
      write_bytes(folder.file(), "");
    else
      unlink(folder.file().c_str());
    const auto before = snapshot(folder.path());
    const auto store = open_store(folder.file());
    EXPECT_EQ(store->mode(), Mode::kOff);
    EXPECT_TRUE(contains(joined(store->take_warnings()), "cache.db-wal is an SQLite write-ahead log"));
    EXPECT_EQ(snapshot(folder.path()), before);
  }
}

TEST(Foreign, AFileWithASidecarsNameIsNotOverwritten) {
  for (const char* sidecar : kSidecars) {
    const TempFolder folder;
    write_bytes(folder.file() + sidecar, "a letter");
    const auto before = snapshot(folder.path());
    EXPECT_EQ(open_store(folder.file())->mode(), Mode::kOff) << sidecar;
    EXPECT_EQ(snapshot(folder.path()), before) << sidecar;
  }
  for (const char* sidecar : {"-wal", "-journal"}) {
    const TempFolder folder;
    { ASSERT_TRUE(put_both(*open_store(folder.file()), "a")); }
    write_bytes(folder.file() + sidecar, "a letter");
    const auto before = snapshot(folder.path());
    const auto store = open_store(folder.file());
    EXPECT_EQ(store->mode(), Mode::kOff) << sidecar;
    EXPECT_TRUE(contains(joined(store->take_warnings()), folder.file() + sidecar + " is a text file"));
    EXPECT_EQ(snapshot(folder.path()), before) << sidecar;
  }
}

TEST(Foreign, OurOwnLogsWithoutTheirFileAreNoObstacle) {
  const TempFolder folder;
  exit_code(spawn([&] {
    const auto store = open_store(folder.file());
    put_both(*store, "a");
    kill(getpid(), SIGKILL);
    return 0;
  }));
  ASSERT_GT(read_bytes(folder.file("cache.db-wal")).size(), 4096u);
  unlink(folder.file().c_str());
  EXPECT_TRUE(put_both(*open_store(folder.file()), "b"));
  EXPECT_TRUE(open_store(folder.file())->find_winner(sample_key("b")));
}

TEST(Foreign, WhatOnlyContainsACacheIsNotOne) {
  const TempFolder folder;
  { ASSERT_TRUE(put_both(*open_store(folder.file("real.db")), "a")); }
  const std::string cache = read_bytes(folder.file("real.db"));
  std::string tar(512, '\0');
  tar.replace(0, 7, "real.db").replace(257, 5, "ustar");
  write_bytes(folder.file("cache.tar"), tar + cache);
  write_bytes(folder.file("cache.sql"), raw_sql(folder.file("real.db"), "SELECT group_concat(sql) FROM sqlite_schema"));
  expect_untouched(folder.file("cache.tar"), folder.path(), "it is a tar archive");
  expect_untouched(folder.file("cache.sql"), folder.path(), "it is a text file");
}

// An empty file is what mktemp hands over; it stays the same file.
TEST(Foreign, AnEmptyFileOfOnesOwnIsUsed) {
  const TempFolder folder;
  write_bytes(folder.file(), "");
  struct stat before, after;
  ASSERT_EQ(stat(folder.file().c_str(), &before), 0);
  EXPECT_TRUE(put_both(*open_store(folder.file()), "a"));
  ASSERT_EQ(stat(folder.file().c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_TRUE(open_store(folder.file())->find_winner(sample_key("a")));
}

TEST(Foreign, AnEmptyFileOfSomebodyElseIsNot) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const TempFolder folder;
  write_bytes(folder.file(), "");
  ASSERT_EQ(chown(folder.file().c_str(), kOther, kOther), 0);
  expect_untouched(folder.file(), folder.path(), "it is an empty file");
  expect_untouched(folder.file(), folder.path(), "belongs to user 12345");
  ASSERT_EQ(chown(folder.file().c_str(), 0, 0), 0);
  ASSERT_EQ(chown(folder.path().c_str(), kOther, kOther), 0);
  chmod(folder.file().c_str(), 0644);
  EXPECT_EQ(exit_code(spawn([&] {
              if (setgid(kOther) != 0 || setuid(kOther) != 0) return 1;
              expect_untouched(folder.file(), folder.path(), "it is an empty file");
              return testing::Test::HasFailure() ? 2 : 0;
            })),
            0);
}

TEST(Foreign, ALinkToNothingBeginsTheFileWhereItLeads) {
  const TempFolder folder;
  ASSERT_EQ(mkdir(folder.file("big-disk").c_str(), 0700), 0);
  ASSERT_EQ(symlink("big-disk/kernels.db", folder.file().c_str()), 0);
  EXPECT_TRUE(put_both(*open_store(folder.file()), "a"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file()));
  EXPECT_TRUE(open_store(folder.file("big-disk/kernels.db"))->find_winner(sample_key("a")));
  chmod(folder.file("big-disk").c_str(), 0777);
  unlink(folder.file("big-disk/kernels.db").c_str());
  EXPECT_EQ(open_store(folder.file())->mode(), Mode::kOff) << "the folder it leads to is guarded";
  EXPECT_FALSE(std::filesystem::exists(folder.file("big-disk/kernels.db")));
}

TEST(Foreign, ALinkInACircleAndANameOfAFolderAreRefused) {
  const TempFolder folder;
  ASSERT_EQ(symlink("cache.db", folder.file().c_str()), 0);
  const auto store = open_store(folder.file());
  EXPECT_EQ(store->mode(), Mode::kOff);
  EXPECT_TRUE(contains(joined(store->take_warnings()), folder.file()));
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file()));
  EXPECT_EQ(open_store(folder.file("new/"))->mode(), Mode::kOff);
  EXPECT_FALSE(std::filesystem::exists(folder.file("new")));
}

// What a handle has open may be written over by `cp`, which keeps the file: then it is not ours any more.
TEST(Foreign, AFileThatIsWrittenOverOursIsLeftToItsOwner) {
  for (const char* how : {"look up", "put", "verify", "close"}) {
    const TempFolder folder;
    auto store = open_store(folder.file());
    ASSERT_TRUE(put_both(*store, "a"));
    const std::string text(30000, 'q');
    {
      const int file = ::open(folder.file().c_str(), O_WRONLY | O_TRUNC);
      ASSERT_EQ(::write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
      close(file);
    }
    if (std::string(how) == "look up") {
      EXPECT_FALSE(store->find_winner(sample_key("a")));
    } else if (std::string(how) == "put") {
      EXPECT_FALSE(put_both(*store, "b"));
    } else if (std::string(how) == "verify") {
      store->verify(true);
    }
    if (std::string(how) != "close") {
      EXPECT_EQ(store->mode(), Mode::kOff) << how;
      EXPECT_TRUE(contains(joined(store->take_warnings()), "it is a text file")) << how;
    }
    store.reset();
    EXPECT_EQ(read_bytes(folder.file()), text) << how;
    EXPECT_TRUE(set_aside_in(folder.path()).empty()) << how;
  }
}

// ---- one that cannot be written

TEST(ReadOnlyFile, AMode0444IsUsedAsItIsAlsoByRoot) {
  const TempFolder folder;
  { ASSERT_TRUE(put_both(*open_store(folder.file()), "a")); }
  chmod(folder.file().c_str(), 0444);
  const auto before = snapshot(folder.path());
  {
    const auto store = open_store(folder.file());
    EXPECT_EQ(store->mode(), Mode::kReadOnly);
    EXPECT_TRUE(store->find_winner(sample_key("a")));
    EXPECT_FALSE(put_both(*store, "b"));
    EXPECT_TRUE(store->acquire(sample_key("b"))) << "nobody waits where nothing can be kept";
    EXPECT_EQ(store->prune(0, 0).winners, 0);
    const auto warnings = store->take_warnings();
    EXPECT_EQ(warnings.size(), 1u) << joined(warnings);
    EXPECT_TRUE(contains(joined(warnings), "nothing new will be kept")) << joined(warnings);
    EXPECT_TRUE(contains(joined(warnings), "chmod u+w " + folder.file())) << joined(warnings);
  }
  EXPECT_EQ(snapshot(folder.path()), before) << "nothing is begun beside it either";
}

// ---- exports

class ForeignExport : public testing::Test {
 protected:
  ForeignExport() : store_(open_store(folder_.file("in.db"))) {
    put_both(*store_, "a");
    mkdir(out_folder().c_str(), 0700);
  }
  std::string out_folder() const { return folder_.file("out"); }
  std::string out(const std::string& name = "export.gqa") const { return out_folder() + "/" + name; }

  void expect_refused(const std::string& path, const std::string& what) {
    const auto before = snapshot(out_folder());
    const std::string why = store_->export_to(path);
    EXPECT_TRUE(contains(why, path) && contains(why, what)) << "expected " << what << "\n" << why;
    EXPECT_EQ(snapshot(out_folder()), before) << what;
  }

  const TempFolder folder_;
  const std::unique_ptr<Store> store_;
};

TEST_F(ForeignExport, NeverReplacesAForeignFile) {
  for (const Kind& kind : foreign_kinds()) {
    write_bytes(out(), kind.bytes);
    expect_refused(out(), kind.what);
  }
  unlink(out().c_str());
  raw_sql(out(), kMail);
  expect_refused(out(), "an SQLite database of another program");
}

TEST_F(ForeignExport, NeverReplacesANodeALinkAPipeOrAFolder) {
  for (const char* node : {"/dev/null", "/dev/full"}) expect_refused(node, "it is a device node");
  ASSERT_EQ(mkfifo(out("pipe").c_str(), 0600), 0);
  expect_refused(out("pipe"), "it is a pipe");
  ASSERT_EQ(mkdir(out("folder").c_str(), 0700), 0);
  expect_refused(out("folder"), "it is a directory");
  expect_refused(out("folder/"), "names a folder");
  ASSERT_EQ(store_->export_to(out()), "");
  for (const std::string& target : {out(), out("nothing"), std::string("/dev/null")}) {
    ASSERT_EQ(symlink(target.c_str(), out("link").c_str()), 0);
    expect_refused(out("link"), "it is a link");
    unlink(out("link").c_str());
  }
  expect_refused("/proc/self/comm", "it is a file of the kernel's");
}

TEST_F(ForeignExport, NeverReplacesACache) {
  { ASSERT_TRUE(put_both(*open_store(out()), "theirs")); }
  expect_refused(out(), "it is a gqa cache, not an export");
  expect_refused(folder_.file("in.db"), "in use");
  raw_sql(out(), "PRAGMA user_version=7");
  expect_refused(out(), "schema is version 7");
}

TEST_F(ForeignExport, NeverMeetsWhatAnotherDatabaseLeft) {
  for (const char* sidecar : kSidecars) {
    write_bytes(out() + sidecar, "anything");
    expect_refused(out(), out() + sidecar);
    unlink((out() + sidecar).c_str());
  }
}

TEST_F(ForeignExport, IsOneFileUnderANewNameOrOverAnOlderOne) {
  ASSERT_EQ(store_->export_to(out()), "");
  ASSERT_TRUE(put_both(*store_, "b"));
  ASSERT_EQ(store_->export_to(out()), "");
  EXPECT_EQ(files_in(out_folder(), ""), std::vector<std::string>{out()});
  EXPECT_TRUE(open_store(out(), Mode::kReadOnly)->find_winner(sample_key("b")));
  write_bytes(out("empty"), "");
  EXPECT_EQ(store_->export_to(out("empty")), "") << "as mktemp makes it";
  EXPECT_EQ(files_in(out_folder(), "").size(), 2u);
}

TEST_F(ForeignExport, ItsPartTakesNobodysName) {
  const std::string part = out() + ".part-" + std::to_string(getpid()) + "-0";
  write_bytes(part, "mine");
  ASSERT_EQ(store_->export_to(out()), "");
  EXPECT_EQ(read_bytes(part), "mine");
}

// Somebody puts a file there while the export is being written: it stays, whenever it comes.
TEST_F(ForeignExport, AFileThatAppearsMeanwhileStays) {
  for (int i = 0; i < 40; ++i) store_->put_kernel(sample_kernel("big" + std::to_string(i), 100000));
  for (int round = 0; round < 20; ++round) {
    std::jthread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(700 * round));
      const int file = ::open(out().c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
      if (file < 0) return;  // the export was first
      EXPECT_EQ(::write(file, "mine", 4), 4);
      close(file);
    });
    const std::string why = store_->export_to(out());
    other.join();
    EXPECT_EQ(why.empty(), read_bytes(out()) != "mine") << why;
    unlink(out().c_str());
  }
  EXPECT_TRUE(files_in(out_folder(), "").empty());
}

TEST_F(ForeignExport, ImportNamesWhatItWasGiven) {
  for (const Kind& kind : foreign_kinds()) {
    write_bytes(out(), kind.bytes);
    EXPECT_TRUE(contains(store_->import_from(out()), out() + " is refused: " + kind.what));
  }
  EXPECT_TRUE(contains(store_->import_from("/dev/zero"), "it is a device node"));
  EXPECT_TRUE(contains(store_->import_from(out_folder()), "it is a directory"));
  ASSERT_EQ(mkfifo(out("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(contains(store_->import_from(out("pipe")), "it is a pipe")) << "and does not wait for a writer";
  unlink(out().c_str());
  leave_behind(out(), "PRAGMA journal_mode=WAL;" + kMail);
  const auto before = snapshot(out_folder());
  EXPECT_TRUE(contains(store_->import_from(out()), "another program"));
  EXPECT_EQ(snapshot(out_folder()), before);
}

}  // namespace
}  // namespace gqa::cache
