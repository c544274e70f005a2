// Hopper's instructions under the emulator against plain definitions, a kernel of a few lines each on the wrappers of
// jit/device/: boxes of tensors, products of warpgroups, barriers; and what the emulator must refuse.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "jit/wgmma_text.h"
#include "runtime/element.h"
#include "tests/simt/emulator/kernel.h"
#include "tests/simt/emulator/tensor_map.h"

namespace gqa::simt {
namespace {

constexpr std::size_t kShared = 65536;

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

class HopperInstructions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }

  // `before`: text at file scope. In the body: t, the thread; shared, the address of `memory`; bars, eight barriers.
  static std::unique_ptr<Kernel> kernel_of(const std::string& types, const std::string& body,
                                           const std::string& before = "") {
    std::string why;
    auto kernel = Kernel::compile(
        "#include \"ptx/tma.cuh\"\n#include \"ptx/warpgroup.cuh\"\n#include \"ptx/wgmma.cuh\"\n"
        "#include \"attention/wgmma_flash/epilogue.cuh\"\nusing namespace gqa;\n" +
            before + "\nextern \"C\" __global__ void kernel(" + types +
            ") {\nextern __shared__ __align__(1024) char memory[];\n"
            "Barrier* const bars = reinterpret_cast<Barrier*>(memory + 65536);\n"
            "const int t = threadIdx.x; const u32 shared = shared_address(memory);\n"
            "(void)t; (void)shared; (void)bars;\n" +
            body + "\n}\n",
        "kernel", &why);
    EXPECT_NE(nullptr, kernel) << why;
    return kernel;
  }
  static Status launch(const Kernel& kernel, void** arguments, unsigned threads, const Schedule& schedule) {
    return kernel.launch({{1, 1, 1}, {threads, 1, 1}, kShared + 64, arguments}, schedule);
  }
  // Runs a kernel that takes a buffer of 4096 bytes.
  static Status run(const std::string& body, const Buffer& out, unsigned threads, const Schedule& schedule = {}) {
    const auto kernel = kernel_of("int* out", body);
    if (kernel == nullptr) return {Code::kInternal, "no kernel"};
    void* to = out.data();
    void* arguments[] = {&to};
    return launch(*kernel, arguments, threads, schedule);
  }
  static std::string failure(const std::string& body, unsigned threads, const Schedule& schedule = {}) {
    const Buffer out("out", 4096);
    return run(body, out, threads, schedule).message();
  }
};

// ---- barriers

