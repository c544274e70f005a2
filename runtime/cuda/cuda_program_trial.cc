// cuda_program_trial.cc: see cuda_program_trial.h.
#include "runtime/cuda/cuda_program_trial.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "search/graph/estimate.h"

namespace gqa {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr double kMaxSeconds = 20;  // a run that is not done by then hangs
constexpr int kMostLaunches = 32;   // a graph, unless there are more sets

}  // namespace

CudaProgramTrial::CudaProgramTrial(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker,
                                   const KernelGraph& graph)
    : shared_(std::move(shared)),
      checker_(std::move(checker)),
      graph_(graph),
      intermediates_(shared_->context.driver()),
      partials_(shared_->context.driver()) {}

Status CudaProgramTrial::make(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker,
                              const DeviceSpec& spec, const KernelGraph& graph, std::unique_ptr<ProgramTrial>* trial) {
  const Current current(shared->context);
  auto fresh = std::unique_ptr<CudaProgramTrial>(new CudaProgramTrial(std::move(shared), std::move(checker), graph));
  if (Status s = make_reference(graph, kSeed, &fresh->reference_); !s.ok()) return s;
  if (Status s = fresh->allocate(spec); !s.ok()) return s;
  for (int set = 0; set < fresh->sets_; ++set)
    if (Status s = fresh->upload(set); !s.ok()) return s;
  if (Status s = fresh->wait(); !s.ok()) return s;
  *trial = std::move(fresh);
  return {};
}

CudaProgramTrial::~CudaProgramTrial() {
  const Current current(shared_->context);
  if (stream_ != nullptr) driver().cuStreamSynchronize(stream_);
  for (const auto& [id, graph] : graphs_)
    if (graph != nullptr) driver().cuGraphExecDestroy(graph);
  if (begin_ != nullptr) driver().cuEventDestroy(begin_);
  if (end_ != nullptr) driver().cuEventDestroy(end_);
  if (stream_ != nullptr) driver().cuStreamDestroy(stream_);
  inputs_.clear();
  outputs_.clear();
  clocks_ = {};
  intermediates_.clear();
  partials_.clear();
}

Status CudaProgramTrial::allocate(const DeviceSpec& spec) {
  if (const CUresult r = driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING); r != CUDA_SUCCESS)
    return driver().error("cuStreamCreate", r);
  driver().cuEventCreate(&begin_, CU_EVENT_DEFAULT);
  driver().cuEventCreate(&end_, CU_EVENT_DEFAULT);
  sets_ = rotated_sets(graph_, spec.l2_bytes);
  // Enough launches a graph that its own start does not show.
  const double guess_us = std::max(2.0, 1e6 * seconds(graph_, spec));
  launches_ = std::max(sets_, static_cast<int>(std::clamp(400.0 / guess_us, 1.0, 1.0 * kMostLaunches)));
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
    if (Status s = DeviceMemory::allocate(driver(), bytes.size(), &memory[at]); !s.ok()) return s;
    const CUresult r =
        set == 0 ? driver().cuMemcpyHtoDAsync(memory[at].address(), bytes.data(), bytes.size(), stream_)
                 : driver().cuMemcpyDtoDAsync(memory[at].address(), inputs_[0][at].address(), bytes.size(), stream_);
    if (r != CUDA_SUCCESS) return driver().error("copying an input to the device", r);
  }
  return {};
}

