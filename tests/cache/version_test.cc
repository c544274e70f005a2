// version_test.cc: files of the version before, rows of several compilers under one key, guesses and what replaces
// them, and the kernels that verify others.
#include <thread>

#include "cache/rows.h"
#include "cache/schema.h"
#include "support.h"

namespace gqa::cache {
namespace {

// A file that schema 1 wrote: two winners with their kernels, and a kernel alone.
std::string older_file() { return read_bytes(GQA_FIXTURE_DIR "/schema_1.db"); }

TEST(OlderSchema, IsSetAsideAndANewFileBegun) {
  const TempFolder folder;
  const std::string older = older_file();
  ASSERT_GT(older.size(), 4096u);
  write_bytes(folder.file(), older);
  const auto store = open_store(folder.file());
  EXPECT_EQ(store->mode(), Mode::kReadWrite);
  EXPECT_TRUE(store->list_winners().empty() && store->list_kernels().empty()) << "none of its rows is taken for one";
  const auto aside = files_in(folder.path(), "cache.db.older-");
  ASSERT_EQ(aside.size(), 1u);
  EXPECT_EQ(read_bytes(aside[0]), older) << "nothing is thrown away";
  const std::string warnings = joined(store->take_warnings());
  EXPECT_TRUE(contains(warnings, "its schema is version 1, of an older gqa")) << warnings;
  EXPECT_TRUE(contains(warnings, aside[0])) << warnings;
  EXPECT_TRUE(put_both(*store, "a"));
  EXPECT_TRUE(open_store(folder.file())->find_winner(sample_key("a"), kCompiler));
}

TEST(OlderSchema, IsNotReadWhereNothingMayBeWritten) {
  const TempFolder folder;
  write_bytes(folder.file(), older_file());
  const auto store = open_store(folder.file(), Mode::kReadOnly);
  EXPECT_EQ(store->mode(), Mode::kOff);
  EXPECT_TRUE(contains(joined(store->take_warnings()), "its schema is version 1, of an older gqa"));
  EXPECT_EQ(read_bytes(folder.file()), older_file());
  EXPECT_EQ(files_in(folder.path(), "").size(), 1u);
}

TEST(OlderSchema, IsNotImported) {
  const TempFolder folder;
  write_bytes(folder.file("older.db"), older_file());
  const auto store = open_store(folder.file());
  const std::string why = store->import_from(folder.file("older.db"));
  EXPECT_TRUE(contains(why, "its schema is version 1, of an older gqa; expected an exported gqa cache of schema 2"))
      << why;
  EXPECT_EQ(store->stats().winners + store->stats().kernels, 0);
  EXPECT_EQ(read_bytes(folder.file("older.db")), older_file());
}

// Its rows under this version's number are not rows of this version.
TEST(OlderSchema, ThatClaimsToBeThisOneIsDamaged) {
  const TempFolder folder;
  write_bytes(folder.file(), older_file());
  raw_sql(folder.file(), "PRAGMA user_version=2");
  const auto store = open_store(folder.file());
  EXPECT_TRUE(store->list_winners().empty() && store->list_kernels().empty());
  EXPECT_EQ(set_aside_in(folder.path()).size(), 1u) << joined(store->take_warnings());
}

TEST(Keys, OfAKernelAreSourceArchitectureAndCompiler) {
  const std::string key = kernel_key("c", "sm_90a", "nvrtc 13.0");
  EXPECT_EQ(key.size(), kIdDigits);
  EXPECT_EQ(kernel_key("c", "sm_90a", "nvrtc 13.0"), key);
  const std::string shared = key.substr(0, kKeyDigits);
  EXPECT_NE(kernel_key("d", "sm_90a", "nvrtc 13.0").substr(0, kKeyDigits), shared);
  EXPECT_NE(kernel_key("c", "sm_90", "nvrtc 13.0").substr(0, kKeyDigits), shared);
  EXPECT_NE(kernel_key("cs", "m_90a", "nvrtc 13.0").substr(0, kKeyDigits), shared) << "parts do not run together";
  EXPECT_EQ(kernel_key("c", "sm_90a", "nvrtc 13.1").substr(0, kKeyDigits), shared);
  EXPECT_NE(kernel_key("c", "sm_90a", "nvrtc 13.1"), key);
}

class Compilers : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(store_->put_kernel(sample_kernel("a"))); }

