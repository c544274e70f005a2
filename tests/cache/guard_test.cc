// guard_test.cc: a file that somebody else could have written is refused, in every way it can be.
#include "cache/file/guard.h"

#include "cache/file/sidecars.h"
#include "support.h"

namespace gqa::cache {
namespace {

constexpr uid_t kOtherUser = 12345;

// The file is refused, said why, and not changed.
void expect_refused(const std::string& path, const std::string& named) {
  const std::string before = read_bytes(path);
  {
    const auto store = open_store(path);
    EXPECT_EQ(store->mode(), Mode::kOff);
    EXPECT_FALSE(store->find_winner(sample_key("a"), kCompiler));
    EXPECT_FALSE(put_both(*store, "b"));
    EXPECT_TRUE(store->acquire(sample_key("b")));
    const std::string warnings = joined(store->take_warnings());
    EXPECT_TRUE(contains(warnings, named)) << warnings;
    EXPECT_TRUE(contains(store->stats().mode, "off (")) << store->stats().mode;
    EXPECT_EQ(open_store(path, Mode::kReadOnly)->mode(), Mode::kOff) << "reading would run it too";
  }
  EXPECT_EQ(read_bytes(path), before);
}

class Guard : public testing::Test {
 protected:
  Guard() : path_(folder_.file("in/cache.db")) { put_both(*open_store(path_), "a"); }
  void TearDown() override { EXPECT_TRUE(std::filesystem::exists(path_)); }
  const TempFolder folder_;
  const std::string path_;
};

TEST_F(Guard, AcceptsWhatIsOurs) {
  EXPECT_EQ(guard_complaint(path_), "");
  EXPECT_TRUE(open_store(path_)->find_winner(sample_key("a"), kCompiler));
}

TEST_F(Guard, RefusesAFileThatOthersMayWrite) {
  for (const mode_t mode : {0620, 0602, 0666}) {
    chmod(path_.c_str(), mode);
    expect_refused(path_, "chmod go-w " + path_);
  }
  chmod(path_.c_str(), 0644);
  EXPECT_EQ(open_store(path_)->mode(), Mode::kReadWrite) << "that others read it does no harm";
}

TEST_F(Guard, RefusesAFolderThatOthersMayWrite) {
  for (const mode_t mode : {0770, 0707, 0777}) {
    chmod(folder_.file("in").c_str(), mode);
    expect_refused(path_, "chmod go-w " + folder_.file("in"));
  }
  chmod(folder_.file("in").c_str(), 0755);
  EXPECT_TRUE(open_store(path_)->find_winner(sample_key("a"), kCompiler)) << "put right, it is used again";
}

TEST_F(Guard, RefusesAFolderFurtherUpThatOthersMayWrite) {
  chmod(folder_.path().c_str(), 0777);
  expect_refused(path_, "chmod go-w " + folder_.path());
  chmod(folder_.path().c_str(), 0755);
  EXPECT_TRUE(open_store(path_)->find_winner(sample_key("a"), kCompiler));
}

TEST_F(Guard, AcceptsAStickyFolderLikeTmp) {
  chmod(folder_.file("in").c_str(), 01777);
  EXPECT_TRUE(open_store(path_)->find_winner(sample_key("a"), kCompiler));
}

TEST_F(Guard, RefusesWhatSqliteWouldReadBesideIt) {
  for (const char* sidecar : kSidecars) {
    write_bytes(path_ + sidecar, "frames of somebody's");
    chmod((path_ + sidecar).c_str(), 0666);
    expect_refused(path_, path_ + sidecar);
    unlink((path_ + sidecar).c_str());
    EXPECT_TRUE(open_store(path_)->find_winner(sample_key("a"), kCompiler)) << sidecar;
  }
}

TEST_F(Guard, RefusesAFolderInTheFilesPlace) {
  const auto store = open_store(folder_.file("in"));
  EXPECT_EQ(store->mode(), Mode::kOff);
  EXPECT_TRUE(contains(joined(store->take_warnings()), folder_.file("in") + " is left untouched: it is a directory"));
}

TEST_F(Guard, RefusesOtherOwners) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(chown(path_.c_str(), kOtherUser, kOtherUser), 0);
  expect_refused(path_, "belongs to user 12345");
  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  ASSERT_EQ(chown(folder_.file("in").c_str(), kOtherUser, kOtherUser), 0);
  expect_refused(path_, "belongs to user 12345");
}

TEST_F(Guard, RefusesALinkThatSomebodyPlantedInTmp) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  chmod(folder_.path().c_str(), 01777);
  const std::string link = folder_.file("planted.db");
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_EQ(guard_complaint(link), "") << "a link of our own is fine";
  ASSERT_EQ(lchown(link.c_str(), kOtherUser, kOtherUser), 0);
  expect_refused(link, "belongs to user 12345");
}

TEST_F(Guard, AnotherUserReadsRootsFileAndCannotWriteIt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  chmod(folder_.path().c_str(), 0755);
  chmod(folder_.file("in").c_str(), 0755);
  chmod(path_.c_str(), 0644);
  const pid_t child = spawn([&] {
    if (setgid(kOtherUser) != 0 || setuid(kOtherUser) != 0) return 1;
    const auto store = open_store(path_);
    if (store->mode() != Mode::kReadOnly) return 2;
    if (!store->find_winner(sample_key("a"), kCompiler)) return 3;
    if (put_both(*store, "b")) return 4;
    return contains(joined(store->take_warnings()), "nothing new will be kept") ? 0 : 5;
  });
  EXPECT_EQ(exit_code(child), 0);
}

}  // namespace
}  // namespace gqa::cache
