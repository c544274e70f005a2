// cuda_program.h: a loaded program: its kernels, launched one after another.
// Owns: the modules, where each kernel's arguments lie (the call's own, its inputs and outputs, or the memory between
// kernels), and the order of launches. The memory between kernels comes from a pool that all programs of a device
// share: work on a stream is ordered, so its programs can share one.
// Never: allocates or formats once warm; chooses anything.
// Threads: run() from many threads at once, on one stream or on several.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "jit/block/tile_codegen.h"
#include "runtime/cuda/launch/cuda_kernel.h"
#include "runtime/program.h"

namespace gqa {

class CudaProgram : public LoadedProgram {
 public:
  // `binaries`: of program.sources.
  static Status load(const std::shared_ptr<CudaShared>& shared, const Program& program,
                     const std::vector<Binary>& binaries, std::unique_ptr<LoadedProgram>* loaded);
  ~CudaProgram() override;

  using LoadedProgram::run;
  Status run(const ProgramCall& call) const override;
  bool appends(const Call& call) const override;
  std::int64_t workspace_bytes(const Call& call) const override;
  // The same with pools of the caller's: trials keep theirs apart from the users'. Needs the context to be current.
  Status launch(const ProgramCall& call, WorkspacePool* intermediates, WorkspacePool* partials) const;
  // Unlike its address, never used again.
  std::uint64_t id() const { return id_; }
  // The kernel of a program whose calls bring their own tensors; null: of any other.
  const CudaKernel* attention() const { return steps_.front().fixed ? nullptr : steps_.front().attention.get(); }

 private:
  // One launch: a block kernel, or an attention family's.
  struct LoadedStep {
    std::vector<TensorPlace> arguments;
    Module module;
    CUfunction function = nullptr;
    TileLaunch block;
    std::int64_t partials = 0;  // where a block kernel's partial sums lie: bytes into the memory between
    std::unique_ptr<CudaKernel> attention;
    bool fixed = true;  // attention's lengths and tensors are the program's, not the call's
    Call call;          // all but addresses and stream
  };
  struct Addresses {
    const ProgramCall& call;
    char* between;
    unsigned int* counters;  // of whatever kernel runs: each leaves them zero
    void* of(const TensorPlace& place) const;
  };

  explicit CudaProgram(std::shared_ptr<CudaShared> shared);
  Status load_block(const Step& step, const Binary& binary, LoadedStep* loaded);
  Status load_attention(const AttentionStep& step, const Binary& binary, LoadedStep* loaded) const;
  Status launch_block(const LoadedStep& step, const Addresses& at, CUstream stream) const;
  static Status launch_attention(const LoadedStep& step, const Addresses& at, void* stream, WorkspacePool* partials);

  std::shared_ptr<CudaShared> shared_;
  const std::uint64_t id_;
  std::vector<LoadedStep> steps_;
  LaunchPlan between_;  // partial_floats: the memory between kernels, and that of each one's partial sums
};

}  // namespace gqa