  WinnerRow row_of(const std::string& compiler, double median_us = 12.5) const {
    WinnerRow row = sample_winner("a", median_us);
    row.compiler = compiler;
    return row;
  }
  // What find_winners gives, a letter a compiler: "b" for "nvrtc b".
  std::string order(const std::string& compiler) {
    std::string letters;
    for (const WinnerRow& row : store_->find_winners(sample_key("a"), compiler)) letters += row.compiler.back();
    return letters;
  }
  // Rows count seconds; these are made apart.
  void make_created(const WinnerRow& row, std::int64_t created) {
    Database db(folder_.file(), Database::Open::kReadWrite);
    WinnerRow dated = row;
    dated.created = dated.used = created;
    insert_record(db, record_of(dated));
  }

  const TempFolder folder_;
  const std::unique_ptr<Store> store_ = open_store(folder_.file());
};

TEST_F(Compilers, EachHasARowOfItsOwn) {
  ASSERT_TRUE(store_->put_winner(row_of("nvrtc a", 1)) && store_->put_winner(row_of("nvrtc b", 2)));
  EXPECT_EQ(store_->find_winner(sample_key("a"), "nvrtc a")->median_us, 1);
  EXPECT_EQ(store_->find_winner(sample_key("a"), "nvrtc b")->median_us, 2);
  ASSERT_TRUE(store_->put_winner(row_of("nvrtc b", 3)));
  EXPECT_EQ(store_->find_winner(sample_key("a"), "nvrtc a")->median_us, 1) << "another's row stays";
  EXPECT_EQ(store_->find_winner(sample_key("a"), "nvrtc b")->median_us, 3);
  EXPECT_EQ(store_->list_winners().size(), 2u);
  EXPECT_TRUE(store_->verify(false).empty());
}

TEST_F(Compilers, ThePresentOnesComesFirstThenTunedThenTheNewest) {
  make_created(row_of("nvrtc a"), 100);
  make_created(row_of("nvrtc b"), 300);
  make_created(row_of("nvrtc c"), 200);
  WinnerRow guess = row_of("nvrtc d");
  guess.provisional = true;
  make_created(guess, 400);
  EXPECT_EQ(order("nvrtc a"), "abcd");
  EXPECT_EQ(order("nvrtc c"), "cbad");
  EXPECT_EQ(order("nvrtc d"), "dbca");
  EXPECT_EQ(order("nvrtc none"), "bcad");
  EXPECT_EQ(store_->find_winner(sample_key("a"), "nvrtc none")->compiler, "nvrtc b");
}

TEST_F(Compilers, ADamagedRowLeavesTheOthers) {
  ASSERT_TRUE(store_->put_winner(row_of("nvrtc a")) && store_->put_winner(row_of("nvrtc b")));
  raw_sql(folder_.file(), "UPDATE winners SET families='warpgroup=4' WHERE compiler='nvrtc a'");
  EXPECT_EQ(order("nvrtc a"), "b");
  EXPECT_EQ(store_->stats().quarantined, 1);
}

TEST_F(Compilers, ARowIsNotTakenForAnotherCompilers) {
  ASSERT_TRUE(store_->put_winner(row_of("nvrtc a")));
  Database db(folder_.file(), Database::Open::kReadWrite);
  Record record = record_of(row_of("nvrtc a"));
  record.cells[4] = std::string("nvrtc b");  // with a checksum that holds, under the id of the other
  const std::size_t checksum = record.cells.size() - 2;
  record.cells[checksum] = row_checksum(record.cells, checksum);
  insert_record(db, record);
  EXPECT_EQ(order("nvrtc a"), "");
  EXPECT_TRUE(contains(joined(store_->take_warnings()), "its key and its id differ"));
}

TEST_F(Compilers, TravelTogether) {
  ASSERT_TRUE(store_->put_winner(row_of("nvrtc a", 1)) && store_->put_winner(row_of("nvrtc b", 2)));
  ASSERT_EQ(store_->export_to(folder_.file("out.db")), "");
  const auto other = open_store(folder_.file("other.db"));
  ASSERT_TRUE(other->put_kernel(sample_kernel("a")) && other->put_winner(row_of("nvrtc c", 3)));
  ASSERT_EQ(other->import_from(folder_.file("out.db")), "");
  EXPECT_EQ(other->find_winners(sample_key("a"), "nvrtc c").size(), 3u);
  EXPECT_EQ(other->find_winner(sample_key("a"), "nvrtc c")->median_us, 3);
}

