// cuda_program.h: a loaded program: its kernels, launched one after another.
// Owns: the modules, where each kernel's arguments lie (the call's inputs and outputs, or the memory between kernels),
// and the order of launches. The memory between kernels comes from a pool that all programs of a device share: work on
// a stream is ordered, so its programs can share one.
// Never: allocates or formats once warm; chooses anything.
// Threads: launch() from many threads at once, on one stream or on several.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "jit/block/tile_codegen.h"
#include "runtime/cuda/cuda_kernel.h"
#include "runtime/program.h"
#include "search/graph/tile/kernel_plan.h"

namespace gqa {

class CudaProgram : public LoadedProgram {
 public:
  static Status load(const std::shared_ptr<CudaShared>& shared, const KernelPlan& plan,
                     const std::vector<Binary>& kernels, std::unique_ptr<LoadedProgram>* program);
  ~CudaProgram() override;

  Status launch(const ProgramCall& call) const override;
  // The same with pools of the caller's: trials keep theirs apart from the users'. Needs the context to be current.
  Status launch(const ProgramCall& call, WorkspacePool* intermediates, WorkspacePool* partials) const;
  // Unlike its address, never used again.
  std::uint64_t id() const { return id_; }

 private:
  // Where a tensor lies: number `index` of the call's inputs or outputs, or so many bytes into the memory between.
  struct Place {
    enum class Kind : std::uint8_t { kInput, kOutput, kBetween } kind = Kind::kBetween;
    std::int64_t index = 0;
  };
  // One launch: a tile kernel, or a family's where `family` is set.
  struct Step {
    std::vector<Place> arguments;  // a tile kernel's: inputs, then outputs
    Module module;
    CUfunction function = nullptr;
    TileLaunch tile;
    std::int64_t partials = 0;  // where a tile kernel's partial sums lie: bytes into the memory between
    std::unique_ptr<Kernel> family;
    Call call;  // all but addresses and stream
    Place q, k, v, out;
  };
  struct Addresses {
    const ProgramCall& call;
    char* between;
    unsigned int* counters;  // of whatever kernel runs: each leaves them zero
    void* of(const Place& place) const;
  };

  explicit CudaProgram(std::shared_ptr<CudaShared> shared);
  std::vector<Place> places_of(const KernelGraph& program);
  std::int64_t set_aside(std::int64_t bytes);
  Status load_tile(const PlannedKernel& kernel, const Binary& binary, Step* step);
  Status load_family(const PlannedKernel& kernel, const Binary& binary, const std::vector<Place>& places,
                     Step* step) const;
  Status launch_tile(const Step& step, const Addresses& at, CUstream stream) const;
  static Status launch_family(const Step& step, const Addresses& at, void* stream, WorkspacePool* partials);

  std::shared_ptr<CudaShared> shared_;
  const std::uint64_t id_;
  std::vector<Step> steps_;
  LaunchPlan between_;  // partial_floats: the memory between kernels, and that of each one's partial sums
};

}  // namespace gqa
