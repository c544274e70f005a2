// workshop.h: several kernels being made at once.
// Owns: the compile threads and the queue of finished kernels; takes a kernel from the store where it has it, keeps in
// the store each one it makes.
// Never: loads, verifies or times a kernel.
// Threads: made and used by one thread; its own threads compile, best rank first. The destructor lets no new
// compilation start and joins.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cache/store.h"
#include "runtime/device.h"

namespace gqa {

// How a kernel is made, and what it is kept under.
struct Recipe {
  std::function<std::string()> key;  // asked on a compile thread: it takes the kernel's whole source
  std::function<Status(Binary*)> compile;
  std::string family;
  std::string problem, candidate;  // what it is made for, and with: notes in its row
};
Recipe recipe_of(const Device& device, const Problem& problem, const Candidate& candidate);
// The kernel must outlive the recipe. key: its kernel_key().
Recipe recipe_of(const Device& device, const PlannedKernel& kernel, const std::string& key);

struct Made {
  std::size_t index = 0;  // into the recipes given
  std::string key;        // of the row that has it: another compiler's, perhaps
  Status status;
  Binary binary;
  bool from_store = false;
};

// The stored kernel as what a device loads; and the other way, without a name.
Binary binary_of(cache::KernelRow row);
cache::KernelRow row_of(const Binary& binary);

class Workshop {
 public:
  // `may_start` is asked before each compilation, on a compile thread: false leaves the rest unmade.
  Workshop(const Device& device, cache::Store& store, std::vector<Recipe> recipes, int threads,
           std::function<bool()> may_start);
  ~Workshop();
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  // Waits for the next finished kernel; nothing once all are taken or the rest will not be made.
  std::optional<Made> next();
  void stop();  // starts no further compilation; what is under way finishes

  // Makes one kernel anew, whatever the store holds, on the caller's thread.
  static Made make(const Device& device, cache::Store& store, const Recipe& recipe);

 private:
  void start(int count);
  void work();
  std::optional<std::size_t> take_job();
  Made find_or_make(std::size_t index) const;

  const Device& device_;
  cache::Store& store_;
  const std::vector<Recipe> recipes_;
  const std::function<bool()> may_start_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Made> finished_;
  std::size_t started_ = 0;
  int working_ = 0;  // threads that may still finish something
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace gqa
