// transfer_test.cc: export, import, prune.
#include <chrono>
#include <thread>

#include "cache/rows.h"
#include "support.h"

namespace gqa::cache {
namespace {

class Transfer : public testing::Test {
 protected:
  Transfer() : store_(open_store(folder_.file())), out_(folder_.file("export.db")) {
    for (const char* name : {"a", "b", "c"}) put_both(*store_, name);
    store_->put_kernel(sample_kernel("compiled only"));
  }
  const TempFolder folder_;
  const std::unique_ptr<Store> store_;
  const std::string out_;
};

TEST_F(Transfer, AnExportIsOneFileThatImportsWhole) {
  ASSERT_EQ(store_->export_to(out_), "");
  EXPECT_EQ(files_in(folder_.path(), "export.db").size(), 1u);
  const auto other = open_store(folder_.file("other.db"));
  ASSERT_EQ(other->import_from(out_), "");
  EXPECT_EQ(other->stats().winners, 3);
  EXPECT_EQ(other->stats().kernels, 4);
  EXPECT_EQ(other->find_winner(sample_key("b"), kCompiler)->evidence, sample_winner("b").evidence);
  EXPECT_EQ(other->find_kernel(hash128("compiled only"))->cubin, sample_kernel("compiled only").cubin);
  EXPECT_TRUE(other->verify(false).empty());
  EXPECT_EQ(files_in(folder_.path(), "export.db").size(), 1u) << "importing leaves nothing beside it";
}

TEST_F(Transfer, AnExportCanBeUsedAsItIs) {
  ASSERT_EQ(store_->export_to(out_), "");
  EXPECT_TRUE(open_store(out_, Mode::kReadOnly)->find_winner(sample_key("a"), kCompiler));
  EXPECT_TRUE(put_both(*open_store(out_), "d"));
}

// Until the row is put again: by who has verified or measured it.
TEST_F(Transfer, AnImportedWinnerIsFromElsewhereUntilItIsPutAgain) {
  ASSERT_EQ(store_->export_to(out_), "");
  const std::string path = folder_.file("other.db");
  const auto whence = [](Store& store, const char* name) {
    return store.find_winner(sample_key(name), kCompiler)->elsewhere;
  };
  {
    const auto other = open_store(path);
    ASSERT_TRUE(put_both(*other, "own"));
    ASSERT_EQ(other->import_from(out_), "");
    EXPECT_EQ(whence(*other, "a"), path);
    EXPECT_EQ(whence(*other, "own"), "");
    EXPECT_EQ(other->stats().quarantined, 0) << "it is not damaged";
    ASSERT_TRUE(other->put_winner(*other->find_winner(sample_key("a"), kCompiler)));
  }
  raw_sql(path, "UPDATE quarantine SET created=0");
  const auto again = open_store(path);
  EXPECT_EQ(again->prune(30, -1).winners, 0);
  EXPECT_EQ(whence(*again, "a"), "");
  EXPECT_EQ(whence(*again, "b"), path) << "other processes know it, too, and a prune forgets nothing";
  ASSERT_EQ(again->import_from(out_), "");
  EXPECT_EQ(whence(*again, "a"), "") << "the older one does not come back";
  EXPECT_EQ(again->forget(sample_winner("b").id()).winners, 1);
  ASSERT_TRUE(put_both(*again, "b"));
  EXPECT_EQ(whence(*again, "b"), "");
}

TEST_F(Transfer, AnImportedWinnerIsNoReasonNotToTuneBeforeItIsVerified) {
  ASSERT_EQ(store_->export_to(out_), "");
  const auto other = open_store(folder_.file("other.db"));
  ASSERT_EQ(other->import_from(out_), "");
  EXPECT_TRUE(other->acquire(sample_key("a")));
  ASSERT_TRUE(other->put_winner(*other->find_winner(sample_key("a"), kCompiler)));
  EXPECT_FALSE(other->acquire(sample_key("a")));
}

// Winners that were verified here run it.
TEST_F(Transfer, AnImportedKernelDoesNotReplaceOneThatIsThere) {
  ASSERT_EQ(store_->export_to(out_), "");
  const auto other = open_store(folder_.file("other.db"));
  KernelRow own = sample_kernel("a");
  own.cubin = "own code";
  ASSERT_TRUE(other->put_kernel(own));
  ASSERT_EQ(other->import_from(out_), "");
  EXPECT_EQ(other->find_kernel(own.key)->cubin, "own code");
  EXPECT_TRUE(other->find_kernel(hash128("b")));
}

TEST_F(Transfer, ALiveCacheImportsToo) {
  const auto other = open_store(folder_.file("other.db"));
  ASSERT_EQ(other->import_from(folder_.file()), "");
  EXPECT_EQ(other->stats().winners, 3);
}

TEST_F(Transfer, ExportReplacesAnOlderExportButNoDatabaseInUse) {
  ASSERT_EQ(store_->export_to(out_), "");
  EXPECT_EQ(store_->export_to(out_), "");
  EXPECT_TRUE(contains(store_->export_to(folder_.file()), "in use"));
  EXPECT_TRUE(contains(store_->export_to(folder_.file("no/such/folder.db")), "No such file or directory"));
  EXPECT_TRUE(files_in(folder_.path(), ".part-").empty());
}

TEST_F(Transfer, ADamagedExportIsRefusedWhole) {
  ASSERT_EQ(store_->export_to(out_), "");
  const std::string good = read_bytes(out_);
  const auto other = open_store(folder_.file("other.db"));
  int refused = 0;
  for (std::size_t offset = 24; offset < good.size(); offset += 997) {
    std::string bad = good;
    bad[offset] = static_cast<char>(bad[offset] ^ 16);
    write_bytes(out_, bad);
    const std::string why = other->import_from(out_);
    if (why.empty()) continue;  // free space within a page: nothing was damaged
    ++refused;
    EXPECT_TRUE(contains(why, out_)) << why;
    ASSERT_EQ(other->stats().kernels, refused && other->stats().winners ? 4 : 0) << offset;
  }
  EXPECT_GT(refused, 3);
}

TEST_F(Transfer, OneBadRowRefusesAll) {
  for (const char* change : {"UPDATE winners SET median_us=1 WHERE kernel='%'",
                             "UPDATE kernels SET cubin=x'00' WHERE key='%'", "DELETE FROM kernels WHERE key='%'"}) {
    ASSERT_EQ(store_->export_to(out_), "");
    std::string sql = change;
    sql.replace(sql.find('%'), 1, hash128("b"));
    raw_sql(out_, sql);
    const auto other = open_store(folder_.file(std::string("other") + std::to_string(sql.size()) + ".db"));
    EXPECT_TRUE(contains(other->import_from(out_), "refused")) << change;
    EXPECT_EQ(other->stats().winners + other->stats().kernels, 0) << change;
  }
}

TEST_F(Transfer, UnknownSchemasAndOtherFilesAreRefused) {
  ASSERT_EQ(store_->export_to(out_), "");
  raw_sql(out_, "PRAGMA user_version=9");
  EXPECT_TRUE(contains(store_->import_from(out_), "schema is version 9"));
  raw_sql(out_, "PRAGMA user_version=2; PRAGMA application_id=5");
  EXPECT_TRUE(contains(store_->import_from(out_), "application id"));
  write_bytes(out_, noise(5000, 1));
  EXPECT_TRUE(contains(store_->import_from(out_), "it is a binary file"));
  EXPECT_EQ(read_bytes(out_), noise(5000, 1)) << "what is imported is never touched";
  write_bytes(out_, "");
  EXPECT_TRUE(contains(store_->import_from(out_), "empty"));
  EXPECT_TRUE(contains(store_->import_from(folder_.file("none.db")), "there is no file"));
  EXPECT_EQ(store_->stats().winners, 3);
}

// Sets when a row was last used; its file may be open.
void set_used(const std::string& path, Place place, const std::string& key, std::int64_t used) {
  Database db(path, Database::Open::kReadWrite);
  Record record;
  ASSERT_TRUE(select_record(db, place, key, Part::kScalars, &record));
  touch(db, record, used);
}

TEST_F(Transfer, ImportKeepsTheNewerWinner) {
  ASSERT_EQ(store_->export_to(out_), "");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // `created` counts seconds
  ASSERT_TRUE(put_both(*store_, "a", 3));
  ASSERT_EQ(store_->import_from(out_), "");
  EXPECT_EQ(store_->find_winner(sample_key("a"), kCompiler)->median_us, 3);
}

TEST_F(Transfer, PruneDropsWhatWasNotUsed) {
  const std::int64_t now = time(nullptr), day = 86400;
  set_used(folder_.file(), Place::kWinners, sample_winner("a").id(), now - 40 * day);
  set_used(folder_.file(), Place::kKernels, hash128("a"), now - 40 * day);
  set_used(folder_.file(), Place::kKernels, hash128("b"), now - 40 * day);  // old, but its winner is not
  EXPECT_EQ(store_->prune(-1, -1).winners, 0);
  const Pruned pruned = store_->prune(30, -1);
  EXPECT_EQ(pruned.winners, 1);
  EXPECT_EQ(pruned.kernels, 1);
  EXPECT_FALSE(store_->find_winner(sample_key("a"), kCompiler));
  EXPECT_FALSE(store_->find_kernel(hash128("a")));
  EXPECT_TRUE(store_->find_kernel(hash128("b")) && store_->find_kernel(hash128("compiled only")));
  set_used(folder_.file(), Place::kKernels, hash128("compiled only"), now - 40 * day);
  EXPECT_EQ(store_->prune(30, -1).kernels, 1) << "compiled long ago and never needed";
  EXPECT_TRUE(store_->verify(false).empty());
}

// A winner that needs several kernels keeps all of them, and is worth nothing without one of them.
class SeveralKernels : public Transfer {
 protected:
  void SetUp() override {
    Transfer::SetUp();
    for (const char* name : {"first", "second"}) ASSERT_TRUE(store_->put_kernel(sample_kernel(name)));
    winner_.kernel = hash128("first") + " " + hash128("second");
    ASSERT_TRUE(store_->put_winner(winner_));
  }
  WinnerRow winner_ = sample_winner("program");
};

TEST_F(SeveralKernels, AreNamedOneByOne) {
  EXPECT_EQ(store_->find_winner(winner_.key, kCompiler)->kernels(),
            (std::vector<std::string>{hash128("first"), hash128("second")}));
  WinnerRow lacking = sample_winner("lacking");
  lacking.kernel = hash128("first") + " " + hash128("nowhere");
  EXPECT_FALSE(store_->put_winner(lacking));
  EXPECT_TRUE(contains(joined(store_->take_warnings()), hash128("nowhere")));
}

TEST_F(SeveralKernels, AreKeptWhileTheirWinnerIs) {
  const std::int64_t old = time(nullptr) - 40 * 86400;
  for (const char* name : {"first", "second"}) set_used(folder_.file(), Place::kKernels, hash128(name), old);
  store_->prune(30, -1);
  EXPECT_TRUE(store_->find_kernel(hash128("first")) && store_->find_kernel(hash128("second")));
  EXPECT_TRUE(store_->verify(false).empty());
  for (const char* name : {"first", "second"}) set_used(folder_.file(), Place::kKernels, hash128(name), old);
  set_used(folder_.file(), Place::kWinners, winner_.id(), old);
  EXPECT_EQ(store_->prune(30, -1).kernels, 2) << "they go with it";
}

TEST_F(SeveralKernels, ShrinkingTakesThemWithTheirWinner) {
  const std::int64_t old = time(nullptr) - 40 * 86400;
  set_used(folder_.file(), Place::kWinners, winner_.id(), old);
  const std::int64_t bytes = Database(folder_.file(), Database::Open::kReadOnly).integer("PRAGMA page_count") * 4096;
  const Pruned pruned = store_->prune(-1, bytes - 4096);
  EXPECT_EQ(pruned.winners, 1);
  EXPECT_EQ(pruned.kernels, 2);
  EXPECT_FALSE(store_->find_winner(winner_.key, kCompiler));
  EXPECT_FALSE(store_->find_kernel(hash128("first")));
  EXPECT_FALSE(store_->find_kernel(hash128("second")));
  EXPECT_TRUE(store_->find_winner(sample_key("a"), kCompiler));
}

TEST_F(SeveralKernels, TravelWithAnExport) {
  ASSERT_EQ(store_->export_to(out_), "");
  const auto other = open_store(folder_.file("other.db"));
  ASSERT_EQ(other->import_from(out_), "");
  EXPECT_EQ(other->find_winner(winner_.key, kCompiler)->kernel, winner_.kernel);
  EXPECT_TRUE(other->find_kernel(hash128("first")) && other->find_kernel(hash128("second")));
  EXPECT_TRUE(other->verify(false).empty());
}

TEST_F(SeveralKernels, ADamagedOneIsAMissForTheirWinner) {
  {
    Database db(folder_.file(), Database::Open::kReadWrite);
    Record record;
    ASSERT_TRUE(select_record(db, Place::kKernels, hash128("second"), Part::kScalars, &record));
    ASSERT_TRUE(delete_record(db, Place::kKernels, record.key()));
  }
  ASSERT_EQ(store_->verify(false).size(), 1u);
  EXPECT_TRUE(contains(store_->verify(false)[0].what, hash128("second")));
  EXPECT_TRUE(store_->acquire(winner_.key)) << "granted: it must be made again";
}

TEST_F(Transfer, PruneZeroDaysEmptiesTheCache) {
  const Pruned pruned = store_->prune(0, -1);
  EXPECT_EQ(pruned.winners, 3);
  EXPECT_EQ(pruned.kernels, 4);
  EXPECT_EQ(store_->stats().kernels, 0);
}

TEST_F(Transfer, PruneToASizeDropsTheLeastRecentlyUsed) {
  const std::int64_t now = time(nullptr);
  for (int i = 0; i < 20; ++i) {
    const std::string name = "big" + std::to_string(i);
    ASSERT_TRUE(store_->put_kernel(sample_kernel(name, 30000)) && store_->put_winner(sample_winner(name)));
    set_used(folder_.file(), Place::kWinners, sample_winner(name).id(), now - 1000 + i);
    set_used(folder_.file(), Place::kKernels, hash128(name), now - 1000 + i);
  }
  const Pruned pruned = store_->prune(-1, 300000);
  EXPECT_GT(pruned.winners, 5);
  EXPECT_EQ(pruned.winners, pruned.kernels);
  EXPECT_GT(pruned.bytes, 150000);
  EXPECT_LE(store_->stats().file_bytes, 300000) << "the file itself has shrunk";
  EXPECT_FALSE(store_->find_winner(sample_key("big0"), kCompiler));
  EXPECT_TRUE(store_->find_winner(sample_key("big19"), kCompiler) && store_->find_kernel(hash128("big19")));
  EXPECT_TRUE(store_->find_winner(sample_key("a"), kCompiler)) << "used later than those";
  EXPECT_TRUE(store_->verify(false).empty());
  store_->prune(-1, 0);
  EXPECT_EQ(store_->stats().kernels + store_->stats().winners, 0);
}

}  // namespace
}  // namespace gqa::cache
