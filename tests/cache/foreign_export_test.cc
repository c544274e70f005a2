// foreign_export_test.cc: what an export may be written over, and what an import says to what is no export.
#include <fcntl.h>

#include <thread>

#include "cache/file/sidecars.h"
#include "foreign_support.h"

namespace gqa::cache {
namespace {

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
  EXPECT_TRUE(open_store(out(), Mode::kReadOnly)->find_winner(sample_key("b"), kCompiler));
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
    bool created = false;
    std::jthread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(700 * round));
      const int file = ::open(out().c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
      if (file < 0) return;  // the export was first
      created = ::write(file, "mine", 4) == 4;
      close(file);
    });
    const std::string why = store_->export_to(out());
    other.join();
    EXPECT_EQ(created, read_bytes(out()) == "mine") << round;
    EXPECT_EQ(created, contains(why, out())) << round << why;
    unlink(out().c_str());
  }
  EXPECT_TRUE(files_in(out_folder(), "").empty());
}

TEST_F(ForeignExport, AFileThatIsPutOverTheOlderOneMeanwhileStays) {
  for (int i = 0; i < 40; ++i) store_->put_kernel(sample_kernel("big" + std::to_string(i), 100000));
  ASSERT_EQ(store_->export_to(out("older")), "");
  for (int round = 0; round < 20; ++round) {
    write_bytes(out(), read_bytes(out("older")));
    write_bytes(out("mine"), "mine");
    std::jthread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(700 * round));
      std::filesystem::rename(out("mine"), out());
    });
    store_->export_to(out());
    other.join();
    EXPECT_EQ(read_bytes(out()), "mine") << round;
  }
  EXPECT_EQ(files_in(out_folder(), "").size(), 2u) << "and nothing is left of the attempts";
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
