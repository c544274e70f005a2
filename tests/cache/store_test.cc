// store_test.cc: what a store keeps and gives back while nothing goes wrong.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <tuple>

#include "cache/rows.h"
#include "cache/schema.h"
#include "support.h"

namespace gqa::cache {
namespace {

void expect_same(const KernelRow& a, const KernelRow& b) {
  EXPECT_EQ(std::tie(a.key, a.closure, a.arch, a.compiler, a.family, a.abi, a.launch, a.problem, a.candidate),
            std::tie(b.key, b.closure, b.arch, b.compiler, b.family, b.abi, b.launch, b.problem, b.candidate));
  EXPECT_EQ(std::tie(a.source, a.ptx, a.cubin, a.log), std::tie(b.source, b.ptx, b.cubin, b.log));
  EXPECT_EQ(std::tie(a.registers, a.spill_bytes, a.static_smem), std::tie(b.registers, b.spill_bytes, b.static_smem));
}

void expect_same(const WinnerRow& a, const WinnerRow& b) {
  EXPECT_EQ(a.key.text(), b.key.text());
  EXPECT_EQ(std::tie(a.compiler, a.families, a.kernel, a.candidate, a.provisional, a.driver, a.evidence),
            std::tie(b.compiler, b.families, b.kernel, b.candidate, b.provisional, b.driver, b.evidence));
  EXPECT_EQ(std::tie(a.median_us, a.spread_us, a.clock_mhz, a.error, a.bound),
            std::tie(b.median_us, b.spread_us, b.clock_mhz, b.error, b.bound));
}

TEST(Store, KeepsRowsAcrossOpens) {
  const TempFolder folder;
  const std::string path = folder.file("made/on/the/way/cache.db");
  KernelRow kernel = sample_kernel("a");
  kernel.log = std::string("zero \0 inside", 13);
  WinnerRow winner = sample_winner("a");
  winner.error = -0.0;  // SQLite keeps it as 0
  {
    const auto store = open_store(path);
    EXPECT_EQ(store->mode(), Mode::kReadWrite);
    EXPECT_FALSE(store->find_winner(winner.key, kCompiler));
    EXPECT_FALSE(store->find_kernel(kernel.key));
    EXPECT_TRUE(store->put_kernel(kernel));
    EXPECT_TRUE(store->put_winner(winner));
    EXPECT_EQ(joined(store->take_warnings()), "");
  }
  const auto store = open_store(path);
  const auto found_kernel = store->find_kernel(kernel.key);
  const auto found_winner = store->find_winner(winner.key, kCompiler);
  ASSERT_TRUE(found_kernel && found_winner) << joined(store->take_warnings());
  expect_same(*found_kernel, kernel);
  expect_same(*found_winner, winner);
  EXPECT_NEAR(static_cast<double>(found_winner->created), static_cast<double>(time(nullptr)), 60);
  EXPECT_EQ(found_winner->created, found_winner->used);
}

TEST(Store, IsOneFileOfModeSixHundredInAFolderOfSevenHundred) {
  const TempFolder folder;
  const std::string path = folder.file("new/cache.db");
  { EXPECT_TRUE(put_both(*open_store(path), "a")); }
  struct stat at;
  ASSERT_EQ(stat(path.c_str(), &at), 0);
  EXPECT_EQ(at.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(folder.file("new").c_str(), &at), 0);
  EXPECT_EQ(at.st_mode & 0777, 0700u);
  EXPECT_EQ(files_in(folder.file("new"), "").size(), 1u) << "closed, everything lies in the one file";
  EXPECT_EQ(raw_sql(path, "PRAGMA journal_mode"), "wal");
}

TEST(Store, FindsAWinnerUnderItsWholeKeyOnly) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  ASSERT_TRUE(put_both(*store, "a"));
  const WinnerKey key = sample_key("a");
  EXPECT_TRUE(store->find_winner(key, kCompiler));
  for (std::string WinnerKey::*part : {&WinnerKey::signature, &WinnerKey::device, &WinnerKey::search}) {
    WinnerKey other = key;
    other.*part += "!";
    EXPECT_FALSE(store->find_winner(other, kCompiler)) << other.text();
    EXPECT_NE(other.digest(), key.digest());
  }
}

TEST(Store, APutReplaces) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  ASSERT_TRUE(put_both(*store, "a", 12.5));
  ASSERT_TRUE(put_both(*store, "a", 7.25));
  EXPECT_EQ(store->find_winner(sample_key("a"), kCompiler)->median_us, 7.25);
  EXPECT_EQ(store->list_winners().size(), 1u);
}

TEST(Store, AWinnerNeedsItsKernel) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  EXPECT_FALSE(store->put_winner(sample_winner("a")));
  EXPECT_TRUE(contains(joined(store->take_warnings()), "put the kernel first"));
  EXPECT_FALSE(store->find_winner(sample_key("a"), kCompiler));
}