TEST_F(Compilers, ALeaseIsForTheKeyAndGrantedUntilARowSuits) {
  ASSERT_TRUE(store_->put_winner(row_of("nvrtc a")));
  EXPECT_FALSE(store_->acquire(sample_key("a"))) << "any row does";
  const Suits own = [](const WinnerRow& row) { return row.compiler == "nvrtc b"; };
  const auto held = store_->acquire(sample_key("a"), own);
  ASSERT_TRUE(held);
  EXPECT_EQ(store_->stats().leases, 1);
  std::thread tuner([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(open_store(folder_.file())->put_winner(row_of("nvrtc b")));
  });
  EXPECT_FALSE(store_->acquire(sample_key("a"), own)) << "waited for the lease's holder, who put it";
  tuner.join();
}

TEST_F(Compilers, AKernelOfAnotherServesWhereThePresentOneMadeNone) {
  const auto made_by = [&](const std::string& compiler) {
    KernelRow row = sample_kernel("k");
    row.compiler = compiler;
    row.key = kernel_key(row.closure, row.arch, compiler);
    row.ptx = compiler;
    return row;
  };
  const std::string wanted = made_by("nvrtc c").key;
  EXPECT_FALSE(store_->find_kernel_of_any_compiler(wanted));
  ASSERT_TRUE(store_->put_kernel(made_by("nvrtc a")));
  EXPECT_FALSE(store_->find_kernel(wanted));
  ASSERT_TRUE(store_->find_kernel_of_any_compiler(wanted));
  EXPECT_EQ(store_->find_kernel_of_any_compiler(wanted)->ptx, "nvrtc a");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // `created` counts seconds
  ASSERT_TRUE(store_->put_kernel(made_by("nvrtc b")));
  EXPECT_EQ(store_->find_kernel_of_any_compiler(wanted)->ptx, "nvrtc b") << "the newest";
  raw_sql(folder_.file(), "UPDATE kernels SET cubin=x'00' WHERE compiler='nvrtc b'");
  EXPECT_EQ(store_->find_kernel_of_any_compiler(wanted)->ptx, "nvrtc a") << "that holds";
  ASSERT_TRUE(store_->put_kernel(made_by("nvrtc c")));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  ASSERT_TRUE(store_->put_kernel(made_by("nvrtc a")));
  EXPECT_EQ(store_->find_kernel_of_any_compiler(wanted)->ptx, "nvrtc c") << "its own, though another is newer";
  KernelRow elsewhere = made_by("nvrtc c");
  EXPECT_FALSE(store_->find_kernel_of_any_compiler(kernel_key(elsewhere.closure, "sm_80", "nvrtc c")));
}

TEST_F(Compilers, AGuessGivesWayToWhatIsTuned) {
  WinnerRow guess = row_of("nvrtc a", 0);
  guess.provisional = true;
  ASSERT_TRUE(store_->put_winner(guess));
  EXPECT_TRUE(store_->find_winner(sample_key("a"), "nvrtc a")->provisional);
  EXPECT_EQ(store_->stats().provisional, 1);
  EXPECT_FALSE(store_->acquire(sample_key("a")));
  EXPECT_TRUE(store_->acquire(sample_key("a"), [](const WinnerRow& row) { return !row.provisional; }));
  ASSERT_TRUE(store_->put_winner(row_of("nvrtc a", 7)));
  EXPECT_FALSE(store_->put_winner(guess)) << "it is tuned already";
  EXPECT_EQ(store_->find_winner(sample_key("a"), "nvrtc a")->median_us, 7);
  guess.families = "warpgroup=4";
  EXPECT_TRUE(store_->put_winner(guess)) << "what was tuned is of another version";
  EXPECT_TRUE(store_->find_winner(sample_key("a"), "nvrtc a")->provisional);
  EXPECT_EQ(joined(store_->take_warnings()), "");
}

TEST_F(Compilers, AnImportedGuessGivesWayToo) {
  WinnerRow guess = row_of("nvrtc a", 0);
  guess.provisional = true;
  make_created(guess, time(nullptr) + 1000);
  ASSERT_EQ(store_->export_to(folder_.file("out.db")), "");
  const auto other = open_store(folder_.file("other.db"));
  ASSERT_TRUE(other->put_kernel(sample_kernel("a")) && other->put_winner(row_of("nvrtc a", 7)));
  ASSERT_EQ(other->import_from(folder_.file("out.db")), "");
  EXPECT_EQ(other->find_winner(sample_key("a"), "nvrtc a")->median_us, 7);
}

// ---- the kernels that verify others

