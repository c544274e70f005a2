// open_trial.cc: see open_trial.h.
#include "runtime/tuner/open_trial.h"

#include <utility>

#include "runtime/workload/workload.h"

namespace gqa {
namespace {

// A trial whose run was given up, with what it ran: the trial goes first.
struct GivenUp {
  std::unique_ptr<LoadedProgram> program;
  std::unique_ptr<Trial> trial;
};

}  // namespace

Status open_trial(Device& device, const CompilePool& compile_pool, const Reference& reference, bool may_compile,
                  const Effort& effort, std::unique_ptr<Trial>* trial) {
  const Source checker = device.checker();
  Made made;
  if (!checker.text.empty()) made = may_compile ? compile_pool.find_or_make(checker) : compile_pool.find(checker);
  if (made.status.code() == Code::kNotCached)
    return {Code::kNotCached, "the cache holds no kernel that verifies others for " + device.spec().arch +
                                  ", and tuning is off: allow tuning once, or import a cache that holds it"};
  if (!made.status.ok()) return made.status;
  Status status = device.make_trial(reference, made.binary, effort, trial);
  if (status.code() != Code::kDeviceFailed || !made.from_store || !may_compile) return status;
  made = compile_pool.make(checker);
  return made.status.ok() ? device.make_trial(reference, made.binary, effort, trial) : made.status;
}

Status verify_alone(Device& device, CompilePool& compile_pool, const Reference& reference, bool may_compile,
                    const Effort& effort, std::unique_ptr<LoadedProgram>* program, Verdict* verdict) {
  std::unique_ptr<Trial> trial;
  Status status = open_trial(device, compile_pool, reference, may_compile, effort, &trial);
  if (!status.ok()) return status;
  *verdict = trial->verify(**program);
  status = effort.check();
  if (status.ok()) status = trial->health();
  if (!trial->unfinished()) return status;
  compile_pool.destroy_aside(std::make_shared<GivenUp>(GivenUp{std::move(*program), std::move(trial)}));
  return status.ok() ? Status(Code::kCancelled, "its verification was given up") : status;
}

}  // namespace gqa
