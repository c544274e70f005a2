// cuda_kernel.h: a loaded attention kernel and its launch.
// Owns: the module, and turning a Call into AttentionParams, tensor maps where the kernel loads by TMA, and a grid.
// Never: allocates or formats on the hot path, except where a kernel's workspace first grows.
// Threads: launch() from many threads at once.
#pragma once

#include <cstdint>
#include <memory>

#include "jit/device/attention/common/params.h"
#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/launch/launch_numbers.h"
#include "runtime/cuda/workspace/workspace.h"
#include "runtime/device.h"

namespace gqa {

// What all kernels of a device share; outlives them.
struct CudaShared {
  ~CudaShared();
  Context context;
  std::unique_ptr<WorkspacePool> workspaces;     // partials and counters of attention kernels
  std::unique_ptr<WorkspacePool> intermediates;  // what programs of graphs keep between their kernels
  bool early_start = false;  // grids may begin under the end of the one before (jit/device/ptx/grid_dependency.cuh)
  int sms = 0;               // as many CTAs a persistent kernel gets at most
};

struct LaunchShape {
  unsigned blocks, threads, shared_memory;
};
// A one-dimensional grid, begun under the end of the one before where the device can: its code waits for that grid
// before it reads or writes memory. Needs the context to be current.
CUresult launch_kernel(const CudaShared& shared, CUfunction function, const LaunchShape& shape, CUstream stream,
                       void** arguments);

class CudaKernel {
 public:
  static Status load(const std::shared_ptr<CudaShared>& shared, const Problem& problem, const Candidate& candidate,
                     const Binary& binary, std::unique_ptr<CudaKernel>* kernel);
  ~CudaKernel();
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  Status launch(const Call& call) const;
  // The same with a workspace of the caller's that has room for plan_of(call.problem): trials keep theirs apart from
  // the users'. Needs the context to be current.
  Status launch(const Call& call, const Workspace& workspace) const;
  const LaunchPlan& plan_of(const Problem& problem) const { return cached_numbers(id_, problem, candidate_).plan; }
  const Candidate& candidate() const { return candidate_; }
  // Unlike its address, never used again.
  std::uint64_t id() const { return id_; }

 private:
  CudaKernel(std::shared_ptr<CudaShared> shared, const Candidate& candidate);
  Status launch(const Call& call, const LaunchNumbers& numbers, const Workspace& workspace) const;
  CUresult launch(const LaunchPlan& plan, CUstream stream, void** arguments) const;

  std::shared_ptr<CudaShared> shared_;
  Candidate candidate_;
  std::uint64_t id_;
  Module module_;
  CUfunction function_ = nullptr;
};

// CTAs that are launched: a persistent kernel's fill the device once and walk the tiles.
unsigned grid_of(const LaunchPlan& plan, int sms);

// The kernel's first argument, without workspace; what verification kernels take too.
AttentionParams params_of(const Call& call, const Candidate& candidate);

}  // namespace gqa