TEST(Store, RefusesWhatIsNotANumber) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  ASSERT_TRUE(store->put_kernel(sample_kernel("a")));
  EXPECT_FALSE(store->put_winner(sample_winner("a", std::nan(""))));
  EXPECT_TRUE(contains(joined(store->take_warnings()), "median_us"));
}

TEST(Store, ListsEverythingKernelsWithoutBlobs) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(put_both(*store, name));
  const auto winners = store->list_winners();
  ASSERT_EQ(winners.size(), 3u);
  EXPECT_FALSE(winners[0].evidence.empty());
  const auto kernels = store->list_kernels();
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels[0].registers, 168);
  EXPECT_EQ(kernels[0].cubin, "");
}

TEST(Store, OffKeepsNothingAndSaysNothing) {
  const TempFolder folder;
  const auto store = open_store(folder.file(), Mode::kOff);
  EXPECT_EQ(store->mode(), Mode::kOff);
  EXPECT_FALSE(put_both(*store, "a"));
  EXPECT_FALSE(store->find_winner(sample_key("a"), kCompiler));
  EXPECT_TRUE(store->acquire(sample_key("a")));
  EXPECT_TRUE(store->list_kernels().empty());
  EXPECT_TRUE(store->verify(true).empty());
  EXPECT_NE(store->export_to(folder.file("out.db")), "");
  EXPECT_EQ(store->stats().mode, "off");
  EXPECT_EQ(joined(store->take_warnings()), "");
  EXPECT_TRUE(files_in(folder.path(), "").empty());
}

TEST(Store, ReadOnlyReadsAndChangesNothing) {
  const TempFolder folder;
  { ASSERT_TRUE(put_both(*open_store(folder.file()), "a")); }
  const std::string before = read_bytes(folder.file());
  {
    const auto store = open_store(folder.file(), Mode::kReadOnly);
    EXPECT_EQ(store->mode(), Mode::kReadOnly);
    EXPECT_TRUE(store->find_winner(sample_key("a"), kCompiler));
    EXPECT_TRUE(store->find_kernel(hash128("a")));
    EXPECT_FALSE(put_both(*store, "b"));
    EXPECT_TRUE(store->acquire(sample_key("b")));
    EXPECT_EQ(store->prune(0, 0).winners, 0);
    EXPECT_NE(store->import_from(folder.file()), "");
    EXPECT_EQ(store->stats().mode, "read-only");
  }
  EXPECT_EQ(read_bytes(folder.file()), before);
}

TEST(Store, ReadOnlySeesWhatAWriterStillHasOpen) {
  const TempFolder folder;
  const auto writer = open_store(folder.file());
  ASSERT_TRUE(put_both(*writer, "a"));
  const auto reader = open_store(folder.file(), Mode::kReadOnly);
  EXPECT_TRUE(reader->find_winner(sample_key("a"), kCompiler)) << joined(reader->take_warnings());
  ASSERT_TRUE(put_both(*writer, "b"));
  EXPECT_TRUE(reader->find_winner(sample_key("b"), kCompiler));
}

TEST(Store, ReadOnlyWithoutAFileIsOff) {
  const TempFolder folder;
  const auto store = open_store(folder.file(), Mode::kReadOnly);
  EXPECT_EQ(store->mode(), Mode::kOff);
  EXPECT_TRUE(contains(joined(store->take_warnings()), folder.file()));
  EXPECT_TRUE(files_in(folder.path(), "").empty());
}

// Makes the winner's row say that it was last used then.
void age(const std::string& path, const WinnerRow& winner, std::int64_t used) {
  Database db(path, Database::Open::kReadWrite);
  Record record;
  ASSERT_TRUE(select_record(db, Place::kWinners, winner.id(), Part::kScalars, &record));
  touch(db, record, used);
}

TEST(Store, NotesUseAtMostOnceADay) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  ASSERT_TRUE(put_both(*store, "a"));
  const std::int64_t now = time(nullptr), hours = 3600;
  age(folder.file(), sample_winner("a"), now - 20 * hours);
  ASSERT_TRUE(store->find_winner(sample_key("a"), kCompiler));
  EXPECT_EQ(store->find_winner(sample_key("a"), kCompiler)->used, now - 20 * hours) << "not worth a write yet";
  age(folder.file(), sample_winner("a"), now - 30 * hours);
  ASSERT_TRUE(store->find_winner(sample_key("a"), kCompiler));
  EXPECT_GE(store->find_winner(sample_key("a"), kCompiler)->used, now);
  EXPECT_TRUE(store->verify(false).empty()) << "the checksum went with it";
}

