// graph_session.cc: see graph_session.h. The story of a request, top down.
#include "runtime/session/graph_session.h"

#include <cstdio>

#include "runtime/tuner/workshop.h"
#include "runtime/without_exceptions.h"
#include "runtime/workload/keys.h"
#include "search/graph/ir/graph_text.h"
#include "search/text.h"

namespace gqa {
namespace {

std::string tuned_text(const TunedGraph& tuned, bool guess) {
  const PhaseTimes& times = tuned.times;
  const double seconds = times.search + times.compile + times.verify + times.time;
  char text[96];
  std::snprintf(text, sizeof(text), guess ? "untimed, after %.2f s" : "%.1f us, after %.2f s",
                guess ? seconds : tuned.winner.median_us, seconds);
  return describe(tuned.program) + " | " + thread_text(tuned.program) + ", " + text;
}

}  // namespace

// A thread that asks for a program.
class GraphSession::Visit {
 public:
  explicit Visit(GraphSession* session) : session_(session) {
    const std::lock_guard lock(session_->mutex_);
    ++session_->visits_;
  }
  ~Visit() {
    const std::lock_guard lock(session_->mutex_);
    --session_->visits_;
    session_->changed_.notify_all();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  GraphSession* session_;
};

GraphSession::~GraphSession() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return visits_ == 0; });
}

Status GraphSession::superoptimize(const GraphRequest& request, GraphAnswer* answer) {
  if (find_config(request.config) == nullptr)
    return text_error("config " + quote(request.config) + ": expected none or " + config_names());
  if (device().capturing(nullptr))
    return {Code::kCapturing, "a stream is being captured: call gqa_graph_superoptimize before the capture begins"};
  const Visit visit(this);
  answer->canonical = canonical(request.graph);
  const double budget = request.budget_seconds > 0 ? request.budget_seconds : session_.options().policy.budget_seconds;
  Miss miss = {request, Effort(budget, &session_.cancels()), {{}, request.config, request.seed}, {}};
  miss.key = winner_key(device(), answer->canonical.digest, request.config);
  Status status = reorder(request.graph, answer->canonical.inputs, answer->canonical.outputs, &miss.question.graph);
  Found found;
  if (status.ok()) status = find(miss, &found);
  answer->ready = std::move(found.ready);
  answer->source = found.source;
  return status;
}

// ---- what this process has already

Status GraphSession::find(const Miss& miss, Found* found) {
  std::promise<Found> promise;
  std::shared_future<Found> other;
  {
    const std::lock_guard lock(mutex_);
    const auto [at, fresh] = found_.try_emplace(miss.key.text());
    if (fresh)
      at->second = promise.get_future().share();
    else
      other = at->second;
  }
  if (other.valid()) {
    while (other.wait_for(kAskEvery) != std::future_status::ready) {
      if (miss.effort.cancelled()) return miss.effort.check();
    }
    *found = other.get();
    found->source = GraphSource::kMemory;
    if (found->status.code() == Code::kCancelled && !miss.effort.cancelled())
      return find(miss, found);  // the other was cancelled before this request began
    if (!found->status.ok() || proves(miss.question.graph, found->ready->program, miss.question.seed))
      return found->status;
    return make_ready(miss, found);  // two graphs that one digest does not tell apart
  }
  found->status = without_exceptions("making a program ready", [&] { return make_ready(miss, found); });
  if (!found->status.ok()) {
    const std::lock_guard lock(mutex_);
    found_.erase(miss.key.text());
  }
  promise.set_value(*found);
  return found->status;
}

Status GraphSession::make_ready(const Miss& miss, Found* found) {
  const Tuning tuning = session_.options().tuning;
  Status status;
  found->ready = from_cache(miss);
  found->source = GraphSource::kCache;
  if (found->ready == nullptr && tuning == Tuning::kCachedOnly) {
    status = {Code::kNotCached, "the cache holds no program for " + miss.key.signature + " on " +
                                    device().spec().identity() +
                                    " and tuning is off: superoptimize this graph once with tuning allowed"};
  } else if (found->ready == nullptr) {
    status = tuning == Tuning::kGuess ? search_here(miss, found) : search_under_lease(miss, found);
  }
  session_.log_store_warnings();
  return status;
}

