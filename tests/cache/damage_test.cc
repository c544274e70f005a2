// damage_test.cc: a file that is not what we wrote: truncated, flipped, overwritten, newer, another program's.
// After any damage an open does not crash, a look-up gives the right row or none, and a put works again.
#include <random>

#include "cache/file/database.h"
#include "cache/rows.h"
#include "support.h"

namespace gqa::cache {
namespace {

constexpr int kNames = 12;
std::string name_of(int i) { return "row" + std::to_string(i); }

// A closed file with rows that fill several pages.
std::string good_file() {
  const TempFolder folder;
  {
    const auto store = open_store(folder.file());
    for (int i = 0; i < kNames; ++i) EXPECT_TRUE(put_both(*store, name_of(i)));
  }
  return read_bytes(folder.file());
}

// What a session does after a miss; twice, because damage may show itself only between the two rows.
bool rebuild(Store& store, const std::string& name, double median_us) {
  return put_both(store, name, median_us) || put_both(store, name, median_us);
}

// Each row is what was put or absent.
void expect_right_or_none(Store& store, const std::string& what) {
  for (int i = 0; i < kNames; ++i) {
    if (const auto winner = store.find_winner(sample_key(name_of(i)), kCompiler)) {
      EXPECT_EQ(winner->evidence, sample_winner(name_of(i)).evidence) << what;
      EXPECT_EQ(winner->candidate, sample_winner(name_of(i)).candidate) << what;
    }
    if (const auto kernel = store.find_kernel(hash128(name_of(i)))) {
      EXPECT_EQ(kernel->cubin, sample_kernel(name_of(i)).cubin) << what;
      EXPECT_EQ(kernel->source, sample_kernel(name_of(i)).source) << what;
    }
  }
}

void expect_survives(const std::string& bytes, const std::string& what) {
  const TempFolder folder;
  write_bytes(folder.file(), bytes);
  {
    const auto store = open_store(folder.file());
    expect_right_or_none(*store, what);
    ASSERT_TRUE(rebuild(*store, "row3", 99)) << what << "\n" << joined(store->take_warnings());
    ASSERT_TRUE(rebuild(*store, "new", 98)) << what << "\n" << joined(store->take_warnings());
  }
  const auto store = open_store(folder.file());
  for (const auto& [name, median] : {std::pair("row3", 99.0), std::pair("new", 98.0)}) {
    const auto winner = store->find_winner(sample_key(name), kCompiler);
    ASSERT_TRUE(winner) << what << "\n" << joined(store->take_warnings());
    EXPECT_EQ(winner->median_us, median) << what;
    EXPECT_TRUE(store->find_kernel(winner->kernel)) << what;
  }
}

// The application id ends there: what is shorter could be anybody's.
constexpr std::size_t kRecognisable = 72;

TEST(Damage, TruncationAtManyLengthsSlow) {
  const std::string good = good_file();
  std::vector<std::size_t> lengths = {0, kRecognisable, 99, 100, 101, 511, 512, 4095, 4096, 4097, 8191, 8192};
  for (std::size_t length = 5000; length < good.size(); length += 3671) lengths.push_back(length);
  ASSERT_GT(lengths.size(), 25u);
  for (const std::size_t length : lengths) {
    expect_survives(good.substr(0, length), "truncated to " + std::to_string(length));
  }
}

TEST(Damage, TruncationToWhatCouldBeAnybodysIsLeftUntouched) {
  const std::string good = good_file();
  for (const std::size_t length : {std::size_t{1}, std::size_t{15}, std::size_t{16}, kRecognisable - 1}) {
    const TempFolder folder;
    write_bytes(folder.file(), good.substr(0, length));
    EXPECT_EQ(open_store(folder.file())->mode(), Mode::kOff) << length;
    EXPECT_EQ(read_bytes(folder.file()), good.substr(0, length));
    EXPECT_EQ(files_in(folder.path(), "").size(), 1u) << length;
  }
}

// The application id and the schema version are believed: a file that is not ours or newer must stay as it is.
bool is_believed(std::size_t offset) { return (offset >= 60 && offset < 64) || (offset >= 68 && offset < 72); }

TEST(Damage, AFlippedBitAnywhereInTheHeaderSlow) {
  const std::string good = good_file();
  ASSERT_GT(good.size(), 10u * 4096);
  for (std::size_t offset = 0; offset < 100; ++offset) {
    if (is_believed(offset)) continue;
    std::string bad = good;
    bad[offset] = static_cast<char>(bad[offset] ^ (1 << offset % 8));
    expect_survives(bad, "flipped a bit at " + std::to_string(offset));
  }
}

TEST(Damage, AFlippedBitAnywhereInTheFileSlow) {
  const std::string good = good_file();
  ASSERT_GT(good.size(), 10u * 4096);
  std::mt19937 random(20240607);
  for (int i = 0; i < 300; ++i) {
    const std::size_t offset = 100 + random() % (good.size() - 100);
    std::string bad = good;
    bad[offset] = static_cast<char>(bad[offset] ^ (1 << random() % 8));
    expect_survives(bad, "flipped a bit at " + std::to_string(offset));
  }
}

TEST(Damage, PagesOverwrittenSlow) {
  const std::string good = good_file();
  ASSERT_GT(good.size(), 10u * 4096);
  for (std::size_t page = 0; page < good.size() / 4096; ++page) {
    for (const char fill : {'\0', '\xff', 'x'}) {
      std::string bad = good;
      bad.replace(page * 4096, 4096, 4096, fill);
      expect_survives(bad, "page " + std::to_string(page) + " overwritten");
    }
  }
}

TEST(Damage, AFlippedBelievedByteTurnsTheCacheOffAndChangesNothing) {
  const std::string good = good_file();
  for (std::size_t offset = 0; offset < 100; ++offset) {
    if (!is_believed(offset)) continue;
    const TempFolder folder;
    std::string bad = good;
    bad[offset] = static_cast<char>(bad[offset] ^ 64);
    write_bytes(folder.file(), bad);
    {
      const auto store = open_store(folder.file());
      EXPECT_EQ(store->mode(), Mode::kOff) << offset;
      EXPECT_TRUE(contains(joined(store->take_warnings()), "left untouched")) << offset;
    }
    EXPECT_EQ(read_bytes(folder.file()), bad) << offset;
  }
}

TEST(Damage, WhatWasOursIsSetAsideWithAWarning) {
  const TempFolder folder;
  const std::string bad = good_file().replace(0, 4096, noise(4096, 9));
  write_bytes(folder.file(), bad);
  const auto store = open_store(folder.file());
  EXPECT_EQ(store->mode(), Mode::kReadWrite);
  const auto aside = files_in(folder.path(), "cache.db.damaged-");
  ASSERT_EQ(aside.size(), 1u);
  EXPECT_EQ(read_bytes(aside[0]), bad) << "nothing is thrown away";
  EXPECT_TRUE(contains(joined(store->take_warnings()), aside[0]));
  EXPECT_TRUE(put_both(*store, "a"));
}

TEST(Damage, ACacheWithoutRowsIsKnownByItsHeaderOrItsSchema) {
  for (const std::size_t damaged : {std::size_t{60}, std::size_t{3000}}) {
    const TempFolder folder;
    open_store(folder.file());
    write_bytes(folder.file(), read_bytes(folder.file()).replace(0, damaged, damaged, '\7'));
    EXPECT_TRUE(put_both(*open_store(folder.file()), "a")) << damaged;
    EXPECT_EQ(set_aside_in(folder.path()).size(), 1u) << damaged;
  }
}

TEST(Damage, AReaderLeavesADamagedFileWhereItIs) {
  const TempFolder folder;
  write_bytes(folder.file(), good_file().replace(0, 16, noise(16, 9)));
  const auto store = open_store(folder.file(), Mode::kReadOnly);
  EXPECT_EQ(store->mode(), Mode::kOff);
  EXPECT_TRUE(contains(joined(store->take_warnings()), "cannot read"));
  EXPECT_EQ(files_in(folder.path(), "").size(), 1u);
}

TEST(Damage, ANewerSchemaIsLeftUntouched) {
  const TempFolder folder;
  { ASSERT_TRUE(put_both(*open_store(folder.file()), "a")); }
  raw_sql(folder.file(), "PRAGMA user_version=3; ALTER TABLE winners ADD COLUMN more TEXT");
  const std::string before = read_bytes(folder.file());
  {
    const auto store = open_store(folder.file());
    EXPECT_EQ(store->mode(), Mode::kOff);
    EXPECT_FALSE(store->find_winner(sample_key("a"), kCompiler));
    EXPECT_FALSE(put_both(*store, "b"));
    const std::string warnings = joined(store->take_warnings());
    EXPECT_TRUE(contains(warnings, "its schema is version 3")) << warnings;
    EXPECT_TRUE(contains(warnings, "use a newer gqa")) << warnings;
  }
  EXPECT_EQ(read_bytes(folder.file()), before);
  EXPECT_TRUE(files_in(folder.path(), "damaged").empty());
}

TEST(Damage, AnotherProgramsDatabaseIsLeftUntouched) {
  const TempFolder folder;
  raw_sql(folder.file(), "CREATE TABLE mail(body TEXT); INSERT INTO mail VALUES('dear')");
  const std::string before = read_bytes(folder.file());
  {
    const auto store = open_store(folder.file());
    EXPECT_EQ(store->mode(), Mode::kOff);
    EXPECT_TRUE(contains(joined(store->take_warnings()), "application id"));
  }
  EXPECT_EQ(read_bytes(folder.file()), before);
}

// Each column of a row in turn, changed behind the store's back.
TEST(Damage, AChangedColumnIsFoundQuarantinedAndRebuilt) {
  for (const char* change : {"signature=signature||'x'",
                             "kernel='other'",
                             "candidate='tile 64x64'",
                             "median_us=1",
                             "spread_us=9",
                             "clock_mhz=clock_mhz+1",
                             "error=0",
                             "bound=1",
                             "driver='x'",
                             "created=created-1",
                             "used=used+1",
                             "evidence_sum='0'",
                             "blob_bytes=1",
                             "raw_bytes=raw_bytes+1",
                             "checksum='0'",
                             "evidence=x'00'",
                             "search='once'",
                             "device='x'",
                             "compiler='x'",
                             "families='warpgroup=4'",
                             "provisional=1",
                             "evidence=zeroblob(length(evidence))"}) {
    const TempFolder folder;
    { ASSERT_TRUE(put_both(*open_store(folder.file()), "a") && put_both(*open_store(folder.file()), "b")); }
    raw_sql(folder.file(), std::string("UPDATE winners SET ") + change + " WHERE id='" + sample_winner("a").id() + "'");
    const auto store = open_store(folder.file());
    EXPECT_EQ(store->verify(false).size(), 1u) << change;
    EXPECT_FALSE(store->find_winner(sample_key("a"), kCompiler)) << change;
    EXPECT_TRUE(contains(joined(store->take_warnings()), "is damaged")) << change;
    EXPECT_TRUE(store->find_winner(sample_key("b"), kCompiler)) << change;
    EXPECT_EQ(store->stats().quarantined, 1) << change;
    EXPECT_TRUE(store->verify(false).empty()) << change;
    EXPECT_TRUE(store->acquire(sample_key("a"))) << "a quarantined winner is to be tuned again";
    EXPECT_TRUE(put_both(*store, "a", 5)) << change;
    EXPECT_EQ(store->find_winner(sample_key("a"), kCompiler)->median_us, 5);
    EXPECT_EQ(store->stats().quarantined, 0) << change;
  }
}

TEST(Damage, AChangedKernelIsFoundQuarantinedAndRebuilt) {
  for (const char* change :
       {"arch='sm_80'", "compiler='x'", "closure='x'", "family='x'", "abi=2", "launch='x'", "problem='x'",
        "candidate='x'", "registers=1", "spill_bytes=0", "static_smem=0", "created=1", "used=1", "cubin_sum=ptx_sum",
        "source=x'00'", "ptx=x''", "cubin=source", "log=x'28b52ffd'"}) {
    const TempFolder folder;
    { ASSERT_TRUE(put_both(*open_store(folder.file()), "a")); }
    raw_sql(folder.file(), std::string("UPDATE kernels SET ") + change);
    const auto store = open_store(folder.file());
    EXPECT_FALSE(store->find_kernel(hash128("a"))) << change;
    EXPECT_EQ(store->stats().quarantined, 1) << change;
    EXPECT_TRUE(store->acquire(sample_key("a"))) << "a winner without its kernel is none: " << change;
    EXPECT_TRUE(put_both(*store, "a"));
    EXPECT_TRUE(store->find_kernel(hash128("a"))) << change;
  }
}

TEST(Damage, AReaderDistrustsADamagedRowToo) {
  const TempFolder folder;
  { ASSERT_TRUE(put_both(*open_store(folder.file()), "a")); }
  raw_sql(folder.file(), "UPDATE winners SET median_us=1");
  const auto store = open_store(folder.file(), Mode::kReadOnly);
  EXPECT_FALSE(store->find_winner(sample_key("a"), kCompiler));
  EXPECT_TRUE(contains(joined(store->take_warnings()), "is damaged"));
  EXPECT_EQ(store->stats().quarantined, 0);
}

TEST(Verify, ReportsAndRepairsRows) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(put_both(*store, name));
  EXPECT_TRUE(store->verify(true).empty());
  raw_sql(folder.file(), "UPDATE kernels SET cubin=x'00' WHERE key='" + hash128("b") + "'");
  auto damages = store->verify(false);
  ASSERT_EQ(damages.size(), 2u);
  EXPECT_EQ(damages[0].table, "kernels");
  EXPECT_EQ(damages[0].key, hash128("b"));
  EXPECT_EQ(damages[0].what, "cubin: checksum mismatch");
  EXPECT_FALSE(damages[0].repaired);
  EXPECT_EQ(damages[1].table, "winners") << "which needs that kernel";
  damages = store->verify(true);
  ASSERT_EQ(damages.size(), 2u);
  EXPECT_TRUE(damages[0].repaired && damages[1].repaired);
  EXPECT_TRUE(store->verify(false).empty());
  EXPECT_EQ(store->stats().quarantined, 2);
  EXPECT_TRUE(store->find_winner(sample_key("a"), kCompiler) && store->find_winner(sample_key("c"), kCompiler));
}

TEST(Verify, FindsEveryFlippedBitOfARowsText) {
  const TempFolder folder;
  { ASSERT_TRUE(put_both(*open_store(folder.file()), "a")); }
  const std::string good = read_bytes(folder.file());
  const std::string text = sample_winner("a").candidate;
  const std::size_t at = good.find(text);
  ASSERT_NE(at, std::string::npos);
  for (std::size_t bit = 0; bit < 8 * text.size(); bit += 5) {
    std::string bad = good;
    bad[at + bit / 8] = static_cast<char>(bad[at + bit / 8] ^ (1 << bit % 8));
    write_bytes(folder.file(), bad);
    EXPECT_EQ(open_store(folder.file())->verify(false).size(), 1u) << bit;
  }
}

TEST(Verify, RepairOfDamagedPagesKeepsTheRowsThatHold) {
  const std::string good = good_file();
  const TempFolder folder;
  std::string bad = good;
  const std::size_t victim = good.find(sample_winner("row5").candidate);
  ASSERT_NE(victim, std::string::npos);
  bad.replace(victim / 4096 * 4096, 8, 8, '\x7f');  // that page's b-tree header
  write_bytes(folder.file(), bad);
  const auto store = open_store(folder.file());
  ASSERT_FALSE(store->verify(false).empty());
  const auto damages = store->verify(true);
  ASSERT_FALSE(damages.empty());
  EXPECT_TRUE(damages[0].repaired) << joined(store->take_warnings());
  EXPECT_TRUE(store->verify(false).empty());
  EXPECT_EQ(set_aside_in(folder.path()).size(), 1u);
  EXPECT_EQ(store->stats().kernels, kNames) << "the kernels' pages were whole";
}

TEST(Verify, RepairFindsADamagedKeyThatTheTreeDoesNotLeadTo) {
  const std::string good = good_file();
  const TempFolder folder;
  std::string bad = good;
  const std::size_t at = good.find(sample_winner("row4").id() + sample_key("row4").signature);
  ASSERT_NE(at, std::string::npos);
  bad[at] = '~';  // sorts after every digest
  write_bytes(folder.file(), bad);
  const auto store = open_store(folder.file());
  EXPECT_FALSE(store->find_winner(sample_key("row4"), kCompiler));
  EXPECT_FALSE(store->verify(true).empty());
  EXPECT_TRUE(store->verify(false).empty()) << joined(store->take_warnings());
  EXPECT_GE(store->stats().winners, kNames - 1);
}

// Damage that appears under an open store.
TEST(Damage, UnderAnOpenStoreSlow) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(put_both(*store, name_of(i)));
  raw_sql(folder.file(), "PRAGMA wal_checkpoint(TRUNCATE)");
  ASSERT_EQ(truncate(folder.file().c_str(), 8192 * 2 + 77), 0);
  const auto other = open_store(folder.file());
  expect_right_or_none(*store, "truncated while open");
  EXPECT_TRUE(rebuild(*store, "row1", 3)) << joined(store->take_warnings());
  const auto winner = other->find_winner(sample_key("row1"), kCompiler);
  ASSERT_TRUE(winner) << "the other store followed to the new file";
  EXPECT_EQ(winner->median_us, 3);
}

