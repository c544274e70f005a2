// module.cc: see module.h.
#include "runtime/cuda/driver/module.h"

#include <utility>

namespace gqa {
namespace {

// Whether the error is the image's own: other code may do. Else it is the device's, the memory's or the process's.
bool refuses_image(CUresult result) {
  return result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
         result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
         result == CUDA_ERROR_INVALID_SOURCE || result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND ||
         result == CUDA_ERROR_JIT_COMPILATION_DISABLED;
}

std::string isa_text(int version) { return std::to_string(version / 10) + "." + std::to_string(version % 10); }

}  // namespace

Status Module::load(const Driver& driver, const std::string& cubin, const std::string& ptx, Module* module) {
  Module fresh;
  fresh.driver_ = &driver;
  CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (!cubin.empty()) result = driver.cuModuleLoadData(&fresh.module_, cubin.data());
  const int asked = ptx_version(ptx), newest = newest_ptx(driver.version);
  if (refuses_image(result) && asked > 0 && asked <= newest)
    result = driver.cuModuleLoadData(&fresh.module_, ptx.c_str());
  if (result != CUDA_SUCCESS) {
    fresh.module_ = nullptr;
    const Status status = driver.error("cuModuleLoadData", result);
    if (!refuses_image(result)) return status;
    const std::string note = asked <= newest
                                 ? ""
                                 : "; its PTX (ISA " + isa_text(asked) + ") is newer than the driver's " +
                                       isa_text(newest) + ": update the driver, or install an NVRTC of CUDA " +
                                       std::to_string(driver.version / 1000) + " and point GQA_NVRTC at it";
    return {status.code(), "the driver refused the kernel's CUBIN: " + status.message() + note};
  }
  *module = std::move(fresh);
  return {};
}

Module::Module(Module&& other) noexcept { *this = std::move(other); }

Module& Module::operator=(Module&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(module_, other.module_);
  return *this;
}

Module::~Module() {
  if (module_ != nullptr) driver_->cuModuleUnload(module_);
}

Status Module::function(const char* name, std::int64_t dynamic_smem, CUfunction* function) const {
  if (const CUresult result = driver_->cuModuleGetFunction(function, module_, name); result != CUDA_SUCCESS)
    return driver_->error(("cuModuleGetFunction: " + std::string(name)).c_str(), result);
  if (dynamic_smem == 0) return {};
  const CUresult result = driver_->cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                      static_cast<int>(dynamic_smem));
  return driver_->error("cuFuncSetAttribute", result);
}

}  // namespace gqa
