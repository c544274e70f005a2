// cuda_kernel_test.cc: what a launch hands to the driver, seen by a driver that only writes it down.
// Owns: the recording driver; grid, arguments and workspace of each family; what is refused at load.
// Needs no GPU and no CUDA driver.
#include "runtime/cuda/launch/cuda_kernel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "jit/device/attention/wgmma_flash/tensor_maps.h"
#include "search/families/resources.h"
#include "tests/runtime/cuda/driver/quiet_driver.h"

namespace gqa {
namespace {

struct Launched {
  unsigned grid = 0, threads = 0, shared_memory = 0;
  bool early = false;  // it may begin under the end of the grid before
  AttentionParams params{};
  TensorMaps maps{};
};

Launched launched;
bool with_maps = false;  // whether the kernel has a second argument
int encodings = 0;

CUresult record_launch(CUfunction, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz,
                       unsigned shared_memory, CUstream, void** arguments, void**) {
  EXPECT_EQ(y * z * ty * tz, 1U);
  launched.grid = x;
  launched.threads = tx;
  launched.shared_memory = shared_memory;
  std::memcpy(&launched.params, arguments[0], sizeof launched.params);
  if (with_maps) std::memcpy(static_cast<void*>(&launched.maps), arguments[1], sizeof launched.maps);
  return CUDA_SUCCESS;
}

CUresult record_extended_launch(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra) {
  const CUresult result =
      record_launch(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                    config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, arguments, extra);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    launched.early |= config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                      config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
  }
  return result;
}

// A map is the address of its tensor and the rows of its box.
CUresult record_map(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* data, const cuuint64_t*,
                    const cuuint64_t*, const cuuint32_t* boxes, const cuuint32_t*, CUtensorMapInterleave,
                    CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(map) % 64, 0U);  // the driver asks for that
  const unsigned long long words[16] = {reinterpret_cast<std::uintptr_t>(data), boxes[rank == 5 ? 2 : 1]};
  std::memcpy(static_cast<void*>(map), words, sizeof words);
  ++encodings;
  return CUDA_SUCCESS;
}

Driver recording_driver() {
  Driver d = test::quiet_driver();
  d.cuLaunchKernel = record_launch;
  d.cuTensorMapEncodeTiled = record_map;
  return d;
}

class CudaKernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    launched = {};
    encodings = 0;
    ASSERT_TRUE(Context::retain(driver_, 0, &shared_->context).ok());
    shared_->workspaces = std::make_unique<WorkspacePool>(driver_);
    shared_->sms = 132;
  }

  Status load(const char* problem, const char* candidate) {
    EXPECT_TRUE(parse(problem, &call_.problem).ok());
    EXPECT_TRUE(parse(candidate, &candidate_).ok());
    with_maps = plan(call_.problem, candidate_).brings(LaunchArgument::kMaps);
    Binary binary;
    binary.cubin = "not looked at";
    return CudaKernel::load(shared_, call_.problem, candidate_, binary, &kernel_);
  }

  // A call on tensors at made-up addresses.
  void launch(const char* problem, const char* candidate) {
    ASSERT_TRUE(load(problem, candidate).ok());
    call_.place(Role::kQ, reinterpret_cast<void*>(0x1000));
    call_.place(Role::kK, reinterpret_cast<void*>(0x2000));
    call_.place(Role::kV, reinterpret_cast<void*>(0x3000));
    call_.place(Role::kOut, reinterpret_cast<void*>(0x4000));
    const Status status = kernel_->launch(call_);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  Driver driver_ = recording_driver();
  std::shared_ptr<CudaShared> shared_ = std::make_shared<CudaShared>();
  Call call_;
  Candidate candidate_;
  std::unique_ptr<CudaKernel> kernel_;
};

#define GQA_TILE "warpgroup m=128 n=80 warps=8 stages=2 out=1 "
#define GQA_SMALL_TILE "warpgroup m=64 n=64 warps=4 stages=2 out=0 "

