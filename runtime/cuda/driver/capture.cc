// capture.cc: see capture.h.
#include "runtime/cuda/driver/capture.h"

namespace gqa {

Status capture_of(const Driver& driver, CUstream stream, std::uint64_t* capture) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  const CUresult result = driver.cuStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr);
  if (result != CUDA_SUCCESS) return driver.error("cuStreamGetCaptureInfo", result);
  *capture = status == CU_STREAM_CAPTURE_STATUS_NONE ? 0 : id;
  return {};
}

Status graph_of(const Driver& driver, CUstream stream, CUgraph* graph) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  *graph = nullptr;
  return driver.error("cuStreamGetCaptureInfo",
                      driver.cuStreamGetCaptureInfo(stream, &status, &id, graph, nullptr, nullptr));
}

Status number_of(const Driver& driver, CUstream stream, std::uint64_t* number) {
  unsigned long long id = 0;
  const CUresult result = driver.cuStreamGetId(stream, &id);
  if (result != CUDA_SUCCESS) return driver.error("cuStreamGetId", result);
  *number = std::uint64_t{id} + 1;
  return {};
}

std::uint64_t number_in_capture(CUstream stream) {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  if (stream != CU_STREAM_PER_THREAD) return handle;
  thread_local const char here = 0;
  return reinterpret_cast<std::uintptr_t>(&here);  // no handle's: those are the driver's
}

}  // namespace gqa
