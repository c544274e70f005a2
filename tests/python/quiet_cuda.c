/* quiet_cuda.c: a libcuda.so.1 that says yes, for tests of what the package does around a GPU where there is none.
 * Owns: the functions that the library looks up (runtime/cuda/driver/driver.h); one device with an H100's sizes, memory
 * of the host's, a synchronisation that takes a second.
 * Never: runs a kernel: no candidate verifies.
 * Threads: any. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef unsigned long long address;

#define YES(name) \
  int name(void) { return 0; }
#define OBJECT(name) \
  int name(void** made) { return (*made = malloc(8)) == NULL; }

YES(cuInit);
YES(cuDevicePrimaryCtxRelease_v2);
YES(cuCtxPushCurrent_v2);
YES(cuFuncSetAttribute);
YES(cuLaunchKernel);
YES(cuMemFree_v2);
YES(cuMemsetD8Async);
YES(cuMemsetD32Async);
YES(cuMemcpyDtoDAsync_v2);
YES(cuModuleUnload);
YES(cuStreamDestroy_v2);
YES(cuStreamWaitEvent);
YES(cuStreamBeginCapture_v2);
YES(cuStreamEndCapture);
YES(cuThreadExchangeStreamCaptureMode);
YES(cuGraphLaunch);
YES(cuGraphExecDestroy);
YES(cuGraphDestroy);
YES(cuGraphRetainUserObject);
YES(cuUserObjectRelease);
YES(cuEventDestroy_v2);
YES(cuEventRecord);
YES(cuEventSynchronize);
YES(cuEventQuery);
YES(cuTensorMapEncodeTiled);
YES(cuLaunchKernelEx);
OBJECT(cuModuleLoadData);
OBJECT(cuStreamCreate);
OBJECT(cuEventCreate);
OBJECT(cuGraphInstantiateWithFlags);
OBJECT(cuUserObjectCreate);
OBJECT(cuModuleGetFunction);
OBJECT(cuDevicePrimaryCtxRetain);
OBJECT(cuCtxGetCurrent);
OBJECT(cuCtxPopCurrent_v2);

int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char* name, int size, int device) {
  (void)device;
  return strncpy(name, "quiet", (size_t)size), 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  static const int kOf[][2] = {{16, 132},    {75, 9},       {76, 0},    {38, 50 << 20}, {81, 233472},
                               {97, 232448}, {36, 2619000}, {37, 5120}, {13, 1980000},  {39, 2048},
                               {8, 49152},   {12, 65536},   {82, 65536}};
  (void)device;
  *value = 1;
  for (size_t i = 0; i < sizeof kOf / sizeof kOf[0]; ++i)
    if (kOf[i][0] == attribute) *value = kOf[i][1];
  return 0;
}
int cuMemAlloc_v2(address* memory, size_t bytes) {
  *memory = (address)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return 0;
}
int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) { return *free_bytes = *total = (size_t)64 << 30, 0; }
int cuMemcpyDtoHAsync_v2(void* to, address from, size_t bytes) { return memcpy(to, (void*)from, bytes), 0; }
int cuMemcpyHtoDAsync_v2(address to, const void* from, size_t bytes) { return memcpy((void*)to, from, bytes), 0; }
int cuStreamGetId(void* stream, address* id) { return *id = (address)stream, 0; }
int cuStreamIsCapturing(void* stream, int* status) { return (void)stream, *status = 0, 0; }
int cuStreamGetCaptureInfo_v2(void* stream, int* status) { return (void)stream, *status = 0, 0; }
int cuStreamSynchronize(void* stream) { return (void)stream, sleep(1), 0; }
int cuEventElapsedTime(float* milliseconds) { return *milliseconds = 1, 0; }
int cuGetErrorName(int result, const char** name) { return (void)result, *name = "QUIET", 0; }
int cuGetErrorString(int result, const char** text) { return (void)result, *text = "quiet", 0; }