TEST_F(CudaKernelTest, AWarpgroupGridFillsTheDeviceOnce) {
  for (const char* scheduler : {"dynamic=0", "dynamic=1"}) {
    launch("b=2,hq=32,hk=8,sq=4096,d=128", (std::string(GQA_TILE "pack=1 ") + scheduler).c_str());
    EXPECT_EQ(launched.grid, 132U) << scheduler;
    EXPECT_EQ(launched.threads, 384U);
    EXPECT_EQ(launched.shared_memory, plan(call_.problem, candidate_).shared_memory);
    EXPECT_EQ(launched.params.tiles, 2 * 32 * 32);
    launch("b=1,hq=4,hk=4,sq=1000,d=128", (std::string(GQA_TILE "pack=1 ") + scheduler).c_str());
    EXPECT_EQ(launched.grid, 4U * 8) << scheduler;  // fewer tiles than SMs: none is left without one
  }
}

// SMs are filled in pairs of CTAs, and an odd tile takes a pair as well.
TEST_F(CudaKernelTest, SmallTilesShareAProcessorByTwo) {
  launch("b=2,hq=32,hk=8,sq=4096,d=64", GQA_SMALL_TILE "pack=1 dynamic=0");
  EXPECT_EQ(launched.grid, 2U * 132);
  EXPECT_EQ(launched.threads, 256U);
  const std::pair<const char*, unsigned> few[] = {{"hq=1,sq=20,d=64", 2},     {"hq=3,sq=128,d=64", 6},
                                                  {"hq=3,sq=700,d=64", 34},   {"hq=263,sq=64,d=64", 264},
                                                  {"hq=264,sq=64,d=64", 264}, {"hq=265,sq=64,d=64", 264}};
  for (const auto& [problem, grid] : few) {
    launch(problem, GQA_SMALL_TILE "pack=1 dynamic=1");
    EXPECT_EQ(launched.grid, grid) << problem;
  }
}

TEST_F(CudaKernelTest, OnlyTheDynamicSchedulerGetsACounterAndItIsZero) {
  launch("hq=4,sq=1000,d=128", GQA_TILE "pack=1 dynamic=0");
  EXPECT_EQ(launched.params.counters, nullptr);
  launch("hq=4,sq=1000,d=128", GQA_TILE "pack=1 dynamic=1");
  ASSERT_NE(launched.params.counters, nullptr);
  EXPECT_EQ(*launched.params.counters, 0U);
}

// Swizzled groups of heads are equal: the largest divisor of their number that head_swizzle does not exceed.
TEST_F(CudaKernelTest, TheSwizzleDividesTheHeadGroups) {
  const std::pair<int, int> swizzles[] = {{0, 12}, {1, 1}, {2, 2},  {3, 3},   {4, 4},   {5, 4},
                                          {6, 6},  {7, 6}, {11, 6}, {12, 12}, {13, 12}, {1 << 20, 12}};
  for (const auto& [wanted, swizzle] : swizzles) {
    launch("b=2,hq=12,hk=3,sq=1000,d=128",
           (GQA_TILE "pack=2 dynamic=1 head_swizzle=" + std::to_string(wanted)).c_str());
    EXPECT_EQ(launched.params.head_groups, 6);
    EXPECT_EQ(launched.params.head_swizzle, swizzle) << wanted;
  }
  launch("b=7,hq=1,sq=1000,d=128", "flash m=128 n=64 warps=4 stages=2 pack=1 head_swizzle=6");
  EXPECT_EQ(launched.params.head_swizzle, 1);  // a prime number of them
}

TEST_F(CudaKernelTest, DivisorsAreOfTheNumbersBesideThem) {
  const std::pair<const char*, const char*> launches[] = {
      {"b=2,hq=12,hk=3,sq=1000,d=128", GQA_TILE "pack=2 dynamic=1 head_swizzle=4"},
      {"b=3,hq=10,hk=2,sq=999,d=128,causal", "flash m=128 n=64 warps=4 stages=2 pack=1"},
      {"b=5,hq=28,hk=4,sq=3,sk=4096,d=128", "split m=16 n=32 warps=4 stages=3 pack=7 splits=6"}};
  for (const auto& [problem, candidate] : launches) {
    launch(problem, candidate);
    const AttentionParams& p = launched.params;
    const std::pair<Divisor, int> divisors[] = {{p.by_splits, p.splits},
                                                {p.by_row_tiles, p.row_tiles},
                                                {p.by_swizzle_tiles, p.head_swizzle * p.row_tiles},
                                                {p.by_swizzle, p.head_swizzle},
                                                {p.by_head_groups, p.head_groups},
                                                {p.by_group, call_.problem.group()}};
    EXPECT_EQ(p.row_tiles, row_tiles(call_.problem, shape_of(candidate_)));
    EXPECT_EQ(p.rows_before, plan(call_.problem, candidate_).rows_before);
    EXPECT_EQ(p.tiles, p.row_tiles * p.head_groups * p.batch);
    for (const auto& [divisor, value] : divisors)
      for (int number = 0; number < 10000; ++number) ASSERT_EQ(quotient(number, divisor), number / value) << candidate;
  }
}