TEST(Damage, ADamagedWalLosesRowsButNothingElse) {
  const TempFolder folder;
  const pid_t child = spawn([&] {
    const auto store = open_store(folder.file());
    for (int i = 0; i < kNames; ++i) put_both(*store, name_of(i));
    kill(getpid(), SIGKILL);  // leaves the WAL
    return 0;
  });
  exit_code(child);
  const std::string wal = read_bytes(folder.file("cache.db-wal")), db = read_bytes(folder.file());
  ASSERT_GT(wal.size(), 50000u);
  for (std::size_t offset = 10; offset < wal.size(); offset += wal.size() / 23) {
    std::string bad = wal;
    bad[offset] = static_cast<char>(bad[offset] ^ 4);
    write_bytes(folder.file(), db);
    write_bytes(folder.file("cache.db-wal"), bad);
    unlink(folder.file("cache.db-shm").c_str());
    const auto store = open_store(folder.file());
    expect_right_or_none(*store, "WAL flipped at " + std::to_string(offset));
    EXPECT_TRUE(rebuild(*store, "row3", 99));
    EXPECT_EQ(store->find_winner(sample_key("row3"), kCompiler)->median_us, 99);
  }
}

TEST(Damage, SeveralProcessesFindItAtOnceSlow) {
  const std::string good = good_file();
  for (int round = 0; round < 10; ++round) {
    const TempFolder folder;
    std::string bad = good;
    bad.replace(round % 2 ? 0 : 4096, 3000, 3000, '\x55');
    write_bytes(folder.file(), bad);
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
      children.push_back(spawn([&, i] {
        const auto store = open_store(folder.file());
        expect_right_or_none(*store, "shared");
        if (testing::Test::HasFailure()) return 2;
        const std::string name = "mine" + std::to_string(i);
        for (int tries = 0; tries < 5; ++tries) {
          if (put_both(*store, name) && store->find_winner(sample_key(name), kCompiler)) return 0;
        }
        return 1;
      }));
    }
    for (const pid_t child : children) EXPECT_EQ(exit_code(child), 0);
    const auto store = open_store(folder.file());
    EXPECT_TRUE(store->verify(false).empty()) << joined(store->take_warnings());
    EXPECT_EQ(set_aside_in(folder.path()).size(), 1u) << "set aside once, by one of them";
  }
}

}  // namespace
}  // namespace gqa::cache
