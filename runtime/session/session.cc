// session.cc: see session.h. The hit path is run().
#include "runtime/session/session.h"

#include "runtime/workload/attention_workload.h"
#include "runtime/workload/operation_workload.h"

namespace gqa {
namespace {

constexpr std::size_t kFirstSlots = 64;

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> next{1};
  return next++;
}

// The program of a call that appends and has no query.
struct NoAttention : LoadedProgram {
  Status run(const ProgramCall&) const override { return {}; }
};
const NoAttention kNoAttention;

Status not_loaded(const Signature& wanted) {
  return {Code::kNotCached,
          "no kernel for " + to_text(wanted) + " is loaded: call gqa_prepare with these tensors once"};
}

}  // namespace

Session::Session(std::unique_ptr<Device> device, std::unique_ptr<cache::Store> store, SessionOptions options)
    : id_(next_id()),
      device_(std::move(device)),
      store_(std::move(store)),
      options_(std::move(options)),
      compile_pool_(*device_, *store_, options_.policy.compile_threads),
      misses_(*device_, *store_, compile_pool_, options_) {
  tables_.push_back(std::make_unique<ProgramTable>(kFirstSlots));
  table_.store(tables_.back().get(), std::memory_order_release);
  for (const std::string& warning : store_->take_warnings()) warn(warning);
}

Session::~Session() = default;

// ---- a hit

// Not a guess, where the call is to be tuned; but a capture takes one rather than fail.
bool Session::serves(const Call& call, bool guessed, std::optional<Tuning> tuning) const {
  return !guessed || misses_.tuning_of(tuning) != Tuning::kNow || captured(call.stream);
}

// What such a call found before, on this thread.
Session::Ready Session::prepared(const Call& call, std::optional<Tuning> tuning) const {
  const Prepared* before = call.prepared;
  if (before == nullptr || before->call != call.prepared_of || before->session != id_ ||
      before->version != version_.load(std::memory_order_acquire) || !serves(call, before->guessed, tuning))
    return {};
  return {before->program, before->two_steps};
}

Session::Ready Session::find(const Call& call, std::optional<Tuning> tuning) const {
  if (const Ready ready = prepared(call, tuning); ready.program != nullptr) return ready;
  if (!call.has(Role::kOut)) return {&kNoAttention, call.appends()};
  const std::uint64_t version = version_.load(std::memory_order_acquire);
  const ProgramTable::Found found = table_.load(std::memory_order_acquire)->find(Signature(call.problem));
  if (found.program == nullptr || !serves(call, found.guessed, tuning)) return {};
  const Ready ready = to_launch(*found.program, call);
  if (call.prepared != nullptr && call.prepared->call == call.prepared_of)
    *call.prepared = {call.prepared_of, id_, version, found.program, found.guessed, ready.two_steps};
  return ready;
}

bool Session::captured(void* stream) const {
  bool captured = false;
  return device_->capturing(stream, &captured).ok() && captured;
}

Status Session::run(const Call& call, std::optional<Tuning> tuning) {
  const Ready ready = find(call, tuning);
  return ready.program != nullptr ? launch(call, ready, tuning) : run_miss(call, tuning);
}

Status Session::run_ready(const Call& call, std::optional<Tuning> tuning) {
  const Ready ready = find(call, tuning);
  if (ready.program != nullptr && (!ready.two_steps || loaded(Operation::kAppend) != nullptr))
    return launch(call, ready, tuning);
  const Signature wanted(call.problem);
  if (Status status = misses_.may_begin(call.stream, to_text(wanted)); !status.ok()) return status;
  return not_loaded(wanted);
}

// A call that appends does so once its program is there: a call that fails has changed no cache.
Status Session::launch(const Call& call, const Ready& ready, std::optional<Tuning> tuning) {
  if (!ready.two_steps) return ready.program->run(call);
  Status status = ready_operation(Operation::kAppend, call.stream, tuning);
  if (!status.ok()) return status;
  return loaded(Operation::kAppend)->run({.stream = call.stream, .attention = &call, .then = ready.program});
}

Status Session::workspace_bytes(const Call& call, std::int64_t* bytes, std::optional<Tuning> tuning) const {
  const Ready ready = find(call, tuning);
  const LoadedProgram* first = ready.two_steps ? loaded(Operation::kAppend) : nullptr;
  if (ready.program == nullptr || (ready.two_steps && first == nullptr)) return not_loaded(Signature(call.problem));
  *bytes = ready.program->workspace_bytes(call) + (first == nullptr ? 0 : first->workspace_bytes(call));
  return {};
}

Status Session::merge(const MergeCall& call) {
  Status status = ready_operation(Operation::kMergeStates, call.stream, std::nullopt);
  return status.ok() ? loaded(Operation::kMergeStates)->run({.stream = call.stream, .merge = &call}) : status;
}

// ---- a miss

Status Session::run_miss(const Call& call, std::optional<Tuning> tuning) {
  const Misses::Guard guard(&misses_);
  ReadyResult readied;
  if (Status status = ready_problem(Signature(call.problem), call.stream, tuning, &readied); !status.ok())
    return status;
  return launch(call, to_launch(*readied.ready->loaded, call), tuning);
}

Status Session::ready(const Problem& problem, ReadyResult* readied, std::optional<Tuning> tuning) {
  if (Status status = check(problem); !status.ok()) return status;
  const Misses::Guard guard(&misses_);
  ReadyResult unread;
  return ready_problem(Signature(problem), std::nullopt, tuning, readied != nullptr ? readied : &unread);
}

Status Session::ready_problem(const Signature& wanted, std::optional<void*> stream, std::optional<Tuning> tuning,
                              ReadyResult* readied) {
  AttentionWorkload workload(wanted);
  ReadyRequest request;
  request.tuning = tuning;
  request.stream = stream;
  Status status = ready(workload, request, readied);
  if (status.ok()) publish(wanted, readied->ready);
  return status;
}

Status Session::ready_operation(Operation operation, std::optional<void*> stream, std::optional<Tuning> tuning) {
  if (loaded(operation) != nullptr) return {};
  OperationWorkload workload(operation);
  ReadyRequest request;
  request.tuning = tuning;
  request.stream = stream;
  ReadyResult readied;
  Status status = ready(workload, request, &readied);
  if (status.ok()) operations_[index_of(operation)].store(readied.ready->loaded.get(), std::memory_order_release);
  return status;
}

// The problem's hits find it from now on.
void Session::publish(const Signature& wanted, const std::shared_ptr<const ReadyProgram>& ready) {
  const std::lock_guard lock(mutex_);
  const ProgramTable::Found found = tables_.back()->find(wanted);
  if (found.program != nullptr) {
    if (!found.guessed || ready->guessed) return;
    tables_.back()->replace(wanted, ready->loaded.get());
    version_.fetch_add(1, std::memory_order_release);
    return;
  }
  if (tables_.back()->full()) {
    tables_.push_back(tables_.back()->grown());
    table_.store(tables_.back().get(), std::memory_order_release);
  }
  tables_.back()->add(wanted, ready->loaded.get(), ready->guessed);
}

std::optional<Misses::Known> Session::known(const Problem& problem) {
  return misses_.known(AttentionWorkload(Signature(problem)).signature());
}

}  // namespace gqa