TEST_F(HopperInstructions, MbarriersCountArrivalsThroughTheirPhases) {
  const auto kernel = kernel_of("int* out", R"(
    if (t == 0) { barrier_init(bars[0], 3); *out = 0; fence_barrier_init(); }
    __syncthreads();
    for (int round = 0; round < 3; ++round) {
      if (t < 96) { if (t % 32 == 0) *out += 1; barrier_arrive_once(shared_address(bars)); }
      barrier_wait(shared_address(bars), round & 1);
      if (*out < 3 * (round + 1)) __trap();
      __syncthreads();
    })");
  for (const Schedule& schedule : schedules()) {
    const Buffer out("out", 64);
    void* to = out.data();
    void* arguments[] = {&to};
    const Status status = launch(*kernel, arguments, 128, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(9, *out.as<int>());
  }
}

// What a test finds out orders as a wait does; one that finds nothing out does not.
TEST_F(HopperInstructions, MbarriersAreTestedWithoutWaiting) {
  const std::string begin =
      "const u32 bar = shared_address(bars);\nif (t == 0) barrier_init(bars[0], 1);\n__syncthreads();\n"
      "int* words = reinterpret_cast<int*>(memory);\nif (barrier_passed(bar, 0)) __trap();\n"
      "__syncthreads();\nif (t == 0) { words[0] = 7; barrier_arrive(bar); }\n";
  for (const Schedule& schedule : schedules()) {
    EXPECT_EQ("", failure(begin + "if (t == 32) { while (!barrier_passed(bar, 0)) barrier_wait(bar, 0);\n"
                                  "out[0] = words[0]; if (barrier_passed(bar, 1)) __trap(); }",
                          64, schedule));
    EXPECT_TRUE(
        has(failure(begin + "if (t == 32) { barrier_passed(bar, 1); out[0] = words[0]; }", 64, schedule), "race"));
  }
}

TEST_F(HopperInstructions, NamedBarriersMeetVoteAndLetOthersPass) {
  const auto kernel = kernel_of("int* out", R"(
    named_sync(3, 128);
    const bool all = named_all(1 + t / 64, 64, t != 70);
    out[t] = all;
    asm volatile("barrier.arrive %0, %1;" ::"r"(5), "r"(160) : "memory");
    if (t < 32) asm volatile("barrier.sync %0, %1;" ::"r"(5), "r"(160) : "memory");)");
  for (const Schedule& schedule : schedules()) {
    const Buffer out("out", 128 * sizeof(int));
    void* to = out.data();
    void* arguments[] = {&to};
    const Status status = launch(*kernel, arguments, 128, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int i = 0; i < 128; ++i) EXPECT_EQ(i < 64 ? 1 : 0, out.as<int>()[i]) << i;
  }
}

TEST_F(HopperInstructions, MisusedBarriersAreSeen) {
  const std::string begin = "if (t == 0) { barrier_init(bars[0], 2); fence_barrier_init(); }\n__syncthreads();\n";
  EXPECT_TRUE(has(failure(begin + "barrier_wait(shared_address(bars), 0);", 32), "deadlock"));
  EXPECT_TRUE(has(failure(begin + "barrier_wait(shared_address(bars + 1), 0);", 32), "no mbarrier"));
  EXPECT_TRUE(has(failure(begin + "if (t == 0) barrier_arrive_expect(shared_address(bars), 16);\nif (t == 1) { "
                                  "barrier_arrive(shared_address(bars)); barrier_arrive(shared_address(bars)); }",
                          32),
                  "once more than"));
  EXPECT_TRUE(has(failure("named_sync(2, t < 32 ? 64 : 96);", 64), "while others wait"));
  EXPECT_TRUE(has(failure("if (t < 32) named_sync(2, 64);", 64), "deadlock"));
  EXPECT_TRUE(has(failure("asm volatile(\"barrier.arrive %0, %1;\" ::\"r\"(2), \"r\"(64));", 32), "the block ended"));
}

// Also where the numbers come out right.
TEST_F(HopperInstructions, BarriersOrderWhatTheirThreadsStored) {
  const std::string begin =
      "const u32 bar = shared_address(bars);\nif (t == 0) { barrier_init(bars[0], 32); barrier_init(bars[1], 1); }\n"
      "__syncthreads();\nint* words = reinterpret_cast<int*>(memory);\nif (t < 32) words[t] = t;\n";
  const std::string read = "\nif (t >= 32) out[t] = words[63 - t];";
  const std::string arrive = R"(asm volatile("barrier.arrive %0, %1;" ::"r"(5), "r"(64) : "memory");)";
  const std::vector<std::string> orders = {
      "if (t < 32) barrier_arrive(bar); else barrier_wait(bar, 0);",
      "if (t < 32) { __syncwarp(); barrier_arrive_once(bar + 8); } else barrier_wait(bar + 8, 0);",
      "if (t < 32) " + arrive + " else named_sync(5, 64);", "named_all(5, 64, true);"};
  const std::vector<std::string> do_not = {
      "", "if (t < 32) barrier_arrive_once(bar + 8); else barrier_wait(bar + 8, 0);",
      "if (t < 32) named_sync(5, 64); else " + arrive, "named_sync(5 + t / 32, 32);",
      "if (t < 32) { barrier_arrive(bar); words[t] = t; } else barrier_wait(bar, 0);"};
  for (const std::string& order : orders)
    for (const Schedule& schedule : schedules()) EXPECT_EQ("", failure(begin + order + read, 64, schedule)) << order;
  for (const std::string& none : do_not)
    for (const Schedule& schedule : schedules())
      EXPECT_TRUE(has(failure(begin + none + read, 64, schedule), "race: ")) << none;
}

// ---- boxes of tensors

// A tensor (batch 2, heads 3, rows 10, columns 80) and another like it, boxes of 64 columns and 8 rows.
struct Tensors {
  static constexpr int kBatch = 2, kHeads = 3, kRows = 10, kColumns = 80, kBoxRows = 8;
  static constexpr std::size_t kCount = std::size_t{kBatch} * kHeads * kRows * kColumns;

  static CUtensorMap map_of(const Buffer& buffer, bool five) {
    CUtensorMap map;
    const cuuint64_t heads[] = {kColumns, kHeads, kRows, 1, kBatch}, plain[] = {kColumns, kRows, kHeads, kBatch};
    const cuuint64_t head_strides[] = {2 * kColumns, 2 * kColumns * kHeads, 16, 2 * kColumns * kHeads * kRows};
    const cuuint64_t strides[] = {2 * kColumns * kHeads, 2 * kColumns, 2 * kColumns * kHeads * kRows};
    const cuuint32_t head_box[] = {64, 2, kBoxRows / 2, 1, 1}, box[] = {64, kBoxRows, 1, 1}, ones[] = {1, 1, 1, 1, 1};
    const CUresult result = encode_tensor_map(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, five ? 5 : 4, buffer.data(), five ? heads : plain,
        five ? head_strides : strides, five ? head_box : box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    EXPECT_EQ(CUDA_SUCCESS, result);
    return map;
  }
  static std::size_t at(int batch, int row, int head, int column) {
    return static_cast<std::size_t>(((batch * kRows + row) * kHeads + head) * kColumns + column);
  }
};

struct Corner {
  int column, row;
};

// Past every end: zeros on load, swizzled; the unswizzled rows go to out.
TEST_F(HopperInstructions, BoxesArriveSwizzledWithZerosOutside) {
  const auto kernel = kernel_of("const __grid_constant__ TensorMap map, u16* out, int column, int row", R"(
    if (t == 0) { barrier_init(bars[0], 1); fence_barrier_init(); }
    __syncthreads();
    if (t == 0) {
      barrier_arrive_expect(shared_address(bars), 8 * 128);
      load_box(shared + 1024, map, shared_address(bars), column, row, 1, 1);
    }
    barrier_wait(shared_address(bars), 0);
    for (int i = t; i < 8 * 64; i += 32) {
      const int r = i / 64, c = i % 64;
      out[i] = *reinterpret_cast<u16*>(memory + 1024 + r * 128 + (c / 8 ^ r) * 16 + c % 8 * 2);
    })");
  std::vector<std::uint16_t> values(Tensors::kCount);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i + 1);
  const Buffer in("in", values);
  CUtensorMap map = Tensors::map_of(in, false);
  for (const Corner corner : {Corner{0, 0}, {64, 6}, {16, -3}, {-8, 2}, {32, 9}}) {
    for (const Schedule& schedule : schedules()) {
      const Buffer out("out", 8 * 64 * 2);
      void* to = out.data();
      Corner at = corner;
      void* arguments[] = {&map, &to, &at.column, &at.row};
      const Status status = launch(*kernel, arguments, 32, schedule);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int i = 0; i < 8 * 64; ++i) {
        const int row = at.row + i / 64, column = at.column + i % 64;
        const bool inside = row >= 0 && row < Tensors::kRows && column >= 0 && column < Tensors::kColumns;
        ASSERT_EQ(inside ? values[Tensors::at(1, row, 1, column)] : 0, out.as<std::uint16_t>()[i]) << i;
      }
    }
  }
}

