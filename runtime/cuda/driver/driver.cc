// driver.cc: see driver.h.
#include "runtime/cuda/driver/driver.h"

#include <cstdio>
#include <memory>

#include "jit/dynamic_library.h"

namespace gqa {
namespace {

struct Loaded {
  Driver driver;
  Status status;
};

// What the driver answers with in the child of a process that had used CUDA.
constexpr const char* kForked =
    "; this process was forked after CUDA was initialised, and CUDA does not work in it: fork before CUDA is first "
    "used, or start processes by spawn";

// cuda.h maps some names to versioned ones by macros, so the member's name is the macro's expansion; the exported name
// is spelled out in the table and both are checked to agree by the calls' types.
Status resolve(Driver* driver) {
  std::string why;
  static std::unique_ptr<DynamicLibrary> library = DynamicLibrary::open("libcuda.so.1", &why);
  if (library == nullptr)
    return {Code::kNoDevice,
            "no CUDA driver was found: " + why + "; install NVIDIA's driver, or use the device 'host'"};
#define GQA_RESOLVE(function, exported)                                                       \
  driver->function = reinterpret_cast<decltype(driver->function)>(library->symbol(exported)); \
  if (driver->function == nullptr)                                                            \
    return {Code::kNoDevice,                                                                  \
            "the CUDA driver is too old: libcuda.so.1 has no " exported "; CUDA 12.0 or newer is needed"};
  GQA_DRIVER_SYMBOLS(GQA_RESOLVE)
#undef GQA_RESOLVE
#define GQA_RESOLVE(function, exported) \
  driver->function = reinterpret_cast<decltype(driver->function)>(library->symbol(exported));
  GQA_OPTIONAL_DRIVER_SYMBOLS(GQA_RESOLVE)
#undef GQA_RESOLVE
  driver->cuStreamGetCaptureInfo =
      reinterpret_cast<decltype(driver->cuStreamGetCaptureInfo)>(library->symbol("cuStreamGetCaptureInfo_v2"));
  if (driver->cuStreamGetCaptureInfo == nullptr)
    return {Code::kNoDevice, "the CUDA driver is too old: libcuda.so.1 has no cuStreamGetCaptureInfo_v2"};
  if (const CUresult result = driver->cuInit(0); result == CUDA_ERROR_NOT_INITIALIZED) {
    return driver->error("cuInit", result);
  } else if (result != CUDA_SUCCESS) {
    return {Code::kNoDevice, driver->error("cuInit", result).message()};
  }
  driver->cuDriverGetVersion(&driver->version);
  return {};
}

}  // namespace

const Driver* Driver::get(Status* status) {
  static const std::unique_ptr<const Loaded> loaded = [] {
    auto fresh = std::make_unique<Loaded>();
    fresh->status = resolve(&fresh->driver);
    return fresh;
  }();
  *status = loaded->status;
  return loaded->status.ok() ? &loaded->driver : nullptr;
}

Status Driver::error(const char* what, CUresult result) const {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  const std::string message = std::string(what) + ": " + (text != nullptr ? text : "unknown error") + " (" +
                              (name != nullptr ? name : "?") + ")" +
                              (result == CUDA_ERROR_NOT_INITIALIZED ? kForked : "");
  return {result == CUDA_ERROR_OUT_OF_MEMORY ? Code::kOutOfMemory : Code::kDeviceFailed, message};
}

int newest_ptx(int cuda_version) {
  const int major = cuda_version / 1000, minor = cuda_version % 1000 / 10;
  // PTX ISA, release history: 8.0 came with CUDA 12.0 and one minor went with each until 12.5 (8.5), 12.6 kept 8.5, and
  // from 12.7 on it lags by one; 9.0 came with 13.0.
  if (major == 12) return 80 + (minor <= 5 ? minor : minor - 1);
  return 10 * (major - 4) + minor;
}

int ptx_version(const std::string& ptx) {
  const size_t at = ptx.find(".version");
  int major = 0, minor = 0;
  if (at == std::string::npos || std::sscanf(ptx.c_str() + at, ".version %d.%d", &major, &minor) != 2) return 0;
  return 10 * major + minor;
}

}  // namespace gqa
