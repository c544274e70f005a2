// host_appender.h: appending to a cache on the CPU.
// Owns: the copies and rotations of rows, shared out over the device's threads, and each calling thread's memory
// between appending and attending, which grows and stays.
// Never: decides where a row goes; append_params.h does, as on GPUs.
// Threads: run() from many threads at once.
#pragma once

#include "runtime/device.h"

namespace gqa {

class HostAppender final : public LoadedProgram {
 public:
  explicit HostAppender(int threads) : threads_(threads) {}
  Status run(const ProgramCall& call) const override;

 private:
  const int threads_;
};

}  // namespace gqa