KernelRow check_row(const std::string& name, const std::string& arch = "sm_90a",
                    std::string_view family = kCheckFamily) {
  KernelRow row = sample_kernel(name);
  row.family = family;
  row.arch = arch;
  return row;
}

class CheckKernels : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(put_both(*store_, "a") && store_->put_kernel(sample_kernel("alone")));
    ASSERT_TRUE(store_->put_kernel(check_row("check")) && store_->put_kernel(check_row("other check", "sm_80")));
  }
  bool has(const std::string& name) { return store_->find_kernel(hash128(name)).has_value(); }
  void set_used(Place place, const std::string& key, std::int64_t used) {
    Database db(folder_.file(), Database::Open::kReadWrite);
    Record record;
    ASSERT_TRUE(select_record(db, place, key, Part::kScalars, &record));
    touch(db, record, used);
  }

  const TempFolder folder_;
  const std::unique_ptr<Store> store_ = open_store(folder_.file());
};

TEST_F(CheckKernels, TravelWithAnExport) {
  ASSERT_EQ(store_->export_to(folder_.file("out.db")), "");
  const auto other = open_store(folder_.file("other.db"));
  ASSERT_EQ(other->import_from(folder_.file("out.db")), "");
  ASSERT_TRUE(other->find_kernel(hash128("check")));
  EXPECT_EQ(other->find_kernel(hash128("check"))->family, kCheckFamily);
}

TEST_F(CheckKernels, StayWhileAKernelOfTheirArchitectureDoes) {
  const std::int64_t old = time(nullptr) - 40 * 86400;
  for (const char* name : {"check", "other check"}) set_used(Place::kKernels, hash128(name), old);
  EXPECT_EQ(store_->prune(30, -1).kernels, 1);
  EXPECT_TRUE(has("check"));
  EXPECT_FALSE(has("other check")) << "nothing of its architecture is there";
  for (const char* name : {"a", "alone", "check"}) set_used(Place::kKernels, hash128(name), old);
  EXPECT_EQ(store_->prune(30, -1).kernels, 1) << "the one without a winner";
  EXPECT_TRUE(has("check") && has("a"));
  set_used(Place::kWinners, sample_winner("a").id(), old);
  for (const char* name : {"a", "check"}) set_used(Place::kKernels, hash128(name), old);  // has() had noted a use
  EXPECT_EQ(store_->prune(30, -1).kernels, 2);
  EXPECT_FALSE(has("check"));
}

TEST_F(CheckKernels, OnlyTheNewestOfACompilerStays) {
  const std::int64_t old = time(nullptr) - 40 * 86400;
  KernelRow newer = check_row("newer check");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // `created` counts seconds
  ASSERT_TRUE(store_->put_kernel(newer));
  KernelRow others = check_row("another compiler's");
  others.compiler = "nvrtc 12.9";
  ASSERT_TRUE(store_->put_kernel(others));
  for (const char* name : {"check", "newer check", "another compiler's"}) set_used(Place::kKernels, hash128(name), old);
  EXPECT_EQ(store_->prune(30, -1).kernels, 1);
  EXPECT_FALSE(has("check"));
  EXPECT_TRUE(has("newer check") && has("another compiler's"));
}

TEST_F(CheckKernels, SoDoesWhatMergesStates) {
  const std::int64_t old = time(nullptr) - 40 * 86400;
  ASSERT_TRUE(store_->put_kernel(check_row("merge", "sm_90a", kMergeFamily)));
  ASSERT_TRUE(store_->put_kernel(check_row("other merge", "sm_80", kMergeFamily)));
  for (const char* name : {"check", "other check", "merge", "other merge"})
    set_used(Place::kKernels, hash128(name), old);
  EXPECT_EQ(store_->prune(30, -1).kernels, 2);
  EXPECT_TRUE(has("check") && has("merge")) << "one of each family";
  EXPECT_FALSE(has("other merge"));
}

TEST_F(CheckKernels, ShrinkingTakesThemLast) {
  for (const char* name : {"check", "other check"}) set_used(Place::kKernels, hash128(name), 1000);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(store_->put_kernel(sample_kernel("big" + std::to_string(i), 30000)));
  const Pruned pruned = store_->prune(-1, 300000);
  EXPECT_GT(pruned.kernels, 5);
  EXPECT_TRUE(has("check"));
  EXPECT_FALSE(has("other check"));
  store_->prune(-1, 0);
  EXPECT_EQ(store_->stats().kernels, 0) << "with the last kernel of their architecture they go";
}

}  // namespace
}  // namespace gqa::cache
