// cuda_operation_trial.cc: see cuda_operation_trial.h.
#include "runtime/cuda/trial/cuda_operation_trial.h"

#include "runtime/cuda/driver/capture.h"
#include "runtime/cuda/driver/memory.h"
#include "runtime/cuda/launch/cuda_appender.h"

namespace gqa {
namespace {

constexpr int kLaunches = 32;  // a graph: its own start does not show
constexpr std::uint64_t kTimed = 1;

}  // namespace

class CudaOperationTrial::Memory final : public TrialMemory {
 public:
  Memory(const Driver& driver, TrialStream* stream) : driver_(driver), stream_(stream) {}
  Status put(const char*, const void* from, std::size_t bytes, void** at) override {
    DeviceMemory& copy = copies_.emplace_back();
    if (Status s = DeviceMemory::allocate(driver_, bytes, &copy); !s.ok()) return s;
    *at = copy.as<void>();
    return driver_.error("copying a case to the device",
                         driver_.cuMemcpyHtoDAsync(copy.address(), from, bytes, stream_->get()));
  }
  Status get(const void* at, std::size_t bytes, void* to) override {
    return stream_->read(reinterpret_cast<CUdeviceptr>(at), to, bytes);
  }
  void* stream() const override { return stream_->get(); }

 private:
  const Driver& driver_;
  TrialStream* const stream_;
  std::vector<DeviceMemory> copies_;
};

// Runs the program with the trial's own memory between its steps.
class CudaOperationTrial::OwnPool final : public LoadedProgram {
 public:
  OwnPool(const LoadedProgram& program, Operation operation, WorkspacePool* pool)
      : program_(program), operation_(operation), pool_(pool) {}
  Status run(const ProgramCall& call) const override {
    if (operation_ != Operation::kAppend) return program_.run(call);
    return static_cast<const CudaAppender&>(program_).launch(call, pool_);
  }

 private:
  const LoadedProgram& program_;
  const Operation operation_;
  WorkspacePool* const pool_;
};

CudaOperationTrial::CudaOperationTrial(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker,
                                       Operation operation, const Effort& effort)
    : CudaTrialBase(std::move(shared), std::move(checker), "kernel", effort),
      operation_(operation),
      effort_(effort),
      intermediates_(std::make_unique<WorkspacePool>(driver())) {}

Status CudaOperationTrial::make(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker,
                                Operation operation, const Effort& effort, std::unique_ptr<Trial>* trial) {
  const BesideCaptures here(shared->context);
  auto fresh = std::unique_ptr<CudaOperationTrial>(
      new CudaOperationTrial(std::move(shared), std::move(checker), operation, effort));
  if (Status s = fresh->stream_.open(); !s.ok()) return s;
  if (Status s = DeviceMemory::allocate(fresh->driver(), 2 * sizeof(unsigned long long), &fresh->clocks_); !s.ok())
    return s;
  *trial = std::move(fresh);
  return {};
}

CudaOperationTrial::~CudaOperationTrial() {
  const BesideCaptures here(shared_->context);
  stream_.close();
  timed_memory_.reset();
  clocks_ = {};
  intermediates_->clear();
}

Verdict CudaOperationTrial::verify(const LoadedProgram& program) {
  const BesideCaptures here(shared_->context);
  const OwnPool own(program, operation_, intermediates_.get());
  return gqa::verify(operation_, own, effort_, [this] { return std::make_unique<Memory>(driver(), &stream_); });
}

Status CudaOperationTrial::time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) {
  const BesideCaptures here(shared_->context);
  const OwnPool own(program, operation_, intermediates_.get());
  if (timed_ == nullptr) {
    timed_memory_ = std::make_unique<Memory>(driver(), &stream_);
    timed_ = make_case(operation_, 0);
    if (Status s = timed_->place(timed_memory_.get()); !s.ok()) return s;
    if (Status s = stream_.wait(); !s.ok()) return s;
  }
  stream_.forget_graphs();  // of other programs
  const auto launch = [&](int) { return timed_->launch(own); };
  return stream_.time(kTimed, kLaunches, launch, samples, microseconds);
}

}  // namespace gqa
