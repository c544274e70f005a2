// cuda_program_trial.cc: see cuda_program_trial.h.
#include "runtime/cuda/trial/cuda_program_trial.h"

#include "runtime/cuda/driver/capture.h"
#include "runtime/thread_limits.h"
#include "search/graph/enumerate/estimate.h"

namespace gqa {
namespace {

constexpr std::uint64_t kSeed = 1;

}  // namespace

CudaProgramTrial::CudaProgramTrial(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker,
                                   const KernelGraph& graph, const Effort& effort)
    : CudaTrialBase(std::move(shared), std::move(checker), "program", effort),
      graph_(graph),
      intermediates_(std::make_unique<WorkspacePool>(driver())),
      partials_(std::make_unique<WorkspacePool>(driver())) {}

Status CudaProgramTrial::make(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker,
                              const DeviceSpec& spec, const KernelGraph& graph, const Effort& effort,
                              std::unique_ptr<Trial>* trial) {
  const BesideCaptures here(shared->context);
  auto fresh =
      std::unique_ptr<CudaProgramTrial>(new CudaProgramTrial(std::move(shared), std::move(checker), graph, effort));
  if (Status s = make_reference(graph, kSeed, effort, usable_threads(), &fresh->reference_); !s.ok()) return s;
  if (Status s = fresh->set_up(spec); !s.ok()) return s;
  *trial = std::move(fresh);
  return {};
}

// With as many sets as rotation needs; with fewer where memory is short.
Status CudaProgramTrial::set_up(const DeviceSpec& spec) {
  if (Status s = stream_.open(); !s.ok()) return s;
  sets_ = rotated_sets(graph_, spec.l2_bytes);
  launches_ = TrialStream::launches_a_graph(1e6 * seconds(graph_, spec), sets_);
  for (;; sets_ /= 2) {
    Status status = upload_all();
    if (status.code() != Code::kOutOfMemory || sets_ == 1) return status;
    inputs_.clear();
    replaced_.clear();
    outputs_.clear();
  }
}

Status CudaProgramTrial::upload_all() {
  if (Status s = allocate_outputs(); !s.ok()) return s;
  for (int set = 0; set < sets_; ++set)
    if (Status s = upload(set); !s.ok()) return s;
  for (const InputTrial& trial : reference_.trials) {
    std::vector<DeviceMemory>& memory = replaced_.emplace_back();
    for (const InputTrial::Replaced& input : trial.inputs)
      if (Status s = upload(input.bytes, &memory.emplace_back()); !s.ok()) return s;
  }
  return stream_.wait();
}

// What programs before this one took.
void CudaProgramTrial::let_go() {
  stream_.forget_graphs();
  for (std::unique_ptr<WorkspacePool>* pool : {&intermediates_, &partials_}) {
    (*pool)->clear();
    *pool = std::make_unique<WorkspacePool>(driver());
  }
}

// Where memory is short, again with what others took given back.
Status CudaProgramTrial::with_memory(const std::function<Status()>& work) {
  Status status = work();
  if (status.code() != Code::kOutOfMemory) return status;
  let_go();
  return work();
}

CudaProgramTrial::~CudaProgramTrial() {
  const BesideCaptures here(shared_->context);
  stream_.close();
  inputs_.clear();
  replaced_.clear();
  outputs_.clear();
  clocks_ = {};
  intermediates_->clear();
  partials_->clear();
}

Status CudaProgramTrial::allocate_outputs() {
  for (const int output : graph_.outputs()) {
    const auto bytes = static_cast<std::size_t>(guarded_bytes(graph_.spec(output)));
    if (Status s = DeviceMemory::allocate(driver(), bytes, &outputs_.emplace_back()); !s.ok()) return s;
  }
  return DeviceMemory::allocate(driver(), 2 * sizeof(unsigned long long), &clocks_);
}

// All sets hold the same numbers: what rotates is where they lie.
Status CudaProgramTrial::upload(int set) {
  std::vector<DeviceMemory>& memory = inputs_.emplace_back(reference_.inputs.size());
  for (std::size_t at = 0; at < memory.size(); ++at) {
    const TensorBytes& bytes = reference_.inputs[at];
    if (set == 0) {
      if (Status s = upload(bytes, &memory[at]); !s.ok()) return s;
      continue;
    }
    if (Status s = DeviceMemory::allocate(driver(), bytes.size(), &memory[at]); !s.ok()) return s;
    const CUresult r =
        driver().cuMemcpyDtoDAsync(memory[at].address(), inputs_[0][at].address(), bytes.size(), stream_.get());
    if (r != CUDA_SUCCESS) return driver().error("copying an input on the device", r);
  }
  return {};
}

Status CudaProgramTrial::upload(const TensorBytes& bytes, DeviceMemory* memory) {
  if (Status s = DeviceMemory::allocate(driver(), bytes.size(), memory); !s.ok()) return s;
  const CUresult r = driver().cuMemcpyHtoDAsync(memory->address(), bytes.data(), bytes.size(), stream_.get());
  return r == CUDA_SUCCESS ? Status() : driver().error("copying an input to the device", r);
}

Status CudaProgramTrial::launch(const CudaProgram& program, int set, std::size_t trial) {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const DeviceMemory& memory : inputs_[static_cast<std::size_t>(set)]) inputs.push_back(memory.as<void>());
  for (std::size_t at = 0; trial > 0 && at < replaced_[trial - 1].size(); ++at)
    inputs[reference_.trials[trial - 1].inputs[at].input] = replaced_[trial - 1][at].as<void>();
  for (const DeviceMemory& memory : outputs_) outputs.push_back(memory.as<char>() + kGuardBytes);
  return program.launch({inputs.data(), outputs.data(), stream_.get(), nullptr}, intermediates_.get(), partials_.get());
}

Status CudaProgramTrial::run(const CudaProgram& program, std::size_t trial, std::vector<TensorBytes>* outputs) {
  for (const DeviceMemory& memory : outputs_) {
    const CUresult r = driver().cuMemsetD8Async(memory.address(), kPoison, memory.bytes(), stream_.get());
    if (r != CUDA_SUCCESS) return driver().error("cuMemsetD8Async", r);
  }
  if (Status s = launch(program, 0, trial); !s.ok()) return s;
  if (Status s = stream_.wait(); !s.ok()) return s;
  outputs->clear();
  for (const DeviceMemory& memory : outputs_) {
    TensorBytes& bytes = outputs->emplace_back(memory.bytes());
    if (Status s = stream_.read(memory.address(), bytes.data(), bytes.size()); !s.ok()) return s;
  }
  return {};
}

Verdict CudaProgramTrial::verify(const LoadedProgram& program) {
  const BesideCaptures here(shared_->context);
  const auto& cuda_program = static_cast<const CudaProgram&>(program);
  std::vector<TensorBytes> bytes;
  return gqa::verify(graph_, reference_, [&](std::size_t trial, std::vector<OutputBytes>* outputs) {
    Status status = with_memory([&] { return run(cuda_program, trial, &bytes); });
    for (const TensorBytes& one : bytes) outputs->push_back({one.data()});
    return status;
  });
}

Status CudaProgramTrial::time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) {
  const BesideCaptures here(shared_->context);
  const auto& cuda_program = static_cast<const CudaProgram&>(program);
  const auto launch_turn = [&](int i) { return launch(cuda_program, i % sets_, 0); };
  return with_memory([&] { return stream_.time(cuda_program.id(), launches_, launch_turn, samples, microseconds); });
}

}  // namespace gqa