TEST_F(CudaKernelTest, MoreBlocksThanAGridHoldsAreRefused) {
  ASSERT_TRUE(load("b=65536,hq=256,sq=16384,d=32", "flash m=16 n=32 warps=1 stages=2 pack=1").ok());
  const Status status = kernel_->launch(call_);
  EXPECT_EQ(status.code(), Code::kSize);
  EXPECT_NE(status.message().find("17179869184 thread blocks"), std::string::npos) << status.message();
  EXPECT_EQ(launched.threads, 0U);
}

TEST_F(CudaKernelTest, GridsBeginEarlyWhereDeviceAndDriverCan) {
  launch("hq=4,sq=1000,d=128", GQA_TILE "pack=1 dynamic=0");
  EXPECT_FALSE(launched.early);
  shared_->early_start = true;  // a driver without the call launches as before
  launch("hq=4,sq=1000,d=128", GQA_TILE "pack=1 dynamic=0");
  EXPECT_FALSE(launched.early);
  driver_.cuLaunchKernelEx = record_extended_launch;
  launch("hq=4,sq=1000,d=128", GQA_TILE "pack=1 dynamic=0");
  EXPECT_TRUE(launched.early);
  EXPECT_EQ(launched.grid, 4U * 8);
  EXPECT_EQ(launched.threads, 384U);
  EXPECT_EQ(launched.params.q, call_.at(Role::kQ));
}

TEST_F(CudaKernelTest, MapsAreTheSecondArgument) {
  launch("b=3,hq=8,hk=2,sq=300,d=64", GQA_TILE "pack=4 dynamic=1");
  EXPECT_EQ(launched.params.q, call_.at(Role::kQ));
  const TensorMap* maps[] = {&launched.maps.q, &launched.maps.k, &launched.maps.v, &launched.maps.out};
  const unsigned long long expected[][2] = {{0x1000, 128 / 4}, {0x2000, 80}, {0x3000, 80}, {0x4000, 64 / 4}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(maps[i]->opaque[0], expected[i][0]) << i;
    EXPECT_EQ(maps[i]->opaque[1], expected[i][1]) << i;
  }
  const int before = encodings;
  ASSERT_TRUE(kernel_->launch(call_).ok());
  EXPECT_EQ(encodings, before);  // kept
}

TEST_F(CudaKernelTest, OtherFamiliesNeedNoMaps) {
  driver_.cuTensorMapEncodeTiled = nullptr;
  launch("b=2,hq=32,hk=8,sq=4096,d=128", "flash m=128 n=64 warps=4 stages=2 pack=1");
  EXPECT_EQ(launched.grid, 2U * 32 * 32);
  EXPECT_EQ(launched.threads, 128U);
  launch("b=2,hq=32,hk=8,sq=1,sk=4096,d=128", "split m=16 n=32 warps=4 stages=3 pack=4 splits=8");
  EXPECT_EQ(launched.grid, 2U * 8 * 8);
  EXPECT_NE(launched.params.partials, nullptr);
  EXPECT_NE(launched.params.counters, nullptr);
  EXPECT_EQ(encodings, 0);
}

TEST_F(CudaKernelTest, ADriverTooOldForTensorMapsIsRefusedAtLoad) {
  driver_.cuTensorMapEncodeTiled = nullptr;
  const Status status = load("hq=4,sq=1000,d=128", GQA_TILE "pack=1 dynamic=1");
  EXPECT_EQ(status.code(), Code::kNoDevice);
  EXPECT_NE(status.message().find("cuTensorMapEncodeTiled"), std::string::npos) << status.message();
  EXPECT_EQ(kernel_, nullptr);
}

}  // namespace
}  // namespace gqa
