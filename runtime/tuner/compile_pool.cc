// compile_pool.cc: see compile_pool.h.
#include "runtime/tuner/compile_pool.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <system_error>

#include "runtime/thread_limits.h"
#include "runtime/without_exceptions.h"
#include "runtime/workload/keys.h"

namespace gqa {

Status binary_of(cache::KernelRow row, const Source& source, Binary* binary) {
  if (row.abi != kLaunchAbi || row.launch != source.launch)
    return {Code::kInternal, "its kernel is launched as '" + row.launch + "' under ABI " + std::to_string(row.abi) +
                                 ", this library would launch it as '" + source.launch + "' under ABI " +
                                 std::to_string(kLaunchAbi)};
  *binary = {std::move(row.source), std::move(row.ptx), std::move(row.cubin), std::move(row.log),
             row.registers,         row.spill_bytes,    row.static_smem};
  return {};
}

// What a batch's maker and its compile threads share.
struct CompilePool::Batch::Shared {
  std::vector<Source> sources;
  std::function<bool()> may_start;  // asked under the mutex; empty once the batch is gone
  std::mutex mutex;                 // guards what follows, and may_start
  std::condition_variable changed;
  std::deque<Made> finished;
  std::size_t started = 0;
  int working = 0;  // threads that may still finish something

  std::optional<std::size_t> take_job() {
    const std::lock_guard lock(mutex);
    if (started == sources.size() || !may_start || !may_start()) return std::nullopt;
    return started++;
  }
  void finish(Made made) {
    const std::lock_guard lock(mutex);
    finished.push_back(std::move(made));
    changed.notify_one();
  }
  void leave() {
    const std::lock_guard lock(mutex);
    --working;
    changed.notify_one();
  }
  bool idle() {
    const std::lock_guard lock(mutex);
    return working == 0;
  }
};

CompilePool::Batch::~Batch() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->may_start = nullptr;
  }
  const std::lock_guard lock(compile_pool_->mutex_);
  compile_pool_->join_finished();
}

std::optional<Made> CompilePool::Batch::next(const Effort& effort) {
  std::unique_lock lock(shared_->mutex);
  while (shared_->finished.empty() && shared_->working > 0 && !effort.cancelled())
    shared_->changed.wait_for(lock, kAskEvery);
  if (shared_->finished.empty() || effort.cancelled()) return std::nullopt;
  Made made = std::move(shared_->finished.front());
  shared_->finished.pop_front();
  return made;
}

CompilePool::CompilePool(const Device& device, cache::Store& store, int threads)
    : device_(device), store_(store), threads_(threads > 0 ? threads : usable_threads()) {}

CompilePool::~CompilePool() {
  for (Worker& worker : workers_) worker.thread.join();
}

// Where the system gives fewer threads than asked for, those it gave do all the work; where it gives none, the caller.
std::unique_ptr<CompilePool::Batch> CompilePool::make(std::vector<Source> sources, std::function<bool()> may_start) {
  auto shared = std::make_shared<Batch::Shared>();
  shared->sources = std::move(sources);
  shared->may_start = std::move(may_start);
  std::unique_ptr<Batch> batch(new Batch(this, shared));
  const int wanted = std::min(threads_, static_cast<int>(shared->sources.size()));
  const std::lock_guard lock(mutex_);
  join_finished();
  int started = 0;
  while (started < wanted && start(shared)) ++started;
  if (started == 0 && wanted > 0) work(shared.get());
  return batch;
}

bool CompilePool::start(const std::shared_ptr<Batch::Shared>& batch) {
  {
    const std::lock_guard lock(batch->mutex);
    ++batch->working;
  }
  try {
    workers_.push_back({std::thread([this, batch] {
                          work(batch.get());
                          batch->leave();
                        }),
                        batch});
    return true;
  } catch (const std::system_error&) {
    batch->leave();
    return false;
  }
}

// Where the system gives no thread, it is destroyed here.
void CompilePool::destroy_aside(std::shared_ptr<void> what) {
  const auto batch = std::make_shared<Batch::Shared>();
  batch->working = 1;
  const std::lock_guard lock(mutex_);
  join_finished();
  try {
    workers_.push_back({std::thread([batch, what = std::move(what)]() mutable {
                          what.reset();
                          batch->leave();
                        }),
                        batch});
  } catch (const std::system_error&) {
  }
}

void CompilePool::join_finished() {
  for (auto at = workers_.begin(); at != workers_.end();) {
    if (!at->batch->idle()) {
      ++at;
      continue;
    }
    at->thread.join();
    at = workers_.erase(at);
  }
}

void CompilePool::work(Batch::Shared* batch) const {
  while (const std::optional<std::size_t> job = batch->take_job()) {
    Made made;
    const Status status = without_exceptions("compiling", [&] {  // none may leave a compile thread
      made = find_or_make(batch->sources[*job]);
      return made.status;
    });
    made.index = *job;
    made.status = status;
    batch->finish(std::move(made));
  }
}

// What another version of this library would launch is made anew; another compiler's kernel serves as well.
Made CompilePool::find_or_make(const Source& source) const {
  Made made = find(source);
  return made.status.ok() ? made : make(source);
}

Made CompilePool::find(const Source& source) const {
  Made made;
  made.key = kernel_key(device_, source);
  made.from_store = true;
  std::optional<cache::KernelRow> row = store_.find_kernel_of_any_compiler(made.key);
  if (row) made.key = row->key;
  made.status = row ? binary_of(std::move(*row), source, &made.binary) : Status(Code::kNotCached, "");
  return made;
}

Made CompilePool::make(const Source& source) const {
  Made made;
  made.key = kernel_key(device_, source);
  made.status = device_.compile(source, &made.binary);
  if (made.status.ok()) store_.put_kernel(kernel_row(device_, source, made.binary));
  return made;
}

}  // namespace gqa
