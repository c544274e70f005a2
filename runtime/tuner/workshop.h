// workshop.h: several kernels being made at once.
// Owns: the compile threads and the queue of finished kernels; takes a kernel from the store where it has it, keeps in
// the store each one it makes. Background: compile threads that nobody waits for any more.
// Never: loads, verifies or times a kernel.
// Threads: made and used by one thread; its own threads compile, best rank first. The destructor lets no new
// compilation start and joins; or, where the effort was cancelled, leaves those under way to the background.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cache/store.h"
#include "runtime/device.h"

namespace gqa {

// Joins its threads when it goes: before the device and the store that they use.
class Background {
 public:
  Background() = default;
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  void take(std::vector<std::thread> threads);

 private:
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

// How a kernel is made, and what it is kept under; it owns all that it needs but for the device.
struct Recipe {
  std::function<std::string()> key;  // asked on a compile thread: it takes the kernel's whole source
  std::function<Status(Binary*)> compile;
  std::string problem, candidate;  // what it is made for, and with: notes in its row
};
Recipe recipe_of(const Device& device, const Problem& problem, const Candidate& candidate);
// key: the kernel's kernel_key().
Recipe recipe_of(const Device& device, const PlannedKernel& kernel, const std::string& key);

struct Made {
  std::size_t index = 0;  // into the recipes given
  std::string key;
  Status status;
  Binary binary;
  bool from_store = false;
};

// The stored kernel as what a device loads.
Binary binary_of(cache::KernelRow row);

class Workshop {
 public:
  // `may_start` is asked before each compilation, on a compile thread: false leaves the rest unmade. It is asked no
  // more once stop() has returned. Null background: the destructor always joins.
  Workshop(const Device& device, cache::Store& store, std::vector<Recipe> recipes, int threads,
           std::function<bool()> may_start, const Effort& effort = Effort(0), Background* background = nullptr);
  ~Workshop();
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  // Waits for the next finished kernel; nothing once all are taken, the rest will not be made, or the effort is
  // cancelled.
  std::optional<Made> next();
  void stop();  // starts no further compilation; what is under way finishes

  // Makes one kernel anew, whatever the store holds, on the caller's thread.
  static Made make(const Device& device, cache::Store& store, const Recipe& recipe);

 private:
  struct Bench;  // what the compile threads share; it lives as long as any of them
  const std::shared_ptr<Bench> bench_;
  const Effort effort_;
  Background* const background_;
  std::vector<std::thread> threads_;
};

}  // namespace gqa
