// compile_pool.h: several kernels being made at once.
// Owns: the compile threads and the queues of finished kernels; takes a kernel from the store where it has it, keeps in
// the store each one it makes.
// Never: loads, verifies or times a kernel.
// Threads: a Batch is made and used by one thread; threads of the pool compile for it, best rank first. A compiler
// that is running when its batch goes ends in the background; the pool's destructor waits for it.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cache/store.h"
#include "runtime/device.h"

namespace gqa {

struct Made {
  std::size_t index = 0;  // into the sources given
  std::string key;        // of the row that has it: another compiler's, perhaps
  Status status;
  Binary binary;
  bool from_store = false;
};

// A stored kernel as what a device loads. Error: it would be launched otherwise than this library does.
Status binary_of(cache::KernelRow row, const Source& source, Binary* binary);

class CompilePool {
 public:
  // `threads`: 0 for usable_threads(). Device and store must outlive the pool.
  CompilePool(const Device& device, cache::Store& store, int threads);
  ~CompilePool();
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;

  class Batch {
   public:
    ~Batch();  // lets no further compilation start; joins the threads that are done
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    // Waits for the next finished kernel; nothing once all are taken, the rest will not be made, or `effort` is
    // cancelled.
    std::optional<Made> next(const Effort& effort);

   private:
    friend class CompilePool;
    struct Shared;
    Batch(CompilePool* compile_pool, std::shared_ptr<Shared> shared)
        : compile_pool_(compile_pool), shared_(std::move(shared)) {}
    CompilePool* compile_pool_;
    std::shared_ptr<Shared> shared_;
  };

  // `may_start` is asked before each compilation, one at a time: false leaves the rest unmade.
  std::unique_ptr<Batch> make(std::vector<Source> sources, std::function<bool()> may_start);

  // One kernel on the caller's thread: the stored one where there is one, that alone (or kNotCached, without a word),
  // or made anew whatever the store holds.
  Made find_or_make(const Source& source) const;
  Made find(const Source& source) const;
  Made make(const Source& source) const;

  // Where that waits for what no caller should wait for; the pool's destructor does.
  void destroy_aside(std::shared_ptr<void> what);

 private:
  struct Worker {
    std::thread thread;
    std::shared_ptr<Batch::Shared> batch;
  };
  bool start(const std::shared_ptr<Batch::Shared>& batch);
  void work(Batch::Shared* batch) const;
  void join_finished();

  const Device& device_;
  cache::Store& store_;
  const int threads_;
  std::mutex mutex_;  // guards what follows
  std::list<Worker> workers_;
};

}  // namespace gqa
