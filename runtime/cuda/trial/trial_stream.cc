// trial_stream.cc: see trial_stream.h.
#include "runtime/cuda/trial/trial_stream.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace gqa {
namespace {

constexpr double kMaxSeconds = 20;  // a launch that is not done by then hangs
constexpr double kGraphUs = 400, kLeastGuessUs = 2;
constexpr double kMostLaunches = 32;  // a graph, unless there are more sets
constexpr unsigned long long kProbeNs = 20000;
constexpr int kProbes = 4;

}  // namespace

Status TrialStream::open() {
  if (const CUresult r = driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING); r != CUDA_SUCCESS)
    return driver_.error("cuStreamCreate", r);
  for (CUevent* event : {&begin_, &end_})
    if (const CUresult r = driver_.cuEventCreate(event, CU_EVENT_DEFAULT); r != CUDA_SUCCESS)
      return driver_.error("cuEventCreate", r);
  return {};
}

void TrialStream::close() {
  if (stream_ != nullptr) driver_.cuStreamSynchronize(stream_);
  forget_graphs();
  if (begin_ != nullptr) driver_.cuEventDestroy(begin_);
  if (end_ != nullptr) driver_.cuEventDestroy(end_);
  if (stream_ != nullptr) driver_.cuStreamDestroy(stream_);
}

void TrialStream::forget_graphs() {
  for (const auto& [id, graph] : graphs_)
    if (graph != nullptr) driver_.cuGraphExecDestroy(graph);
  graphs_.clear();
}

// Polls instead of blocking, so that a kernel that never ends and a cancelled effort are noticed.
Status TrialStream::wait() {
  if (const CUresult r = driver_.cuEventRecord(end_, stream_); r != CUDA_SUCCESS)
    return driver_.error("cuEventRecord", r);
  const auto begin = std::chrono::steady_clock::now();
  for (int polls = 0;; ++polls) {
    const CUresult result = driver_.cuEventQuery(end_);
    if (result == CUDA_SUCCESS) return {};
    if (result != CUDA_ERROR_NOT_READY) return driver_.error((std::string("the ") + what_ + " failed").c_str(), result);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    hangs_ = passed.count() > kMaxSeconds;
    if (hangs_)
      return {Code::kDeviceFailed, "did not finish within " + std::to_string(static_cast<int>(kMaxSeconds)) + " s"};
    if (Status s = effort_.check(); !s.ok()) return s;
    if (polls > 100) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Status TrialStream::health() {
  if (hangs_)
    return {Code::kDeviceFailed,
            std::string("a ") + what_ + " that was tried does not end, and nothing can be tried after it"};
  return context_works(driver_);
}

Status TrialStream::read(CUdeviceptr from, void* to, std::size_t bytes) {
  if (Status s = wait(); !s.ok()) return s;
  if (const CUresult r = driver_.cuMemcpyDtoHAsync(to, from, bytes, stream_); r != CUDA_SUCCESS)
    return driver_.error("cuMemcpyDtoHAsync", r);
  return wait();
}

int TrialStream::launches_a_graph(double guessed_us, int sets) {
  return std::max(sets,
                  static_cast<int>(std::clamp(kGraphUs / std::max(kLeastGuessUs, guessed_us), 1.0, kMostLaunches)));
}

Status TrialStream::capture(int launches, const std::function<Status(int)>& launch, CUgraphExec* graph) {
  CUgraph captured = nullptr;
  if (const CUresult r = driver_.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL); r != CUDA_SUCCESS)
    return driver_.error("cuStreamBeginCapture", r);
  Status launched;
  for (int i = 0; i < launches && launched.ok(); ++i) launched = launch(i);
  const CUresult ended = driver_.cuStreamEndCapture(stream_, &captured);
  if (!launched.ok()) return launched;
  if (ended != CUDA_SUCCESS) return driver_.error("cuStreamEndCapture", ended);
  const CUresult made = driver_.cuGraphInstantiate(graph, captured, 0);
  driver_.cuGraphDestroy(captured);
  return made == CUDA_SUCCESS ? Status() : driver_.error("cuGraphInstantiate", made);
}

// A card that is busy all the time meets its power limit within 0.1 s, and who is timed then loses to who was timed
// before; one that rests half of the time does not.
Status TrialStream::replay_and_rest(CUgraphExec graph, float* milliseconds) {
  if (const CUresult r = driver_.cuEventRecord(begin_, stream_); r != CUDA_SUCCESS)
    return driver_.error("cuEventRecord", r);
  if (const CUresult r = driver_.cuGraphLaunch(graph, stream_); r != CUDA_SUCCESS)
    return driver_.error("cuGraphLaunch", r);
  if (Status s = wait(); !s.ok()) return s;
  if (const CUresult r = driver_.cuEventElapsedTime(milliseconds, begin_, end_); r != CUDA_SUCCESS)
    return driver_.error("cuEventElapsedTime", r);
  return rest(*milliseconds / 1e3);
}

Status TrialStream::rest(double seconds) const {
  const Effort resting(seconds);
  for (double left = seconds; left > 0; left = resting.left()) {
    if (Status s = effort_.check(); !s.ok()) return s;
    std::this_thread::sleep_for(
        std::min<std::chrono::duration<double>>(std::chrono::duration<double>(left), kAskEvery));
  }
  return {};
}

Status TrialStream::time(std::uint64_t id, int launches, const std::function<Status(int)>& launch, int samples,
                         std::vector<double>* microseconds) {
  CUgraphExec& graph = graphs_[id];
  float milliseconds = 0;
  if (graph == nullptr) {
    if (Status s = capture(launches, launch, &graph); !s.ok()) return s;
    if (Status s = replay_and_rest(graph, &milliseconds); !s.ok()) return s;  // not kept: the first uploads the graph
  }
  for (int i = 0; i < samples && (i == 0 || !effort_.spent()); ++i) {
    if (Status s = replay_and_rest(graph, &milliseconds); !s.ok()) return s;
    microseconds->push_back(1e3 * milliseconds / launches);
  }
  return {};
}

double TrialStream::clock_mhz(const Checker& checker, CUdeviceptr memory) {
  unsigned long long counts[2] = {0, 0};
  if (!checker.clock(stream_, memory).ok()) return 0;
  if (!read(memory, counts, sizeof counts).ok() || counts[1] == 0) return 0;
  return 1e3 * static_cast<double>(counts[0]) / static_cast<double>(counts[1]);
}

Status TrialStream::probe(const Checker& checker, CUdeviceptr memory, bool* taken) {
  unsigned long long span[2] = {0, 0};
  if (const CUresult r = driver_.cuMemsetD8Async(memory, 0, sizeof span, stream_); r != CUDA_SUCCESS)
    return driver_.error("cuMemsetD8Async", r);
  if (Status s = checker.probe(stream_, memory, kProbeNs); !s.ok()) return s;
  if (Status s = read(memory, span, sizeof span); !s.ok()) return s;
  *taken = span[1] - ~span[0] > kProbeNs + kProbeNs / 2;
  return {};
}

double TrialStream::taken_by_others(const Checker& checker, CUdeviceptr memory) {
  int found = 0;
  for (int i = 0; i < kProbes; ++i) {
    bool taken = false;
    if (!probe(checker, memory, &taken).ok()) return 0;
    found += taken ? 1 : 0;
  }
  return static_cast<double>(found) / kProbes;
}

}  // namespace gqa
