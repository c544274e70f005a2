// Devices by name: what a name opens, and what an unknown or absent one says.

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include "runtime/device.h"

namespace gqa {
namespace {

Status open(const std::string& name, std::unique_ptr<Device>* device) {
  DeviceRequest request;
  request.name = name;
  request.threads = 3;
  return open_device(request, device);
}

TEST(OpenDevice, HostWithTheThreadsAskedFor) {
  for (const char* name : {"host", "cpu"}) {
    std::unique_ptr<Device> device;
    ASSERT_TRUE(open(name, &device).ok());
    EXPECT_EQ(DeviceKind::kHost, device->spec().kind);
    EXPECT_EQ(3, device->spec().sms);
    EXPECT_FALSE(device->spec().arch.empty());
    EXPECT_TRUE(device->owns(kDLCPU, 0));
    EXPECT_FALSE(device->owns(kDLCUDA, 0));
  }
}

TEST(OpenDevice, AutoIsTheGpuIfThereIsOne) {
  std::unique_ptr<Device> gpu, chosen;
  const bool has_gpu = open_cuda_device(0, "", &gpu).ok();
  ASSERT_TRUE(open("auto", &chosen).ok());
  EXPECT_EQ(has_gpu ? DeviceKind::kCuda : DeviceKind::kHost, chosen->spec().kind);
}

TEST(OpenDevice, AnUnknownNameIsQuotedWithWhatIsAccepted) {
  for (const char* name : {"gpu", "CUDA", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "host:0", " host"}) {
    std::unique_ptr<Device> device;
    const Status status = open(name, &device);
    EXPECT_EQ(Code::kOption, status.code()) << name;
    EXPECT_NE(std::string::npos, status.message().find("'" + std::string(name) + "'")) << status.message();
    EXPECT_NE(std::string::npos, status.message().find("auto, cuda, cuda:N or host")) << status.message();
    EXPECT_EQ(nullptr, device);
  }
}

TEST(OpenDevice, AnAbsentGpuIsNoDevice) {
  std::unique_ptr<Device> device;
  const Status status = open("cuda:77", &device);
  EXPECT_EQ(Code::kNoDevice, status.code()) << status.message();
  EXPECT_NE("", status.message());
  EXPECT_EQ(nullptr, device);
}

}  // namespace
}  // namespace gqa
