// cluster_support.h: kernels of a few lines that run as clusters of two CTAs under the emulator.
// Owns: the fixture, names for the instructions of clusters, a tensor of which boxes are loaded.
// Never: judges what a kernel leaves.
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/simt/emulator/kernel.h"
#include "tests/simt/emulator/tensor_map.h"

namespace gqa::simt {

// What cluster.cuh has, in these kernels' terms, and the aligned forms, which it has not.
inline constexpr const char* kClusterInstructions = R"(
namespace gqa {
struct Pair { static constexpr int kCluster = 2; };
__device__ inline u32 there(u32 address, u32 rank) { return at_rank(address, rank); }
__device__ inline void arrive_there(u32 barrier, u32 rank) {
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(rank) : "memory");
}
__device__ inline void arrive_once_at_0(u32 barrier) { barrier_arrive_once_there(at_rank(barrier, 0)); }
__device__ inline void expect_there(u32 barrier, u32 rank, u32 bytes) {
  barrier_arrive_expect_there(at_rank(barrier, rank), bytes);
}
__device__ inline void load_all(u32 to, const TensorMap& map, u32 barrier, int column, int row, int plane, u16 mask) {
  load_box_for_all(to, map, barrier, column, row, plane, 0, mask);
}
__device__ inline void cluster_arrive_aligned() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ inline void cluster_wait_aligned() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ inline void cluster_sync() { cluster_arrive_aligned(); cluster_wait_aligned(); }
}
)";

// Planes of 16 rows and 64 columns; element i is i.
struct Planes {
  static constexpr int kCount = 8, kRows = 16, kColumns = 64, kBoxRows = 8;
  static constexpr std::size_t kElements = std::size_t{kCount} * kRows * kColumns;

  Planes() : in_("in", values()) {
    const cuuint64_t sizes[] = {kColumns, kRows, kCount, 1};
    const cuuint64_t strides[] = {2 * kColumns, 2 * kColumns * kRows, 2 * kElements};
    const cuuint32_t box[] = {kColumns, kBoxRows, 1, 1}, ones[] = {1, 1, 1, 1};
    EXPECT_EQ(CUDA_SUCCESS, encode_tensor_map(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, in_.data(), sizes, strides, box,
                                              ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                              CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  }
  static std::vector<std::uint16_t> values() {
    std::vector<std::uint16_t> made(kElements);
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<std::uint16_t>(i);
    return made;
  }

  CUtensorMap map;

 private:
  Buffer in_;
};

class Clusters : public ::testing::Test {
 protected:
  static constexpr std::size_t kShared = 65536, kOut = 65536;

  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }

  // In the body: map (Planes), out (kOut bytes, u16), t, rank, shared (the address of `memory`), bars (eight barriers,
  // and bar(i), the address of one), element(slot, i) of a box at memory + slot * 1024.
  static std::unique_ptr<Kernel> kernel_of(const std::string& body, const std::string& before = "") {
    std::string why;
    auto kernel = Kernel::compile(std::string("#include \"ptx/cluster.cuh\"\n#include \"ptx/warpgroup.cuh\"\n#include "
                                              "\"ptx/wgmma.cuh\"\n#include \"attention/wgmma_flash/epilogue.cuh\"\n") +
                                      kClusterInstructions + "using namespace gqa;\n" + before + R"(
extern "C" __global__ void kernel(const __grid_constant__ TensorMap map, u16* out) {
  extern __shared__ __align__(1024) char memory[];
  Barrier* const bars = reinterpret_cast<Barrier*>(memory + 65536);
  const int t = threadIdx.x;
  const u32 shared = shared_address(memory), rank = cluster_rank<Pair>();
  const auto bar = [&](int i) { return shared + 65536 + 8 * i; };
  const auto element = [&](int slot, int i) {
    return *reinterpret_cast<u16*>(memory + slot * 1024 + i / 64 * 128 + (i % 64 / 8 ^ i / 64) * 16 + i % 8 * 2);
  };
  (void)t; (void)shared; (void)rank; (void)bars; (void)bar; (void)element;
)" + body + "\n}\n",
                                  "kernel", &why);
    EXPECT_NE(nullptr, kernel) << why;
    return kernel;
  }

  Status launch(const Kernel& kernel, const Buffer& out, const Schedule& schedule, Index3 grid = {2, 1, 1},
                unsigned threads = 128, unsigned cluster = 2) {
    void* to = out.data();
    void* arguments[] = {&planes_.map, &to};
    return kernel.launch({grid, {threads, 1, 1}, kShared + 64, arguments, cluster}, schedule);
  }

 private:
  Planes planes_;
};

}  // namespace gqa::simt
