// host_merger.h: states merged on the CPU.
// Owns: the sums of a row's parts, in float32, rows shared out among threads.
// Never: reads out of a part whose lse is -inf: what lies there may be anything.
// Threads: run() from many threads at once; each call returns when its work is done.
#pragma once

#include "runtime/device.h"

namespace gqa {

class HostMerger final : public LoadedProgram {
 public:
  explicit HostMerger(int threads) : threads_(threads) {}
  Status run(const ProgramCall& call) const override;

 private:
  const int threads_;
};

}  // namespace gqa
