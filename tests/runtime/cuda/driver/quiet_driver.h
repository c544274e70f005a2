// quiet_driver.h: a CUDA driver that says yes: one device, memory of the host's, no stream captured.
// Owns: the entries that loading a kernel and its workspace need; a test adds what it wants to see.
// Never: launches anything.
// Threads: its functions keep no state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "runtime/cuda/driver/driver.h"

namespace gqa::test {

inline Driver quiet_driver() {
  Driver d;
  d.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) {
    *context = nullptr;
    return CUDA_SUCCESS;
  };
  d.cuDevicePrimaryCtxRelease = [](CUdevice) { return CUDA_SUCCESS; };
  d.cuCtxGetCurrent = [](CUcontext* context) {
    *context = nullptr;
    return CUDA_SUCCESS;
  };
  d.cuModuleLoadData = [](CUmodule* module, const void*) {
    *module = reinterpret_cast<CUmodule>(1);
    return CUDA_SUCCESS;
  };
  d.cuModuleUnload = [](CUmodule) { return CUDA_SUCCESS; };
  d.cuModuleGetFunction = [](CUfunction*, CUmodule, const char*) { return CUDA_SUCCESS; };
  d.cuFuncSetAttribute = [](CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; };
  d.cuMemAlloc = [](CUdeviceptr* address, std::size_t bytes) {
    *address = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
    return CUDA_SUCCESS;
  };
  d.cuMemGetInfo = [](std::size_t* free, std::size_t* total) {
    *free = *total = std::size_t{1} << 30;
    return CUDA_SUCCESS;
  };
  d.cuMemFree = [](CUdeviceptr address) {
    std::free(reinterpret_cast<void*>(address));
    return CUDA_SUCCESS;
  };
  d.cuMemsetD32Async = [](CUdeviceptr address, unsigned value, std::size_t count, CUstream) {
    std::fill_n(reinterpret_cast<unsigned*>(address), count, value);
    return CUDA_SUCCESS;
  };
  d.cuStreamGetCaptureInfo = [](CUstream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*, const CUgraphNode**,
                                std::size_t*) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  d.cuStreamGetId = [](CUstream stream, unsigned long long* id) {
    *id = reinterpret_cast<std::uintptr_t>(stream);
    return CUDA_SUCCESS;
  };
  d.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
  return d;
}

}  // namespace gqa::test
