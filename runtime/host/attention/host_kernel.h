// host_kernel.h: a candidate run on the CPU.
// Owns: the walk over row tiles (flash) or over row tiles and shares of their keys (split, then the merge), longest
// tiles first.
// Never: allocates once warm: scratch and partials are a thread's own and only grow.
// Threads: run() from many threads at once; each call returns when its work is done.
#pragma once

#include "runtime/device.h"
#include "runtime/host/attention/tile.h"
#include "search/families/resources.h"

namespace gqa {

class HostKernel final : public LoadedProgram {
 public:
  HostKernel(const Candidate& candidate, int threads, const TileKernels& kernels = tile_kernels())
      : candidate_(candidate), shape_(shape_of(candidate)), threads_(threads), kernels_(kernels) {}
  using LoadedProgram::run;
  Status run(const ProgramCall& call) const override;

 private:
  Tile tile_at(const Call& call, std::int64_t index) const;
  // False where memory for scratch ran out.
  bool run_flash(const Call& call, std::int64_t tiles) const;
  bool run_split(const Call& call, std::int64_t tiles) const;

  const Candidate candidate_;
  const CandidateShape shape_;
  const int threads_;
  const TileKernels& kernels_;  // of an instruction set
};

}  // namespace gqa
