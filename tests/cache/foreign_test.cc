// foreign_test.cc: somebody else's file under the cache's name: named, and not touched.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "cache/file/sidecars.h"
#include "foreign_support.h"

namespace gqa::cache {
namespace {

constexpr uid_t kOther = 12345;

// Every door of a store is tried on the path; the folder is then as it was, and the refusal says what lies there.
void expect_untouched(const std::string& path, const std::string& folder, const std::string& what) {
  const std::vector<Entry> before = snapshot(folder);
  const TempFolder elsewhere;
  for (const Mode mode : {Mode::kReadWrite, Mode::kReadOnly}) {
    const auto store = open_store(path, mode);
    EXPECT_EQ(store->mode(), Mode::kOff) << what;
    EXPECT_FALSE(put_both(*store, "a"));
    EXPECT_FALSE(store->find_winner(sample_key("a"), kCompiler));
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
  EXPECT_TRUE(open_store(folder.file())->find_winner(sample_key("b"), kCompiler));
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
  EXPECT_TRUE(open_store(folder.file())->find_winner(sample_key("a"), kCompiler));
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
  EXPECT_TRUE(open_store(folder.file("big-disk/kernels.db"))->find_winner(sample_key("a"), kCompiler));
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
      EXPECT_FALSE(store->find_winner(sample_key("a"), kCompiler));
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

// The look and the first write are two moments; SQLite's lock lies around the second.
TEST(Foreign, ADatabaseThatIsBegunMeanwhileIsNotOurs) {
  const TempFolder folder;
  write_bytes(folder.file(), "");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t other = spawn([&] {
    sqlite3* db = nullptr;
    sqlite3_open(folder.file().c_str(), &db);
    sqlite3_exec(db, ("BEGIN EXCLUSIVE;" + kMail).c_str(), nullptr, nullptr, nullptr);
    if (::write(ready[1], "!", 1) != 1) return 1;
    usleep(500000);
    return sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK ? 0 : 2;
  });
  char told = 0;
  ASSERT_EQ(::read(ready[0], &told, 1), 1);
  const auto store = open_store(folder.file());
  EXPECT_EQ(exit_code(other), 0);
  EXPECT_EQ(store->mode(), Mode::kOff);
  EXPECT_TRUE(contains(joined(store->take_warnings()), "another program has begun to write to it"));
  EXPECT_EQ(raw_sql(folder.file(), "SELECT group_concat(name) FROM sqlite_schema"), "mail");
  close(ready[0]);
  close(ready[1]);
}

TEST(Foreign, SettingAsideTakesNobodysName) {
  const TempFolder folder;
  { ASSERT_TRUE(put_both(*open_store(folder.file()), "a")); }
  write_bytes(folder.file(), read_bytes(folder.file()).replace(0, 16, 16, '?'));
  std::vector<std::string> names;
  for (std::time_t t = std::time(nullptr); names.size() < 60; ++t) {
    names.push_back(folder.file() + ".damaged-" + std::to_string(t));
    if (names.size() % 3 == 0) write_bytes(names.back(), "mine");
    if (names.size() % 3 == 1 && symlink("nowhere", names.back().c_str()) != 0) FAIL();
    if (names.size() % 3 == 2) write_bytes(names.back() + "-wal", "mine");
  }
  const auto before = snapshot(folder.path());
  EXPECT_TRUE(put_both(*open_store(folder.file()), "b"));
  const auto after = snapshot(folder.path());
  for (const Entry& entry : before) {
    if (entry.name != folder.file()) {
      EXPECT_EQ(std::count(after.begin(), after.end(), entry), 1) << entry;
    }
  }
  EXPECT_EQ(after.size(), before.size() + 1);
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
    EXPECT_TRUE(store->find_winner(sample_key("a"), kCompiler));
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

}  // namespace
}  // namespace gqa::cache
