// cached_lists.cc: see cached_lists.h.
#include "runtime/cuda/cached_lists.h"

#include <cstdint>
#include <vector>

#include "runtime/checked.h"
#include "runtime/cuda/driver/capture.h"

namespace gqa {
namespace {

Status read_back(const Driver& driver, const std::int32_t* list, CUstream stream, std::vector<std::int32_t>* copy) {
  const CUresult result = driver.cuMemcpyDtoHAsync(copy->data(), reinterpret_cast<CUdeviceptr>(list),
                                                   copy->size() * sizeof(std::int32_t), stream);
  return driver.error("cuMemcpyDtoHAsync", result != CUDA_SUCCESS ? result : driver.cuStreamSynchronize(stream));
}

Status check_not_captured(const Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver.cuStreamIsCapturing(stream, &status);
  if (result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE) return {};
  return {Code::kCapturing,
          "a checked handle reads lengths and page tables back before each call, which a stream that is being captured "
          "cannot do: capture with a handle that is not checked"};
}

}  // namespace

Status check_cached_lists(const Context& context, const Call& call) {
  const Problem& p = call.problem;
  if (call.kv_lengths == nullptr && !p.paged()) return {};
  const BesideCaptures here(context);
  const auto stream = static_cast<CUstream>(call.stream);
  if (Status s = check_not_captured(context.driver(), stream); !s.ok()) return s;
  std::vector<std::int32_t> lengths, table;
  if (call.kv_lengths != nullptr) {
    lengths.resize(static_cast<std::size_t>(p.batch));
    if (Status s = read_back(context.driver(), call.kv_lengths, stream, &lengths); !s.ok()) return s;
  }
  if (p.paged()) {
    table.resize(static_cast<std::size_t>((p.batch - 1) * call.page_table_stride + p.kv_len / p.page));
    if (Status s = read_back(context.driver(), call.page_table, stream, &table); !s.ok()) return s;
  }
  return check_lists(p, lengths.empty() ? nullptr : lengths.data(), table.empty() ? nullptr : table.data(),
                     call.page_table_stride, call.pages);
}

}  // namespace gqa
