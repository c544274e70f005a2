// workshop.cc: see workshop.h.
#include "runtime/tuner/workshop.h"

#include <algorithm>
#include <system_error>

#include "runtime/tuner/tuner.h"
#include "runtime/without_exceptions.h"
#include "runtime/workload/keys.h"
#include "search/graph/enumerate/superoptimize.h"
#include "search/graph/tile/kernel_plan.h"

namespace gqa {
namespace {

cache::KernelRow named_row(const Device& device, const Recipe& recipe, const Made& made) {
  cache::KernelRow row = row_of(made.binary);
  name_kernel(device, made.binary.source, &row);
  row.family = recipe.family;
  row.problem = recipe.problem;
  row.candidate = recipe.candidate;
  return row;
}

}  // namespace

Binary binary_of(cache::KernelRow row) {
  return {std::move(row.source), std::move(row.ptx), std::move(row.cubin), std::move(row.log),
          row.registers,         row.spill_bytes,    row.static_smem};
}

cache::KernelRow row_of(const Binary& binary) {
  cache::KernelRow row;
  row.source = binary.source;
  row.ptx = binary.ptx;
  row.cubin = binary.cubin;
  row.log = binary.log;
  row.registers = binary.registers;
  row.spill_bytes = binary.spill_bytes;
  row.static_smem = binary.static_smem;
  return row;
}

Recipe recipe_of(const Device& device, const Problem& problem, const Candidate& candidate) {
  return {[&device, problem, candidate] { return kernel_key(device, problem, candidate); },
          [&device, problem, candidate](Binary* binary) { return device.compile(problem, candidate, binary); },
          std::string(name(candidate.skeleton)), to_text(problem), kernel_text(candidate)};
}

Recipe recipe_of(const Device& device, const PlannedKernel& kernel, const std::string& key) {
  return {[key] { return key; }, [&device, &kernel](Binary* binary) { return device.compile_program(kernel, binary); },
          std::string(family_of(kernel)),
          kernel.family ? to_text(kernel.family->form.problem) : "graph: " + describe(kernel.graph),
          thread_text(kernel.graph)};
}

Workshop::Workshop(const Device& device, cache::Store& store, std::vector<Recipe> recipes, int threads,
                   std::function<bool()> may_start)
    : device_(device), store_(store), recipes_(std::move(recipes)), may_start_(std::move(may_start)) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  working_ = std::min(threads, static_cast<int>(recipes_.size()));
  start(working_);
}

// Where the system gives fewer threads than asked for, those it gave do all the work; where it gives none, the caller.
void Workshop::start(int count) {
  try {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    {
      const std::lock_guard lock(mutex_);
      working_ -= count - std::max(1, static_cast<int>(threads_.size()));
    }
    if (threads_.empty()) work();
  }
}

Workshop::~Workshop() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

void Workshop::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
}

std::optional<Made> Workshop::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !finished_.empty() || working_ == 0; });
  if (finished_.empty()) return std::nullopt;
  Made made = std::move(finished_.front());
  finished_.pop_front();
  return made;
}

std::optional<std::size_t> Workshop::take_job() {
  const bool may_start = may_start_();
  const std::lock_guard lock(mutex_);
  if (!may_start) stopped_ = true;
  if (stopped_ || started_ == recipes_.size()) return std::nullopt;
  return started_++;
}

void Workshop::work() {
  while (const std::optional<std::size_t> job = take_job()) {
    Made made;
    made.index = *job;
    const Status status = without_exceptions("compiling", [&] {  // none may leave a compile thread
      made = find_or_make(*job);
      return made.status;
    });
    made.status = status;
    const std::lock_guard lock(mutex_);
    finished_.push_back(std::move(made));
    changed_.notify_one();
  }
  const std::lock_guard lock(mutex_);
  --working_;
  changed_.notify_one();
}

Made Workshop::find_or_make(std::size_t index) const {
  Made made;
  made.key = recipes_[index].key();
  if (std::optional<cache::KernelRow> row = store_.find_kernel_of_any_compiler(made.key)) {
    made.key = row->key;
    made.binary = binary_of(std::move(*row));
    made.from_store = true;
  } else {
    made = make(device_, store_, recipes_[index]);
  }
  made.index = index;
  return made;
}

Made Workshop::make(const Device& device, cache::Store& store, const Recipe& recipe) {
  Made made;
  made.key = recipe.key();
  made.status = recipe.compile(&made.binary);
  if (made.status.ok()) store.put_kernel(named_row(device, recipe, made));
  return made;
}

}  // namespace gqa
