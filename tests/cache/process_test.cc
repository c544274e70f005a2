// process_test.cc: many processes on one file, and processes that die: real ones, with real signals.
#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "support.h"

namespace gqa::cache {
namespace {

using std::chrono::steady_clock;

// Memory that children share with the test.
template <class T>
class Shared {
 public:
  Shared() : at_(new (mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) T()) {}
  ~Shared() { munmap(at_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return at_; }

 private:
  T* at_;
};

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

template <class Condition>
bool wait_until(const Condition& condition, double seconds = 20) {
  const auto start = steady_clock::now();
  while (!condition()) {
    if (seconds_since(start) > seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// What a session does with a shape it has not seen. True if it has the winner in the end.
bool find_or_tune(Store& store, const std::string& name, std::atomic<int>* tuned, std::chrono::milliseconds work) {
  const WinnerKey key = sample_key(name);
  if (store.find_winner(key, kCompiler)) return true;
  const auto lease = store.acquire(key);
  if (!lease) return store.find_winner(key, kCompiler).has_value();
  *tuned += 1;
  std::this_thread::sleep_for(work);
  return put_both(store, name) && store.find_winner(key, kCompiler);
}

struct Counters {
  std::atomic<int> tuned{0}, ready{0}, go{0}, progress{0};
};

TEST(Processes, SixteenMissAtOnceAndOneTunes) {
  for (int round = 0; round < 3; ++round) {
    const TempFolder folder;
    const Shared<Counters> counters;
    std::vector<pid_t> children;
    for (int i = 0; i < 16; ++i) {
      children.push_back(spawn([&] {
        counters->ready += 1;
        while (counters->go == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const auto store = open_store(folder.file());  // the file is not even there yet
        return find_or_tune(*store, "shape", &counters->tuned, std::chrono::milliseconds(150)) ? 0 : 1;
      }));
    }
    ASSERT_TRUE(wait_until([&] { return counters->ready == 16; }));
    counters->go = 1;
    for (const pid_t child : children) EXPECT_EQ(exit_code(child), 0);
    EXPECT_EQ(counters->tuned, 1);
    EXPECT_TRUE(open_store(folder.file())->verify(false).empty());
    EXPECT_EQ(open_store(folder.file())->stats().leases, 0);
  }
}

TEST(Processes, DifferentShapesDoNotWaitForEachOther) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  const auto one = store->acquire(sample_key("a"));
  const auto start = steady_clock::now();
  const auto two = store->acquire(sample_key("b"));
  EXPECT_TRUE(one && two);
  EXPECT_LT(seconds_since(start), 1);
}

// A child that takes the lease and keeps it until it is killed.
pid_t spawn_holder(const std::string& path, double lease_seconds, const Shared<Counters>& counters) {
  return spawn([&counters, path, lease_seconds] {
    const auto store = open_store(path, Mode::kReadWrite, lease_seconds);
    const auto lease = store->acquire(sample_key("shape"));
    counters->ready += 1;
    while (true) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return lease ? 0 : 1;
  });
}

TEST(Processes, AKilledHolderIsTakenOverAtOnce) {
  const TempFolder folder;
  const Shared<Counters> counters;
  const pid_t holder = spawn_holder(folder.file(), 30, counters);
  ASSERT_TRUE(wait_until([&] { return counters->ready == 1; }));
  const pid_t waiter = spawn([&] {
    const auto store = open_store(folder.file());
    counters->ready += 1;
    return find_or_tune(*store, "shape", &counters->tuned, std::chrono::milliseconds(1)) ? 0 : 1;
  });
  ASSERT_TRUE(wait_until([&] { return counters->ready == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(counters->tuned, 0) << "the holder lives";
  const auto killed = steady_clock::now();
  kill(holder, SIGKILL);  // not reaped: a zombie does not tune either
  EXPECT_EQ(exit_code(waiter), 0);
  EXPECT_LT(seconds_since(killed), 5) << "long before the lease's 30 s are over";
  EXPECT_EQ(counters->tuned, 1);
  waitpid(holder, nullptr, 0);
}

TEST(Processes, AStoppedHolderIsTakenOverWhenItsLeaseExpires) {
  const TempFolder folder;
  const Shared<Counters> counters;
  const pid_t holder = spawn_holder(folder.file(), 0.6, counters);
  ASSERT_TRUE(wait_until([&] { return counters->ready == 1; }));
  const auto stopped = steady_clock::now();
  kill(holder, SIGSTOP);  // alive, but its lease is not renewed
  {
    const auto store = open_store(folder.file());
    EXPECT_TRUE(find_or_tune(*store, "shape", &counters->tuned, std::chrono::milliseconds(1)));
  }
  EXPECT_EQ(counters->tuned, 1);
  EXPECT_GT(seconds_since(stopped), 0.2);
  EXPECT_LT(seconds_since(stopped), 5);
  kill_and_reap(holder);
}

TEST(Processes, AHeldLeaseIsRenewedByItself) {
  const TempFolder folder;
  const Shared<Counters> counters;
  const pid_t holder = spawn([&] {
    const auto store = open_store(folder.file(), Mode::kReadWrite, 0.3);
    counters->ready += 1;
    return find_or_tune(*store, "shape", &counters->tuned, std::chrono::milliseconds(1500))
               ? 0
               : 1;  // five lives of its lease
  });
  ASSERT_TRUE(wait_until([&] { return counters->tuned == 1; }));
  const auto store = open_store(folder.file(), Mode::kReadWrite, 0.3);
  EXPECT_TRUE(find_or_tune(*store, "shape", &counters->tuned, std::chrono::milliseconds(1)));
  EXPECT_EQ(counters->tuned, 1);
  EXPECT_EQ(exit_code(holder), 0);
}

TEST(Processes, ReleaseWithoutAWinnerLetsTheNextTry) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  auto lease = store->acquire(sample_key("shape"));
  ASSERT_TRUE(lease);
  EXPECT_EQ(store->stats().leases, 1);
  std::atomic<bool> granted = false;
  std::thread other([&] {
    const auto second = store->acquire(sample_key("shape"));
    granted = second != nullptr;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(granted);
  lease.reset();
  other.join();
  EXPECT_TRUE(granted);
  EXPECT_EQ(store->stats().leases, 0);
}

TEST(Processes, ADamagedLeaseBlocksNobody) {
  const TempFolder folder;
  const auto store = open_store(folder.file());
  ASSERT_TRUE(put_both(*store, "other"));
  raw_sql(folder.file(), "INSERT INTO leases VALUES('" + sample_key("shape").digest() +
                             "', 'o', 'm', 1, 1, 1, 9999999999999, 9999999999, 'no checksum')");
  const auto start = steady_clock::now();
  EXPECT_TRUE(store->acquire(sample_key("shape")));
  EXPECT_LT(seconds_since(start), 1);
}

TEST(Processes, ALeaseOutlivesItsStore) {
  const TempFolder folder;
  std::unique_ptr<Lease> lease;
  {
    const auto store = open_store(folder.file());
    lease = store->acquire(sample_key("shape"));
  }
  lease->renew();
  EXPECT_EQ(open_store(folder.file())->stats().leases, 1);
  lease.reset();
  EXPECT_EQ(open_store(folder.file())->stats().leases, 0);
}

TEST(Processes, AForkedChildMayGoOnUsingTheStore) {
  const TempFolder folder;
  auto store = open_store(folder.file());
  ASSERT_TRUE(put_both(*store, "parents"));
  const pid_t child = spawn([&] {
    if (!store->find_winner(sample_key("parents"), kCompiler)) return 1;
    if (!put_both(*store, "childs")) return 2;
    store.reset();
    return 0;
  });
  EXPECT_EQ(exit_code(child), 0);
  EXPECT_TRUE(store->find_winner(sample_key("childs"), kCompiler));
  EXPECT_TRUE(put_both(*store, "parents again"));
  EXPECT_TRUE(store->verify(false).empty());
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process that has threads
TEST(Processes, AForkedChildDoesNotReleaseItsParentsLease) {
  const TempFolder folder;
  auto store = open_store(folder.file());
  auto lease = store->acquire(sample_key("shape"));
  const pid_t child = spawn([&] {
    lease.reset();
    return 0;
  });
  EXPECT_EQ(exit_code(child), 0);
  EXPECT_EQ(store->stats().leases, 1);
}
#endif

// Puts rows until it is killed, and says how many are done.
int write_until_killed(const std::string& path, const Shared<Counters>& counters, int round) {
  const auto store = open_store(path);
  for (int i = 0;; ++i) {
    const std::string name = std::to_string(round) + "." + std::to_string(i);
    if (!put_both(*store, name)) return 1;
    counters->progress = i + 1;
    if (i % 7 == 6) store->prune(-1, 400000);
  }
}

TEST(Processes, KillNineAtAnyMomentLeavesAFileThatVerifiesSlow) {
  const TempFolder folder;
  const Shared<Counters> counters;
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    counters->progress = 0;
    const pid_t writer = spawn([&] { return write_until_killed(folder.file(), counters, round); });
    const pid_t second = spawn([&] { return write_until_killed(folder.file(), counters, 1000 + round); });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40000));
    kill_and_reap(writer);
    kill_and_reap(second);
    const auto store = open_store(folder.file());
    ASSERT_EQ(store->mode(), Mode::kReadWrite);
    const auto damages = store->verify(false);
    ASSERT_TRUE(damages.empty()) << "round " << round << ": " << damages[0].table << " " << damages[0].what;
    ASSERT_EQ(joined(store->take_warnings()), "");
  }
  EXPECT_TRUE(set_aside_in(folder.path()).empty());
}

TEST(Processes, APutThatReturnedSurvivesKillNine) {
  const TempFolder folder;
  const Shared<Counters> counters;
  const pid_t writer = spawn([&] {
    const auto store = open_store(folder.file());
    for (int i = 0;; ++i) {
      if (!put_both(*store, "row" + std::to_string(i))) return 1;
      counters->progress = i + 1;
    }
  });
  ASSERT_TRUE(wait_until([&] { return counters->progress >= 20; }));
  kill_and_reap(writer);
  const auto store = open_store(folder.file());
  for (int i = 0; i < counters->progress; ++i) {
    EXPECT_TRUE(store->find_winner(sample_key("row" + std::to_string(i)), kCompiler)) << i;
  }
}

TEST(Processes, KillNineWhileTheFileIsBegunSlow) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const TempFolder folder;
    const pid_t child = spawn([&] { return put_both(*open_store(folder.file()), "a") ? 0 : 1; });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    kill_and_reap(child);
    const auto store = open_store(folder.file());
    EXPECT_EQ(store->mode(), Mode::kReadWrite) << joined(store->take_warnings());
    EXPECT_TRUE(put_both(*store, "b"));
    EXPECT_TRUE(set_aside_in(folder.path()).empty()) << joined(store->take_warnings());
  }
}

}  // namespace
}  // namespace gqa::cache
