// cuda_merger.cc: see cuda_merger.h.
#include "runtime/cuda/launch/cuda_merger.h"

#include <algorithm>
#include <bit>

#include "jit/codegen.h"
#include "runtime/call/strides.h"

namespace gqa {
namespace {

constexpr int kWarp = 32;

MergePart part_of(const AttentionState& state) {
  return {state.out, state.lse, tensor_strides(state.out_strides), tensor_strides(state.lse_strides)};
}

}  // namespace

MergeParams next_merge(const MergeCall& call, int* next) {
  MergeParams p{};
  p.merged = part_of(call.merged);
  if (*next > 0) p.parts[p.count++] = p.merged;
  while (p.count < kMergeParts && *next < call.count) p.parts[p.count++] = part_of(call.parts[(*next)++]);
  p.rows = static_cast<unsigned>(call.rows());
  p.q_len = call.q_len;
  p.heads = call.heads;
  p.head_dim = call.head_dim;
  const auto chunks = static_cast<unsigned>((call.head_dim + kMergeChunk - 1) / kMergeChunk);
  p.lanes = static_cast<int>(std::min<unsigned>(kWarp, std::bit_ceil(chunks)));
  p.type = static_cast<int>(call.type);
  p.vectors = call.vectors && call.head_dim % kMergeChunk == 0;
  return p;
}

unsigned merge_blocks(const MergeParams& p) {
  const auto of_block = static_cast<unsigned>(kMergeThreads / p.lanes);
  return (p.rows + of_block - 1) / of_block;
}

Status CudaMerger::load(const std::shared_ptr<CudaShared>& shared, const Binary& binary,
                        std::unique_ptr<LoadedProgram>* loaded) {
  std::unique_ptr<SingleKernel> kernel;
  Status status = SingleKernel::load(shared, binary, kMergeEntryPoint, &kernel);
  if (status.ok()) *loaded = std::make_unique<CudaMerger>(std::move(kernel));
  return status;
}

Status CudaMerger::run(const ProgramCall& given) const {
  const MergeCall& call = *given.merge;
  const Current current(kernel_->shared().context);
  for (int next = 0; next < call.count;) {
    MergeParams params = next_merge(call, &next);
    void* arguments[] = {&params};
    const LaunchShape shape = {merge_blocks(params), kMergeThreads, 0};
    if (Status s = kernel_->launch(shape, static_cast<CUstream>(call.stream), arguments); !s.ok()) return s;
  }
  return {};
}

}  // namespace gqa