// Polls instead of blocking, so that a kernel that never ends is noticed.
Status CudaProgramTrial::wait() {
  driver().cuEventRecord(end_, stream_);
  const auto begin = std::chrono::steady_clock::now();
  for (int polls = 0;; ++polls) {
    const CUresult result = driver().cuEventQuery(end_);
    if (result == CUDA_SUCCESS) return {};
    if (result != CUDA_ERROR_NOT_READY) return driver().error("the program failed", result);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (passed.count() > kMaxSeconds)
      return {Code::kDeviceFailed, "did not finish within " + std::to_string(static_cast<int>(kMaxSeconds)) + " s"};
    if (polls > 100) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Status CudaProgramTrial::read(const DeviceMemory& from, void* to, std::size_t bytes) {
  if (const CUresult r = driver().cuMemcpyDtoHAsync(to, from.address(), bytes, stream_); r != CUDA_SUCCESS)
    return driver().error("cuMemcpyDtoHAsync", r);
  return wait();
}

Status CudaProgramTrial::launch(const CudaProgram& program, int set) {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const DeviceMemory& memory : inputs_[static_cast<std::size_t>(set)]) inputs.push_back(memory.as<void>());
  for (const DeviceMemory& memory : outputs_) outputs.push_back(memory.as<char>() + kGuardBytes);
  return program.launch({inputs.data(), outputs.data(), stream_}, &intermediates_, &partials_);
}

Status CudaProgramTrial::run(const CudaProgram& program, std::vector<TensorBytes>* outputs) {
  for (const DeviceMemory& memory : outputs_) {
    const CUresult r = driver().cuMemsetD8Async(memory.address(), kPoison, memory.bytes(), stream_);
    if (r != CUDA_SUCCESS) return driver().error("cuMemsetD8Async", r);
  }
  if (Status s = launch(program, 0); !s.ok()) return s;
  if (Status s = wait(); !s.ok()) return s;
  for (const DeviceMemory& memory : outputs_) {
    TensorBytes& bytes = outputs->emplace_back(memory.bytes());
    if (Status s = read(memory, bytes.data(), bytes.size()); !s.ok()) return s;
  }
  return {};
}

Verdict CudaProgramTrial::verify(const LoadedProgram& program) {
  const Current current(shared_->context);
  std::vector<TensorBytes> bytes;
  if (Status s = run(static_cast<const CudaProgram&>(program), &bytes); !s.ok()) {
    Verdict verdict;
    verdict.reason = s.message();
    return verdict;
  }
  std::vector<OutputBytes> outputs;
  for (const TensorBytes& one : bytes) outputs.push_back({one.data()});
  return judge(graph_, reference_, outputs);
}

Status CudaProgramTrial::capture(const CudaProgram& program, CUgraphExec* graph) {
  const Driver& d = driver();
  CUgraph captured = nullptr;
  if (const CUresult r = d.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL); r != CUDA_SUCCESS)
    return d.error("cuStreamBeginCapture", r);
  Status launched;
  for (int i = 0; i < launches_ && launched.ok(); ++i) launched = launch(program, i % sets_);
  const CUresult ended = d.cuStreamEndCapture(stream_, &captured);
  if (!launched.ok()) return launched;
  if (ended != CUDA_SUCCESS) return d.error("cuStreamEndCapture", ended);
  const CUresult made = d.cuGraphInstantiate(graph, captured, 0);
  d.cuGraphDestroy(captured);
  return made == CUDA_SUCCESS ? Status() : d.error("cuGraphInstantiate", made);
}

Status CudaProgramTrial::time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) {
  const Current current(shared_->context);
  const Driver& d = driver();
  const auto& cuda_program = static_cast<const CudaProgram&>(program);
  CUgraphExec& graph = graphs_[cuda_program.id()];
  if (graph == nullptr) {
    if (Status s = capture(cuda_program, &graph); !s.ok()) return s;
    d.cuGraphLaunch(graph, stream_);  // warms up
  }
  for (int i = 0; i < samples; ++i) {
    d.cuEventRecord(begin_, stream_);
    if (const CUresult r = d.cuGraphLaunch(graph, stream_); r != CUDA_SUCCESS) return d.error("cuGraphLaunch", r);
    if (Status s = wait(); !s.ok()) return s;
    float milliseconds = 0;
    if (const CUresult r = d.cuEventElapsedTime(&milliseconds, begin_, end_); r != CUDA_SUCCESS)
      return d.error("cuEventElapsedTime", r);
    microseconds->push_back(1e3 * milliseconds / launches_);
  }
  return {};
}

double CudaProgramTrial::clock_mhz() {
  const Current current(shared_->context);
  unsigned long long counts[2] = {0, 0};
  if (!checker_->clock(stream_, clocks_.address()).ok()) return 0;
  if (!read(clocks_, counts, sizeof counts).ok() || counts[1] == 0) return 0;
  return 1e3 * static_cast<double>(counts[0]) / static_cast<double>(counts[1]);
}

}  // namespace gqa