TEST(Store, ALookUpNeitherWaitsForAWriterNorFails) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  ASSERT_TRUE(put_both(*store, "a"));
  age(folder.file(), sample_winner("a"), 1000);
  Database writer(folder.file(), Database::Open::kReadWrite);
  const Transaction held(writer);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(store->find_winner(sample_key("a"), kCompiler));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(joined(store->take_warnings()), "");
}

TEST(Store, AFileThatIsReplacedIsFollowed) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  ASSERT_TRUE(put_both(*store, "a"));
  {
    const auto other = open_store(folder.file("other.db"));
    ASSERT_TRUE(put_both(*other, "b"));
  }
  for (const char* part : {"", "-wal", "-shm"}) unlink((folder.file() + part).c_str());
  std::filesystem::rename(folder.file("other.db"), folder.file());
  EXPECT_FALSE(store->find_winner(sample_key("a"), kCompiler));
  EXPECT_TRUE(store->find_winner(sample_key("b"), kCompiler));
  std::filesystem::remove_all(folder.path());
  EXPECT_TRUE(put_both(*store, "c")) << joined(store->take_warnings());
  EXPECT_TRUE(open_store(folder.file())->find_winner(sample_key("c"), kCompiler));
}

// The last user of a file removes "-wal" by name as it closes; by then the name may be another file's.
TEST(Store, ClosingAFileThatWasMovedSparesItsSuccessorsWal) {
  const TempFolder folder;
  auto old = open_store(folder.file());
  ASSERT_TRUE(put_both(*old, "a"));
  for (const char* part : {"", "-wal", "-shm"}) {
    std::filesystem::rename(folder.file() + part, folder.file("moved.db") + part);
  }
  const auto successor = open_store(folder.file());
  ASSERT_TRUE(put_both(*successor, "b"));
  const std::string wal = read_bytes(folder.file("cache.db-wal"));
  ASSERT_FALSE(wal.empty());
  old.reset();
  EXPECT_EQ(read_bytes(folder.file("cache.db-wal")), wal);
  EXPECT_TRUE(open_store(folder.file())->find_winner(sample_key("b"), kCompiler));
}

TEST(Store, TwoStoresOfOneProcessShareAFile) {
  const TempFolder folder;
  const auto one = open_store(folder.file()), two = open_store(folder.file());
  ASSERT_TRUE(put_both(*one, "a"));
  EXPECT_TRUE(two->find_winner(sample_key("a"), kCompiler));
}

TEST(Store, ManyThreadsOneStore) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string name = std::to_string(t) + "." + std::to_string(i);
        EXPECT_TRUE(put_both(*store, name));
        EXPECT_TRUE(store->find_winner(sample_key(name), kCompiler));
        EXPECT_TRUE(store->acquire(sample_key("not " + name)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->stats().winners, 80);
  EXPECT_EQ(store->stats().leases, 0);
  EXPECT_EQ(joined(store->take_warnings()), "");
}

TEST(Store, StatsCount) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  ASSERT_TRUE(put_both(*store, "a"));
  ASSERT_TRUE(store->put_kernel(sample_kernel("b")));
  const auto lease = store->acquire(sample_key("c"));
  const Stats stats = store->stats();
  EXPECT_EQ(stats.path, folder.file());
  EXPECT_EQ(stats.mode, "read-write");
  EXPECT_EQ(stats.schema, kSchemaVersion);
  EXPECT_EQ(std::tie(stats.kernels, stats.winners, stats.leases, stats.quarantined), std::make_tuple(2, 1, 1, 0));
  EXPECT_GT(stats.raw_bytes, stats.blob_bytes);
  EXPECT_GT(stats.blob_bytes, 6000);
  EXPECT_GT(stats.file_bytes, stats.blob_bytes);
}

TEST(DefaultPath, FollowsTheEnvironment) {
  const pid_t child = spawn([] {
    setenv("GQA_CACHE", "/a/b.db", 1);
    if (Store::default_path() != "/a/b.db") return 1;
    setenv("HOME", "/home/me", 1);
    setenv("GQA_CACHE", "~/b.db", 1);
    if (Store::default_path() != "/home/me/b.db") return 5;
    if (Store::expanded("~") != "/home/me" || Store::expanded("~you/b.db") != "~you/b.db") return 6;
    unsetenv("GQA_CACHE");
    setenv("XDG_CACHE_HOME", "/x", 1);
    if (Store::default_path() != "/x/gqa/cache.db") return 2;
    setenv("XDG_CACHE_HOME", "relative", 1);
    if (Store::default_path() != "/home/me/.cache/gqa/cache.db") return 3;
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    return Store::default_path().starts_with("/tmp/gqa-") ? 0 : 4;
  });
  EXPECT_EQ(exit_code(child), 0);
}

}  // namespace
}  // namespace gqa::cache
