// disk_test.cc: media that cannot be written: read-only, full, or without room in the process's own limits.
// Mounts happen in a child's own mount namespace, so nothing is left behind; where that is not allowed, the test says
// so.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "support.h"

namespace gqa::cache {
namespace {

constexpr int kSkip = 77;

// Runs the body in a child that has a tmpfs of that size mounted on the folder.
int with_tmpfs(const std::string& folder, const std::string& size, const std::function<int()>& body) {
  return exit_code(spawn([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kSkip;
    if (mount("tmpfs", folder.c_str(), "tmpfs", 0, ("mode=0700,size=" + size).c_str()) != 0) return kSkip;
    return body();
  }));
}

// The line that failed, so that a child's exit code says where.
#define CHILD_EXPECT(condition)                                                                \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      std::fprintf(stderr, "%s:%d: false in the child: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                                                \
    }                                                                                          \
  } while (false)

#define EXPECT_CHILD(code)                                                           \
  do {                                                                               \
    const int child_code = (code);                                                   \
    if (child_code == kSkip) GTEST_SKIP() << "this user may not mount a filesystem"; \
    EXPECT_EQ(child_code, 0);                                                        \
  } while (false)

TEST(Disk, AReadOnlyFilesystemIsReadAndNotWritten) {
  const TempFolder folder;
  EXPECT_CHILD(with_tmpfs(folder.path(), "4m", [&] {
    CHILD_EXPECT(put_both(*open_store(folder.file()), "a"));
    CHILD_EXPECT(mount(nullptr, folder.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0);
    const auto store = open_store(folder.file());
    CHILD_EXPECT(store->mode() == Mode::kReadOnly);
    CHILD_EXPECT(store->find_winner(sample_key("a"), kCompiler) && store->find_kernel(hash128("a")));
    CHILD_EXPECT(!put_both(*store, "b"));
    CHILD_EXPECT(store->acquire(sample_key("b")));
    CHILD_EXPECT(store->verify(true).empty());
    CHILD_EXPECT(contains(joined(store->take_warnings()), "nothing new will be kept"));
    CHILD_EXPECT(contains(store->stats().mode, "read-only ("));
    return 0;
  }));
}

TEST(Disk, AReadOnlyFilesystemWithoutAFileIsOff) {
  const TempFolder folder;
  EXPECT_CHILD(with_tmpfs(folder.path(), "4m", [&] {
    CHILD_EXPECT(mount(nullptr, folder.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0);
    const auto store = open_store(folder.file("deeper/cache.db"));
    CHILD_EXPECT(store->mode() == Mode::kOff);
    CHILD_EXPECT(!put_both(*store, "b"));
    CHILD_EXPECT(contains(joined(store->take_warnings()), "Read-only file system"));
    return 0;
  }));
}

TEST(Disk, AFilesystemThatTurnsReadOnlyUnderAnOpenStore) {
  const TempFolder folder;
  EXPECT_CHILD(with_tmpfs(folder.path(), "4m", [&] {
    const std::string bind = folder.path();
    CHILD_EXPECT(put_both(*open_store(folder.file()), "a"));
    const auto store = open_store(folder.file());
    CHILD_EXPECT(store->find_winner(sample_key("a"), kCompiler));
    // A forced remount is refused while files are open for writing; an immutable bind mount over it is what containers
    // do.
    CHILD_EXPECT(mount(bind.c_str(), bind.c_str(), nullptr, MS_BIND, nullptr) == 0);
    CHILD_EXPECT(mount(nullptr, bind.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0);
    CHILD_EXPECT(store->find_winner(sample_key("a"), kCompiler));
    put_both(*store, "b");  // may still be kept through the old descriptor
    CHILD_EXPECT(open_store(folder.file())->find_winner(sample_key("a"), kCompiler));
    return 0;
  }));
}

TEST(Disk, AFullFilesystemIsReadAndSaysSo) {
  const TempFolder folder;
  EXPECT_CHILD(with_tmpfs(folder.path(), "600k", [&] {
    const auto store = open_store(folder.file());
    CHILD_EXPECT(put_both(*store, "a"));
    int kept = 0;
    while (kept < 200 && store->put_kernel(sample_kernel(std::string("k").append(std::to_string(kept)), 20000))) ++kept;
    CHILD_EXPECT(kept > 2 && kept < 60);
    CHILD_EXPECT(contains(joined(store->take_warnings()), "full"));
    CHILD_EXPECT(store->find_winner(sample_key("a"), kCompiler) && store->find_kernel(hash128("k0")));
    CHILD_EXPECT(!store->put_kernel(sample_kernel("more", 200000)));
    CHILD_EXPECT(store->mode() == Mode::kReadWrite);
    CHILD_EXPECT(store->verify(false).empty());
    // Room again: it goes on keeping.
    CHILD_EXPECT(mount(nullptr, folder.path().c_str(), nullptr, MS_REMOUNT, "size=8m") == 0);
    CHILD_EXPECT(put_both(*store, "later"));
    CHILD_EXPECT(store->verify(false).empty());
    return 0;
  }));
}

TEST(Disk, AFullFilesystemAtOpen) {
  const TempFolder folder;
  EXPECT_CHILD(with_tmpfs(folder.path(), "600k", [&] {
    CHILD_EXPECT(put_both(*open_store(folder.file()), "a"));
    write_bytes(folder.file("ballast"), std::string(4 << 20, 'x'));
    {
      const auto store = open_store(folder.file());
      CHILD_EXPECT(store->find_winner(sample_key("a"), kCompiler));
      CHILD_EXPECT(store->acquire(sample_key("b")));
      CHILD_EXPECT(!put_both(*store, "b"));
      CHILD_EXPECT(!store->take_warnings().empty());
      const auto fresh = open_store(folder.file("fresh.db"));
      CHILD_EXPECT(!fresh->find_winner(sample_key("a"), kCompiler));
      CHILD_EXPECT(!put_both(*fresh, "b"));
      CHILD_EXPECT(!fresh->take_warnings().empty());
    }
    unlink(folder.file("ballast").c_str());
    CHILD_EXPECT(put_both(*open_store(folder.file()), "b"));
    CHILD_EXPECT(put_both(*open_store(folder.file("fresh.db")), "b"));
    return 0;
  }));
}

// The same without a mount, for machines that allow none: files may not grow past a limit.
TEST(Disk, AFileThatMayNotGrow) {
  const TempFolder folder;
  ASSERT_TRUE(put_both(*open_store(folder.file()), "a"));
  EXPECT_EQ(exit_code(spawn([&] {
              signal(SIGXFSZ, SIG_IGN);
              const auto store = open_store(folder.file());
              const rlimit limit{120000, 120000};
              CHILD_EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
              CHILD_EXPECT(!store->put_kernel(sample_kernel("big", 200000)));
              CHILD_EXPECT(contains(joined(store->take_warnings()), "could not keep a kernel"));
              CHILD_EXPECT(store->find_winner(sample_key("a"), kCompiler));
              return 0;
            })),
            0);
  const auto store = open_store(folder.file());
  EXPECT_TRUE(store->verify(false).empty());
  EXPECT_TRUE(store->put_kernel(sample_kernel("big", 200000)));
}

}  // namespace
}  // namespace gqa::cache
