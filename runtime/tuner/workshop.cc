// workshop.cc: see workshop.h.
#include "runtime/tuner/workshop.h"

#include <algorithm>
#include <system_error>

#include "jit/embedded.h"
#include "runtime/tuner/tuner.h"
#include "runtime/without_exceptions.h"
#include "search/graph/enumerate/superoptimize.h"
#include "search/graph/tile/kernel_plan.h"

namespace gqa {
namespace {

cache::KernelRow row_of(const Device& device, const Recipe& recipe, const Made& made) {
  cache::KernelRow row;
  row.key = made.key;
  row.arch = device.spec().arch;
  row.compiler = device.compiler();
  row.generator = generator_fingerprint();
  row.problem = recipe.problem;
  row.candidate = recipe.candidate;
  row.source = made.binary.source;
  row.ptx = made.binary.ptx;
  row.cubin = made.binary.cubin;
  row.log = made.binary.log;
  row.registers = made.binary.registers;
  row.spill_bytes = made.binary.spill_bytes;
  row.static_smem = made.binary.static_smem;
  return row;
}

}  // namespace

Binary binary_of(cache::KernelRow row) {
  return {std::move(row.source), std::move(row.ptx), std::move(row.cubin), std::move(row.log),
          row.registers,         row.spill_bytes,    row.static_smem};
}

Recipe recipe_of(const Device& device, const Problem& problem, const Candidate& candidate) {
  return {[&device, problem, candidate] { return kernel_key(device, problem, candidate); },
          [&device, problem, candidate](Binary* binary) { return device.compile(problem, candidate, binary); },
          to_text(problem), kernel_text(candidate)};
}

Recipe recipe_of(const Device& device, const PlannedKernel& kernel, const std::string& key) {
  const auto own = std::make_shared<const PlannedKernel>(kernel);
  return {[key] { return key; }, [&device, own](Binary* binary) { return device.compile_program(*own, binary); },
          kernel.family ? to_text(kernel.family->form.problem) : "graph: " + describe(kernel.graph),
          thread_text(kernel.graph)};
}

Background::~Background() {
  for (std::thread& thread : threads_) thread.join();
}

void Background::take(std::vector<std::thread> threads) {
  const std::lock_guard lock(mutex_);
  for (std::thread& thread : threads) threads_.push_back(std::move(thread));
}

struct Workshop::Bench {
  std::optional<std::size_t> take_job();
  void work();
  Made find_or_make(std::size_t index) const;

  const Device& device;
  cache::Store& store;
  const std::vector<Recipe> recipes;
  const std::function<bool()> may_start;
  int working;  // threads that may still finish something; under the mutex, as all that follows
  std::mutex mutex = {};
  std::condition_variable changed = {};
  std::deque<Made> finished = {};
  std::size_t started = 0;
  bool stopped = false;
};

namespace {

int threads_for(std::size_t recipes, int threads) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::min(threads, static_cast<int>(recipes));
}

}  // namespace

// Where the system gives fewer threads than asked for, those it gave do all the work; where it gives none, the caller.
Workshop::Workshop(const Device& device, cache::Store& store, std::vector<Recipe> recipes, int threads,
                   std::function<bool()> may_start, const Effort& effort, Background* background)
    : bench_(new Bench{device, store, std::move(recipes), std::move(may_start), 0}),
      effort_(effort),
      background_(background) {
  const int count = bench_->working = threads_for(bench_->recipes.size(), threads);
  try {
    for (int i = 0; i < count; ++i) threads_.emplace_back([bench = bench_] { bench->work(); });
  } catch (const std::system_error&) {
    {
      const std::lock_guard lock(bench_->mutex);
      bench_->working -= count - std::max(1, static_cast<int>(threads_.size()));
    }
    if (threads_.empty()) bench_->work();
  }
}

Workshop::~Workshop() {
  stop();
  if (background_ != nullptr && effort_.cancelled()) {
    background_->take(std::move(threads_));
    return;
  }
  for (std::thread& thread : threads_) thread.join();
}

void Workshop::stop() {
  const std::lock_guard lock(bench_->mutex);
  bench_->stopped = true;
}

std::optional<Made> Workshop::next() {
  std::unique_lock lock(bench_->mutex);
  const auto news = [this] { return !bench_->finished.empty() || bench_->working == 0 || effort_.cancelled(); };
  while (!bench_->changed.wait_for(lock, kAskEvery, news)) {
  }
  if (bench_->finished.empty() || effort_.cancelled()) return std::nullopt;
  Made made = std::move(bench_->finished.front());
  bench_->finished.pop_front();
  return made;
}

std::optional<std::size_t> Workshop::Bench::take_job() {
  const std::lock_guard lock(mutex);
  stopped = stopped || !may_start();
  if (stopped || started == recipes.size()) return std::nullopt;
  return started++;
}

void Workshop::Bench::work() {
  while (const std::optional<std::size_t> job = take_job()) {
    Made made;
    made.index = *job;
    const Status status = without_exceptions("compiling", [&] {  // none may leave a compile thread
      made = find_or_make(*job);
      return made.status;
    });
    made.status = status;
    const std::lock_guard lock(mutex);
    finished.push_back(std::move(made));
    changed.notify_one();
  }
  const std::lock_guard lock(mutex);
  --working;
  changed.notify_one();
}

Made Workshop::Bench::find_or_make(std::size_t index) const {
  Made made;
  made.key = recipes[index].key();
  if (std::optional<cache::KernelRow> row = store.find_kernel(made.key)) {
    made.binary = binary_of(std::move(*row));
    made.from_store = true;
  } else {
    made = make(device, store, recipes[index]);
  }
  made.index = index;
  return made;
}

Made Workshop::make(const Device& device, cache::Store& store, const Recipe& recipe) {
  Made made;
  made.key = recipe.key();
  made.status = recipe.compile(&made.binary);
  if (made.status.ok()) store.put_kernel(row_of(device, recipe, made));
  return made;
}

}  // namespace gqa
