// probe.cc: see probe.h.
#include "runtime/cuda/driver/probe.h"

#include <memory>

#include "jit/nvrtc.h"
#include "runtime/cuda/driver/driver.h"

namespace gqa {

namespace {

std::string words(const Nvrtc& nvrtc) { return "NVRTC " + nvrtc.version_text() + " at " + nvrtc.path(); }

}  // namespace

std::string describe_nvrtc(const std::string& explicit_path) {
  std::shared_ptr<const Nvrtc> nvrtc;
  const Status status = Nvrtc::load(explicit_path, {}, &nvrtc);
  return status.ok() ? words(*nvrtc) : status.message();
}

Status find_nvrtc_for(const std::string& arch, std::string* found) {
  Status status;
  const Driver* driver = Driver::get(&status);
  std::shared_ptr<const Nvrtc> nvrtc;
  status = Nvrtc::load("", {arch, driver == nullptr ? 0 : driver->version}, &nvrtc);
  if (status.ok()) *found = words(*nvrtc);
  return status;
}

std::string describe_driver() {
  Status status;
  const Driver* driver = Driver::get(&status);
  if (driver == nullptr) return status.message();
  int count = 0;
  driver->cuDeviceGetCount(&count);
  std::string text = "driver for CUDA " + std::to_string(driver->version / 1000) + "." +
                     std::to_string(driver->version % 1000 / 10) + ", " + std::to_string(count) + " device(s)";
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    char name[256] = "";
    int major = 0, minor = 0;
    if (driver->cuDeviceGet(&device, i) != CUDA_SUCCESS) continue;
    driver->cuDeviceGetName(name, sizeof name, device);
    driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    text += (i == 0 ? ": cuda:" : ", cuda:") + std::to_string(i) + " " + name + " (sm_" +
            std::to_string(10 * major + minor) + ")";
  }
  return text;
}

}  // namespace gqa