// ---- what the cache holds

// Null if there is nothing, or nothing that can be used: then a warning says why.
std::shared_ptr<const ReadyGraph> GraphSession::from_cache(const Miss& miss) {
  const std::optional<cache::WinnerRow> winner = session_.store().find_winner(miss.key);
  if (!winner) return nullptr;
  auto ready = std::make_shared<ReadyGraph>();
  if (Status status = load(miss, *winner, ready.get()); !status.ok()) {
    session_.log(true, "the cached program for " + miss.key.signature + " cannot be used: " + status.message());
    return nullptr;
  }
  return ready;
}

Status GraphSession::load(const Miss& miss, const cache::WinnerRow& winner, ReadyGraph* ready) {
  if (Status status = parse(winner.candidate, &ready->program); !status.ok()) return status;
  if (!proves(miss.question.graph, ready->program, miss.question.seed))
    return {Code::kInternal, "it does not compute the graph"};
  KernelPlan plan;
  if (Status status = plan_kernels(ready->program, &plan); !status.ok()) return status;
  const std::vector<std::string> keys = winner.kernels();
  if (keys.size() != plan.kernels.size())
    return {Code::kInternal,
            "it needs " + std::to_string(plan.kernels.size()) + " kernels and names " + std::to_string(keys.size())};
  std::vector<Binary> binaries;
  for (const std::string& key : keys) {
    std::optional<cache::KernelRow> row = session_.store().find_kernel(key);
    if (!row) return {Code::kInternal, "its kernel " + key + " is not there"};
    binaries.push_back(binary_of(std::move(*row)));
  }
  ready->winner = winner;
  return device().load_program(plan, binaries, &ready->loaded);
}

// ---- the search

// One process searches; the others wait and then find what it kept. Where another process's program cannot be used here
// either, this one searches without the lease.
Status GraphSession::search_under_lease(const Miss& miss, Found* found) {
  const std::unique_ptr<cache::Lease> lease = session_.store().acquire(miss.key, miss.effort.stop());
  if (miss.effort.cancelled()) return miss.effort.check();
  found->ready = from_cache(miss);
  return found->ready != nullptr ? Status() : search_here(miss, found);
}

// Of a guess the kernels are kept, the untimed choice is not: it must not shadow a winner that somebody tunes later.
Status GraphSession::search_here(const Miss& miss, Found* found) {
  const std::unique_lock turn = session_.tuning_turn(miss.effort);
  if (!turn.owns_lock()) return miss.effort.check();
  const Effort effort = miss.effort.restarted();
  TunePolicy policy = session_.options().policy;
  policy.guess = session_.options().tuning == Tuning::kGuess;
  policy.budget_seconds = effort.budget();
  policy.effort = &effort;
  policy.background = &session_.background();
  TunedGraph tuned;
  Status status = tune_graph(device(), session_.store(), miss.question, policy, miss.request.progress, &tuned);
  if (!status.ok()) {
    if (status.code() != Code::kCancelled) session_.log(true, status.message());  // who cancels knows
    return status;
  }
  tuned.winner.key = miss.key;
  if (!policy.guess) session_.store().put_winner(tuned.winner);
  session_.log(false,
               (policy.guess ? "guessed " : "tuned ") + miss.key.signature + ": " + tuned_text(tuned, policy.guess));
  auto ready = std::make_shared<ReadyGraph>();
  ready->program = std::move(tuned.program);
  ready->loaded = std::move(tuned.loaded);
  ready->winner = std::move(tuned.winner);
  found->ready = std::move(ready);
  found->source = GraphSource::kSearched;
  return {};
}

}  // namespace gqa
