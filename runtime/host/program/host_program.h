// host_program.h: a user's graph run on the CPU: every kernel of a program as its µGraph says, tile by tile.
// Owns: HostProgram: where each tensor lies in a launch, the memory between kernels, blocks spread over threads.
// Never: reads thread plans: a kernel of a family is run as the block graphs it stands for. Allocates nothing once
// warm.
// Threads: run() from many threads at once, each with memory of its own; returns when its work is done.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/device.h"
#include "runtime/host/program/tile_runner.h"

namespace gqa {

class HostProgram final : public LoadedProgram {
 public:
  // `ops`: of the instruction set to use.
  static Status load(const Program& program, const HostOps& ops, int threads, std::unique_ptr<HostProgram>* loaded);
  using LoadedProgram::run;
  Status run(const ProgramCall& call) const override;

 private:
  // A tensor of a launch: where the program has it, or a constant.
  struct Operand {
    TensorPlace place;
    int constant = -1;
  };
  struct Stage {
    TileProgram tiles;
    std::vector<Operand> operands;
    std::vector<TensorPlace> results;
    std::int64_t blocks = 1;
  };
  // What lies between the kernels of one launch; kept for the next.
  struct Memory {
    std::vector<std::byte> bytes;
    std::vector<const std::byte*> operands;
    std::vector<std::byte*> results;
  };
  class Loader;

  HostProgram(const HostOps& ops, int threads) : ops_(ops), threads_(threads) {}
  std::unique_ptr<Memory> take_memory() const;
  void give_back(std::unique_ptr<Memory> memory) const;
  bool run_stage(const Stage& stage, const ProgramCall& call, Memory* memory) const;
  bool run_all(const ProgramCall& call, Memory* memory) const;

  const HostOps& ops_;
  const int threads_;
  std::vector<Stage> stages_;
  std::vector<float> constants_;
  std::int64_t bytes_between_ = 0;
  std::size_t most_operands_ = 0, most_results_ = 0;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Memory>> spare_;
};

}  // namespace gqa
