// trial_stream.h: the stream that a trial works on, of an attention problem or of a user's graph.
// Owns: the stream, its two events, a graph of launches for each kernel or program that is timed; waiting that notices
// what never ends and ends where the effort is cancelled, reading back, timing by replay, the device's clock.
// Never: knows what is launched.
// Threads: belongs to one thread. All but the constructor need the context to be current.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "runtime/cuda/trial/checker.h"
#include "runtime/effort.h"

namespace gqa {

class TrialStream {
 public:
  // `what` is for messages: "kernel".
  TrialStream(const Driver& driver, const char* what, const Effort& effort)
      : driver_(driver), what_(what), effort_(effort) {}
  TrialStream(const TrialStream&) = delete;
  TrialStream& operator=(const TrialStream&) = delete;

  Status open();
  void close();  // waits for what is queued; the owner's destructor calls it
  CUstream get() const { return stream_; }

  Status wait();
  // Fails where nothing can run here any more: the context is broken, or a kernel never ended.
  Status health();
  // What is queued goes on; close() would wait for it.
  bool unfinished() const { return driver_.cuEventQuery(end_) == CUDA_ERROR_NOT_READY; }
  // Waits first: a copy to pageable memory blocks, for ever behind a kernel that never ends.
  Status read(CUdeviceptr from, void* to, std::size_t bytes);

  // Launches a graph: each of the sets at least once, and so many that the graph's own start does not show.
  static int launches_a_graph(double guessed_us, int sets);
  // Microseconds a launch, one sample a replay, at the clock of a card that is not at its power limit: after each the
  // device idles as long again. launch(i) queues the i-th of `launches`: asked for once an id, while the stream is
  // being captured.
  Status time(std::uint64_t id, int launches, const std::function<Status(int)>& launch, int samples,
              std::vector<double>* microseconds);
  // 0 if it cannot be read. `memory`: two 64-bit words.
  double clock_mhz(const Checker& checker, CUdeviceptr memory);
  // The share of a few probes just now that found an SM taken; 0 if none could be made. `memory`: the same.
  double taken_by_others(const Checker& checker, CUdeviceptr memory);
  // Destroys the graphs: what they use may be freed.
  void forget_graphs();

 private:
  Status probe(const Checker& checker, CUdeviceptr memory, bool* taken);
  Status replay_and_rest(CUgraphExec graph, float* milliseconds);
  Status rest(double seconds) const;
  Status capture(int launches, const std::function<Status(int)>& launch, CUgraphExec* graph);

  const Driver& driver_;
  const char* const what_;
  const Effort effort_;
  bool hangs_ = false;
  CUstream stream_ = nullptr;
  CUevent begin_ = nullptr, end_ = nullptr;
  std::map<std::uint64_t, CUgraphExec> graphs_;
};

}  // namespace gqa
