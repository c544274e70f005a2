// capture.h: what a launch asks about its stream, and the mode in which a thread may allocate beside a capture.
// Owns: a stream's number, the capture that it is part of, the graph being captured, RelaxedCapture.
// Never: begins or ends a capture.
// Threads: any; the capture mode is each thread's own.
#pragma once

#include <cstdint>

#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/driver/driver.h"

namespace gqa {

// A capture in the default mode forbids the whole process to allocate, to free, to load code or to query events; a
// thread in this scope is exempt. None of that is queued on a captured stream, so no capture is the worse for it.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver)
      : driver_(driver), changed_(driver.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS) {}
  ~RelaxedCapture() {
    if (changed_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool changed_;
};

// What all that a miss does to the driver is done under, and all that frees: the context is current, and captures of
// other threads stay whole. The hot path does with Current.
class BesideCaptures {
 public:
  explicit BesideCaptures(const Context& context) : current_(context), relaxed_(context.driver()) {}

 private:
  Current current_;
  RelaxedCapture relaxed_;
};

// The capture that a stream is part of, a number that no other capture of the process has; 0 if none.
Status capture_of(const Driver& driver, CUstream stream, std::uint64_t* capture);

// The graph that the stream's capture is making; null if there is no capture. It stays the capture's.
Status graph_of(const Driver& driver, CUstream stream, CUgraph* graph);

// A number that no other stream of the process has or will have, never 0. A handle is none: a destroyed stream's is
// used again, and CU_STREAM_PER_THREAD is one handle for a stream of each thread.
Status number_of(const Driver& driver, CUstream stream, std::uint64_t* number);

// A number that no other stream of the same capture has. The driver tells no ids of streams that are being captured;
// while a capture lasts, a handle is one, but for CU_STREAM_PER_THREAD, which is the thread's.
std::uint64_t number_in_capture(CUstream stream);

}  // namespace gqa