// What a store drops stays poison; two heads are rows of one box.
TEST_F(HopperInstructions, StoresWriteTheirBoxAndNothingOutside) {
  const auto kernel = kernel_of("const __grid_constant__ TensorMap map", R"(
    for (int i = t; i < 8 * 64; i += 32) {
      const int r = i / 64, c = i % 64;
      *reinterpret_cast<u16*>(memory + r * 128 + (c / 8 ^ r) * 16 + c % 8 * 2) = i;
    }
    fence_async();
    __syncthreads();
    if (t == 0) { store_box(shared, map, 64, 2, 8, 0, 1); commit_stores(); wait_stores(); })");
  for (const Schedule& schedule : schedules()) {
    const Buffer out("out", Tensors::kCount * 2);
    CUtensorMap map = Tensors::map_of(out, true);
    void* arguments[] = {&map};
    const Status status = launch(*kernel, arguments, 32, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int b = 0; b < Tensors::kBatch; ++b)
      for (int row = 0; row < Tensors::kRows; ++row)
        for (int head = 0; head < Tensors::kHeads; ++head)
          for (int column = 0; column < Tensors::kColumns; ++column) {
            const bool inside = b == 1 && row >= 8 && head == 2 && column >= 64;
            const int expected = inside ? (row - 8) * 2 * 64 + column - 64 : 0xffff;
            ASSERT_EQ(expected, out.as<std::uint16_t>()[Tensors::at(b, row, head, column)]) << row << " " << column;
          }
  }
}

