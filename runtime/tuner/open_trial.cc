// open_trial.cc: see open_trial.h.
#include "runtime/tuner/open_trial.h"

#include "runtime/workload/workload.h"

namespace gqa {

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

}  // namespace gqa
