// host_operation_trial.cc: see host_operation_trial.h.
#include "runtime/host/attention/host_operation_trial.h"

#include <chrono>

#include "runtime/verify/host_memory.h"

namespace gqa {
Verdict HostOperationTrial::verify(const LoadedProgram& program) {
  return gqa::verify(operation_, program, effort_, [] { return std::make_unique<HostMemory>(); });
}

Status HostOperationTrial::time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) {
  if (timed_ == nullptr) {
    timed_memory_ = std::make_unique<HostMemory>();
    timed_ = make_case(operation_, 0);
    if (Status status = timed_->place(timed_memory_.get()); !status.ok()) return status;
  }
  for (int i = 0; i < samples && (i == 0 || !effort_.spent()); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (Status status = timed_->launch(program); !status.ok()) return status;
    microseconds->push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  return effort_.check();
}

}  // namespace gqa