TEST_F(HopperInstructions, MisusedCopiesAreSeen) {
  const std::string types = "const __grid_constant__ TensorMap map", store = "store_box(shared, map, 0, 0, 0, 0, 0);\n";
  const std::string tile = "stmatrix(shared + t % 32 * 16, 0, 0, 0, 0);\n";
  const Buffer out("out", Tensors::kCount * 2);
  CUtensorMap map = Tensors::map_of(out, true);
  void* arguments[] = {&map};
  const auto fails = [&](const std::string& body) {
    const auto kernel = kernel_of(types, body);
    return launch(*kernel, arguments, 32, {}).message();
  };
  EXPECT_EQ("",
            fails(tile + "fence_async(); __syncwarp(); if (t == 0) {" + store + "commit_stores(); wait_stores(); }"));
  EXPECT_TRUE(has(fails(tile + "__syncwarp(); if (t == 0) {" + store + "commit_stores(); wait_stores(); }"),
                  "fence.proxy.async"));
  EXPECT_TRUE(has(fails("if (t == 0) {" + store + "commit_stores(); }"), "the block ended"));
  EXPECT_TRUE(has(fails("if (t == 0) {" + store + "commit_stores(); }\n__syncwarp();\n" + tile), "still reads"));
  EXPECT_TRUE(has(fails("if (t == 0) { barrier_init(bars[0], 1); barrier_arrive_expect(shared_address(bars), 1024);\n"
                        "load_box(shared, map, shared_address(bars), 0, 0, 0, 0, 0); }"),
                  "fence.mbarrier_init"));
  map.opaque[0] = 0;
  EXPECT_TRUE(has(fails("if (t == 0) prefetch(map);"), "no driver encoded"));
}

