// cuda_module_test.cc: what of a kernel is handed to the driver, seen by a driver that knows some of it only.
// Needs no GPU and no CUDA driver.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/cuda/driver/module.h"
#include "tests/runtime/cuda/driver/quiet_driver.h"

namespace gqa {
namespace {

const std::string kCubin = "CUBIN", kOldPtx = ".version 8.4\n.target sm_80\n",
                  kNewPtx = ".version 9.2\n.target sm_80\n";

std::vector<std::string> handed_in;
bool takes_cubins = true;

Driver choosy_driver(int version) {
  handed_in.clear();
  Driver driver = test::quiet_driver();
  driver.version = version;
  driver.cuModuleLoadData = [](CUmodule* module, const void* image) {
    handed_in.push_back(static_cast<const char*>(image));
    *module = reinterpret_cast<CUmodule>(1);
    return handed_in.back() != kCubin || takes_cubins ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
  };
  driver.cuGetErrorName = [](CUresult, const char** text) { return *text = "CUDA_ERROR_INVALID_IMAGE", CUDA_SUCCESS; };
  driver.cuGetErrorString = [](CUresult, const char** text) { return *text = "image is invalid", CUDA_SUCCESS; };
  return driver;
}

TEST(CudaModule, TheCubinOfANewerNvrtcLoadsAndItsPtxIsNotTried) {
  takes_cubins = true;
  const Driver driver = choosy_driver(12040);
  Module module;
  ASSERT_TRUE(Module::load(driver, kCubin, kNewPtx, &module).ok());
  EXPECT_EQ(handed_in, std::vector<std::string>{kCubin});
}

TEST(CudaModule, PtxThatTheDriverKnowsStandsInForACubinThatItDoesNot) {
  takes_cubins = false;
  const Driver driver = choosy_driver(12040);
  Module module;
  ASSERT_TRUE(Module::load(driver, kCubin, kOldPtx, &module).ok());
  EXPECT_EQ(handed_in, (std::vector<std::string>{kCubin, kOldPtx}));
}

TEST(CudaModule, PtxNewerThanTheDriverIsNeverHandedInAndTheRefusalSaysWhatToDo) {
  takes_cubins = false;
  const Driver driver = choosy_driver(12040);
  Module module;
  const Status status = Module::load(driver, kCubin, kNewPtx, &module);
  EXPECT_EQ(handed_in, std::vector<std::string>{kCubin});
  for (const char* part : {"refused the kernel's CUBIN", "image is invalid", "PTX (ISA 9.2)", "driver's 8.4",
                           "update the driver", "NVRTC of CUDA 12"})
    EXPECT_NE(status.message().find(part), std::string::npos) << part << ": " << status.message();
}

// Lack of memory and a context that somebody broke are not the image's.
TEST(CudaModule, AFailureThatIsNotTheImagesIsNotBlamedOnIt) {
  Driver driver = choosy_driver(12040);
  driver.cuModuleLoadData = [](CUmodule*, const void* image) {
    handed_in.push_back(static_cast<const char*>(image));
    return CUDA_ERROR_OUT_OF_MEMORY;
  };
  Module module;
  const Status status = Module::load(driver, kCubin, kOldPtx, &module);
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_EQ(status.message().find("CUBIN"), std::string::npos) << status.message();
  EXPECT_EQ(handed_in.size(), 1U);
}

TEST(CudaDriver, AForkedChildIsToldWhatItIs) {
  const Driver driver = choosy_driver(12040);
  EXPECT_NE(driver.error("cuInit", CUDA_ERROR_NOT_INITIALIZED).message().find("forked"), std::string::npos);
  EXPECT_EQ(driver.error("cuInit", CUDA_ERROR_ILLEGAL_ADDRESS).message().find("forked"), std::string::npos);
}

// What NVRTC 12.0, 12.4, 12.8, 12.9, 13.0, 13.2 and 13.5 write at the head of their PTX.
TEST(CudaModule, EachCudaVersionsPtx) {
  const std::pair<int, int> known[] = {{12000, 80}, {12040, 84}, {12050, 85}, {12060, 85}, {12080, 87},
                                       {12090, 88}, {13000, 90}, {13020, 92}, {13050, 95}};
  for (const auto& [cuda, ptx] : known) EXPECT_EQ(newest_ptx(cuda), ptx) << cuda;
  EXPECT_EQ(ptx_version(kNewPtx), 92);
  EXPECT_EQ(ptx_version("no header"), 0);
}

}  // namespace
}  // namespace gqa
