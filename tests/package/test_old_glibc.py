"""What old_glibc.c does by itself, where glibc has nothing to hand on to: as on a machine with 2.28."""
import support

PROGRAM = r"""
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <thread>

using Clock = std::chrono::steady_clock;

static void thrower(int depth) {
  if (!depth) throw std::runtime_error("thrown");
  std::string held(depth, 'x');
  thrower(depth - 1);
}

int main() {
  try {
    thrower(5);
    return 1;
  } catch (const std::runtime_error& error) {
    std::printf("%s\n", error.what());
  }
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  auto start = Clock::now();
  if (condition.wait_until(lock, start + std::chrono::milliseconds(150)) != std::cv_status::timeout) return 2;
  auto waited = Clock::now() - start;
  if (waited < std::chrono::milliseconds(150) || waited > std::chrono::seconds(20)) return 3;
  bool told = false;
  std::thread other([&] { std::lock_guard guard(mutex); told = true; condition.notify_one(); });
  if (!condition.wait_until(lock, start + std::chrono::minutes(1), [&] { return told; })) return 4;
  lock.unlock();
  other.join();
  if (Clock::now() - start > std::chrono::seconds(30)) return 5;
  if (condition.wait_until(lock = std::unique_lock(mutex), start) != std::cv_status::timeout) return 6;
  std::random_device device;
  if (device() == device() && device() == device()) return 7;
  struct stat here, folder;
  if (stat("/proc/self/exe", &here) || !S_ISREG(here.st_mode) || here.st_size < 1000) return 8;
  if (lstat("/proc/self/exe", &here) || !S_ISLNK(here.st_mode) || stat("/", &folder) || !S_ISDIR(folder.st_mode)) return 9;
  if (!stat("/no such file", &here)) return 10;
}
"""


class OldGlibc(support.Scratch):
    def test_exceptions_waits_and_random_numbers(self):
        source = support.ROOT / "cmake/portable/old_glibc.c"
        options = ["-O1", "-D_GNU_SOURCE"]
        self.run_it("cc", "-c", *options, "-fno-builtin",
                    "-Dnewer(name,found,looked)=((void)(found),(void)(looked),(void*)0)", source, "-o", self.folder / "old_glibc.o")
        self.run_it("c++", "-std=c++17", *options, self.write("program.cc", PROGRAM), self.folder / "old_glibc.o",
                    "-static-libstdc++", "-static-libgcc", "-l:libpthread.so.0", "-l:libdl.so.2", "-o",
                    self.folder / "program")
        self.assertEqual(self.run_it(self.folder / "program"), "thrown\n")
