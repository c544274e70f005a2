// program.h: what the runtime asks of a device for a user's graph; device.h is the same for an attention call.
// Owns: LoadedProgram (launch), ProgramTrial (inputs, reference, verification, clocks), ProgramCall.
// Never: searches, remembers or chooses.
// Threads: LoadedProgram::launch may run on many threads at once. A ProgramTrial belongs to one thread.
#pragma once

#include <vector>

#include "runtime/device.h"
#include "search/graph/tile/kernel_plan.h"

namespace gqa {

// One run: addresses in the order of the program's inputs() and outputs().
struct ProgramCall {
  const void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  void* stream = nullptr;  // CUstream; the host ignores it
};

// All kernels of a program, ready to launch one after another; holds the memory between them.
class LoadedProgram {
 public:
  virtual ~LoadedProgram() = default;
  virtual Status launch(const ProgramCall& call) const = 0;
};

// A user's graph on a device: inputs, the reference (evaluate() in double), the yardstick (evaluate() with results
// rounded to their types), as Trial is for an attention problem. Programs given are equal to the graph: same inputs()
// and outputs() in the same order.
class ProgramTrial {
 public:
  virtual ~ProgramTrial() = default;
  // Runs on poisoned, guarded outputs; passes where the error is at most twice the yardstick's.
  virtual Verdict verify(const LoadedProgram& program) = 0;
  // Microseconds a run, one sample per replay, over rotated inputs.
  virtual Status time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) = 0;
  virtual double clock_mhz() { return 0; }
};

}  // namespace gqa
