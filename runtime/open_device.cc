// open_device.cc: which device a name means.
#include <charconv>

#include "runtime/device.h"
#include "runtime/thread_limits.h"

namespace gqa {
namespace {

// The ordinal of "cuda" or "cuda:N"; -1 if the name is neither.
int cuda_ordinal(const std::string& name) {
  if (name == "cuda") return 0;
  if (name.rfind("cuda:", 0) != 0) return -1;
  int ordinal = -1;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + 5, end, ordinal);
  return error == std::errc() && rest == end && ordinal >= 0 ? ordinal : -1;
}

}  // namespace

Status open_device(const DeviceRequest& request, std::unique_ptr<Device>* device) {
  const std::string& name = request.name;
  if (request.threads <= 0) {
    if (Status status = thread_limits_status(); !status.ok()) return status;
  }
  if (name.empty() || name == "auto") {
    const Status status = open_cuda_device(0, request.nvrtc_path, device);
    return status.code() == Code::kNoDevice ? open_host_device(request.threads, device) : status;
  }
  if (name == "host" || name == "cpu") return open_host_device(request.threads, device);
  if (const int ordinal = cuda_ordinal(name); ordinal >= 0)
    return open_cuda_device(ordinal, request.nvrtc_path, device);
  return {Code::kOption, "unknown device '" + name + "'; expected auto, cuda, cuda:N or host"};
}

}  // namespace gqa
