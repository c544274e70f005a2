// driver.h: the CUDA driver, loaded at run time.
// Owns: the table of driver functions (one X-macro), loaded once from libcuda.so.1, and errors in words.
// Never: links to a CUDA library; cuda.h gives types only. Without a driver every caller gets a Status that says so.
// Threads: constant after first use.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>

#include "search/status.h"

#undef cuStreamGetCaptureInfo

// X(function, exported name): names with a version suffix where cuda.h maps them by a macro.
#define GQA_DRIVER_SYMBOLS(X)                                               \
  X(cuInit, "cuInit")                                                       \
  X(cuDriverGetVersion, "cuDriverGetVersion")                               \
  X(cuDeviceGetCount, "cuDeviceGetCount")                                   \
  X(cuDeviceGet, "cuDeviceGet")                                             \
  X(cuDeviceGetName, "cuDeviceGetName")                                     \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute")                           \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")                   \
  X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2")              \
  X(cuCtxGetCurrent, "cuCtxGetCurrent")                                     \
  X(cuCtxPushCurrent, "cuCtxPushCurrent_v2")                                \
  X(cuCtxPopCurrent, "cuCtxPopCurrent_v2")                                  \
  X(cuModuleLoadData, "cuModuleLoadData")                                   \
  X(cuModuleUnload, "cuModuleUnload")                                       \
  X(cuModuleGetFunction, "cuModuleGetFunction")                             \
  X(cuFuncSetAttribute, "cuFuncSetAttribute")                               \
  X(cuLaunchKernel, "cuLaunchKernel")                                       \
  X(cuMemAlloc, "cuMemAlloc_v2")                                            \
  X(cuMemFree, "cuMemFree_v2")                                              \
  X(cuMemGetInfo, "cuMemGetInfo_v2")                                        \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2")                              \
  X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2")                              \
  X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2")                              \
  X(cuMemsetD8Async, "cuMemsetD8Async")                                     \
  X(cuMemsetD32Async, "cuMemsetD32Async")                                   \
  X(cuStreamCreate, "cuStreamCreate")                                       \
  X(cuStreamDestroy, "cuStreamDestroy_v2")                                  \
  X(cuStreamGetId, "cuStreamGetId")                                         \
  X(cuStreamWaitEvent, "cuStreamWaitEvent")                                 \
  X(cuStreamSynchronize, "cuStreamSynchronize")                             \
  X(cuStreamIsCapturing, "cuStreamIsCapturing")                             \
  X(cuStreamBeginCapture, "cuStreamBeginCapture_v2")                        \
  X(cuStreamEndCapture, "cuStreamEndCapture")                               \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode") \
  X(cuGraphInstantiate, "cuGraphInstantiateWithFlags")                      \
  X(cuGraphLaunch, "cuGraphLaunch")                                         \
  X(cuGraphExecDestroy, "cuGraphExecDestroy")                               \
  X(cuGraphDestroy, "cuGraphDestroy")                                       \
  X(cuGraphRetainUserObject, "cuGraphRetainUserObject")                     \
  X(cuUserObjectCreate, "cuUserObjectCreate")                               \
  X(cuUserObjectRelease, "cuUserObjectRelease")                             \
  X(cuEventCreate, "cuEventCreate")                                         \
  X(cuEventDestroy, "cuEventDestroy_v2")                                    \
  X(cuEventRecord, "cuEventRecord")                                         \
  X(cuEventSynchronize, "cuEventSynchronize")                               \
  X(cuEventQuery, "cuEventQuery")                                           \
  X(cuEventElapsedTime, "cuEventElapsedTime")                               \
  X(cuGetErrorName, "cuGetErrorName")                                       \
  X(cuGetErrorString, "cuGetErrorString")

// The same, null where the driver is too old; who calls one looks first.
#define GQA_OPTIONAL_DRIVER_SYMBOLS(X)                \
  X(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled") \
  X(cuLaunchKernelEx, "cuLaunchKernelEx")

namespace gqa {

struct Driver {
#define GQA_MEMBER(function, exported) decltype(&::function) function = nullptr;
  GQA_DRIVER_SYMBOLS(GQA_MEMBER)
  GQA_OPTIONAL_DRIVER_SYMBOLS(GQA_MEMBER)
#undef GQA_MEMBER
  // Declared by hand: cuda.h maps the name to a newer form with other arguments.
  CUresult (*cuStreamGetCaptureInfo)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                                     std::size_t*) = nullptr;
  int version = 0;  // 1000 * major + 10 * minor of the CUDA it speaks

  // The process's driver, initialised; null with *status saying what is missing and how to get it.
  static const Driver* get(Status* status);

  // "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)" as kDeviceFailed, or kOutOfMemory; of a
  // forked child's, with what to do.
  Status error(const char* what, CUresult result) const;
};

// The newest PTX ISA (10 * major + minor) that a driver speaking this CUDA version compiles.
int newest_ptx(int cuda_version);
// The ISA a PTX text asks for by its .version line; 0 if there is none.
int ptx_version(const std::string& ptx);

}  // namespace gqa