TEST_F(HopperInstructions, TheDriverRefusesWhatTheRealOneDoes) {
  CUtensorMap map;
  const cuuint64_t sizes[] = {64, 8, 2, 2}, odd[] = {136, 2048, 4096}, fine[] = {128, 2048, 4096};
  const cuuint32_t box[] = {64, 8, 1, 1}, tall[] = {64, 257, 1, 1}, ones[] = {1, 1, 1, 1};
  char* const aligned = reinterpret_cast<char*>(4096);
  const auto encode = [&](char* data, const cuuint64_t* strides, const cuuint32_t* rows) {
    return encode_tensor_map(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, data, sizes, strides, rows, ones,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT_EQ(CUDA_SUCCESS, encode(aligned, fine, box));
  EXPECT_NE(CUDA_SUCCESS, encode(aligned + 8, fine, box));
  EXPECT_NE(CUDA_SUCCESS, encode(aligned, odd, box));
  EXPECT_NE(CUDA_SUCCESS, encode(aligned, fine, tall));
}

// ---- products

struct ProductCase {
  ElementType dtype;
  int columns;
  bool a_registers, b_rows;  // b_rows: B lies with rows of the inner dimension
};

class HopperProducts : public HopperInstructions, public ::testing::WithParamInterface<ProductCase> {};

// d = d + a b over 64 of the inner dimension, a 64 x 64, b 64 x columns; a and b are written to shared memory by the
// formula of the 128-byte swizzle, b in panels of 64 columns where its rows are the inner dimension.
TEST_P(HopperProducts, MultiplyAsTheirDefinition) {
  const ProductCase c = GetParam();
  const std::string columns = std::to_string(c.columns);
  const BLayout layout = c.b_rows ? BLayout::kRows : BLayout::kColumns;
  const std::string text = c.a_registers ? register_product("P", c.dtype, c.columns, layout)
                                         : shared_product("P", c.dtype, c.columns, layout);
  const auto kernel = kernel_of("const u16* a, const u16* b, float* out", "constexpr int kN = " + columns + R"(;
    const auto at = [](int row, int column) { return row * 128 + ((column / 8 ^ row % 8) * 16) + column % 8 * 2; };
    for (int i = t; i < 64 * 64; i += 128) *reinterpret_cast<u16*>(memory + at(i / 64, i % 64)) = a[i];
    for (int i = t; i < 64 * kN; i += 128) {
      const int k = i / kN, n = i % kN;
      char* const place = kRows ? memory + 8192 + n / 64 * 8192 + at(k, n % 64) : memory + 8192 + at(n, k);
      *reinterpret_cast<u16*>(place) = b[i];
    }
    fence_async();
    __syncthreads();
    const int row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
    float d[kN / 8][4];
    for (int n = 0; n < kN / 8; ++n)
      for (int i = 0; i < 4; ++i) d[n][i] = 0.25f * (row + i / 2 * 8 + n * 8 + column + i % 2);
    wgmma_fence();
    for (int step = 0; step < 4; ++step) {
      const u64 right = advance(operand(shared + 8192, 8192), kRows ? step * 16 * 128 : step * 32);
      multiply(d, a, shared, step, right);
    }
    wgmma_commit();
    wgmma_wait<0>();
    for (int n = 0; n < kN / 8; ++n)
      for (int i = 0; i < 4; ++i) out[(row + i / 2 * 8) * kN + n * 8 + column + i % 2] = d[n][i];)",
                                text + "\nconstexpr bool kRows = " + (c.b_rows ? "true" : "false") + R"(;
    template <int kN> __device__ void multiply(float (&d)[kN][4], const u16* a, u32 shared, int step, u64 right) {
      const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2 + step * 16;)" +
                                    (c.a_registers ? R"(
      u32 pairs[4];
      for (int i = 0; i < 4; ++i) {
        const u16* pair = a + (row + i % 2 * 8) * 64 + column + i / 2 * 8;
        pairs[i] = pair[0] | u32{pair[1]} << 16;
      }
      P::multiply(d, pairs, right, true);
    })"
                                                   : R"(
      P::multiply(d, advance(operand(shared, 0), step * 32), right, true);
    })"));
  ASSERT_NE(nullptr, kernel);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<std::uint16_t> a(64 * 64), b(static_cast<std::size_t>(64 * c.columns));
  for (auto* matrix : {&a, &b})
    for (std::uint16_t& bits : *matrix) bits = store(c.dtype, uniform(random));
  const Buffer a_buffer("a", a), b_buffer("b", b);
  for (const Schedule& schedule : schedules()) {
    const Buffer out("out", static_cast<std::size_t>(64 * c.columns) * sizeof(float));
    void *from_a = a_buffer.data(), *from_b = b_buffer.data(), *to = out.data();
    void* arguments[] = {&from_a, &from_b, &to};
    const Status status = launch(*kernel, arguments, 128, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int m = 0; m < 64; ++m)
      for (int n = 0; n < c.columns; ++n) {
        double expected = 0.25 * (m + n);
        for (int k = 0; k < 64; ++k)
          expected += static_cast<double>(load(c.dtype, a[static_cast<std::size_t>(m * 64 + k)])) *
                      static_cast<double>(load(c.dtype, b[static_cast<std::size_t>(k * c.columns + n)]));
        ASSERT_NEAR(expected, static_cast<double>(out.as<float>()[m * c.columns + n]), 1e-4) << m << " " << n;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, HopperProducts,
                         ::testing::Values(ProductCase{ElementType::kF16, 64, false, false},
                                           ProductCase{ElementType::kBF16, 80, false, false},
                                           ProductCase{ElementType::kF16, 128, false, true},
                                           ProductCase{ElementType::kBF16, 192, true, true}));

TEST_F(HopperInstructions, MisusedProductsAreSeen) {
  const std::string text = shared_product("P", ElementType::kF16, 8, BLayout::kColumns);
  const std::string operands =
      "float d[1][4] = {};\nconst u64 a = operand(shared, 0), b = operand(shared + 8192, 0);\n";
  const std::string all = "wgmma_fence(); P::multiply(d, a, b, false); wgmma_commit(); wgmma_wait<0>();";
  const auto fails = [&](const std::string& body) {
    const auto kernel = kernel_of("int* out", operands + body, text);
    const Buffer out("out", 64);
    void* to = out.data();
    void* arguments[] = {&to};
    return launch(*kernel, arguments, 128, {}).message();
  };
  EXPECT_EQ("", fails(all));
  EXPECT_TRUE(has(fails("P::multiply(d, a, b, false); wgmma_commit(); wgmma_wait<0>();"), "wgmma.fence"));
  EXPECT_TRUE(has(fails("wgmma_fence(); P::multiply(d, a, b, false); wgmma_wait<0>();"), "the block ended"));
  EXPECT_TRUE(has(fails("wgmma_fence(); P::multiply(d, a, b, false); wgmma_commit(); d[0][0] = 1; wgmma_wait<0>();"),
                  "accumulator was written"));
  EXPECT_TRUE(has(fails("if (t < 96) {" + all + "}"), "took part in 0 of the 1"));
  EXPECT_TRUE(has(fails("const u64 c = t < 32 ? a : b; wgmma_fence(); P::multiply(d, c, b, false);"), "different"));
  EXPECT_TRUE(has(fails("wgmma_fence(); P::multiply(d, a, operand(shared + 65536, 0), false);"), "of shared memory"));
  EXPECT_TRUE(
      has(fails("wgmma_fence(); P::multiply(d, a, b, false); wgmma_commit(); stmatrix(shared + t * 16, 0, 0, 0, "
                "0); wgmma_wait<0>();"),
          "still reads"));
  EXPECT_TRUE(has(fails("stmatrix(shared + t * 16, 0, 0, 0, 0); __syncthreads();" + all), "fence.proxy.async"));

  // Copies of cp.async are stored when they are waited for, by the generic proxy.
  const std::string copy = "cp_async_16(shared + t * 16, out, true); cp_async_commit(); ",
                    wait = "cp_async_wait<0>(); ", fence = "fence_async(); ", meet = "__syncthreads();";
  EXPECT_EQ("", fails(copy + wait + fence + meet + all));
  for (const std::string& wrong : {copy + wait, copy + fence + wait, copy + fence, copy})
    EXPECT_TRUE(has(fails(wrong + meet + all), "fence.proxy.async")) << wrong;
  EXPECT_TRUE(has(fails("wgmma_fence(); P::multiply(d, a, b, false); wgmma_commit(); " + copy + "wgmma_wait<0>();"),
                  "still reads"));
}

}  // namespace
}  // namespace gqa::simt
