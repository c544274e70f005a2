// The emulated instructions against plain definitions: a kernel of a few lines each, on the wrappers of jit/device/.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "runtime/element.h"
#include "tests/simt/emulator/kernel.h"

namespace gqa::simt {
namespace {

class Instructions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }

  // One block of `threads` threads of: extern "C" __global__ void kernel(const T* in, U* out) { <body> }, with 4096
  // bytes of dynamic shared memory, `memory`.
  Status run(const std::string& types, const std::string& body, const Buffer& in, const Buffer& out,
             unsigned threads = 32, const Schedule& schedule = {}) {
    std::string why;
    const auto kernel = Kernel::compile(
        "#include \"ptx/mma.cuh\"\nusing namespace gqa;\nextern \"C\" __global__ void "
        "kernel(" +
            types + ") {\nextern __shared__ __align__(1024) char memory[];\n" + "const int t = threadIdx.x;\n" + body +
            "\n}\n",
        "kernel", &why);
    if (kernel == nullptr) return {Code::kInternal, why};
    void *from = in.data(), *to = out.data();
    void* arguments[] = {&from, &to};
    return kernel->launch({{1, 1, 1}, {threads, 1, 1}, 4096, arguments}, schedule);
  }

  std::string failure(const std::string& body, unsigned threads = 32, const Schedule& schedule = {}) {
    const Buffer in("in", 4096), out("out", 4096);
    const Status status = run("const unsigned* in, unsigned* out", body, in, out, threads, schedule);
    EXPECT_FALSE(status.ok()) << body;
    return status.message();
  }
};

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::vector<std::uint16_t> counting(std::size_t count) {
  std::vector<std::uint16_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::uint16_t>(i);
  return values;
}

constexpr const char* kCopyIn =
    "for (int i = t; i < 256; i += 32) reinterpret_cast<u16*>(memory)[i] = in[i];\n__syncthreads();\n";

// Tile `r` of a lane's fragment r, in element numbers: tiles are 8 rows of 8 that follow each other.
TEST_F(Instructions, LdmatrixGivesRowsAndTransposedColumns) {
  const Buffer in("in", counting(256));
  const Buffer out("out", 2 * 32 * 4 * sizeof(std::uint32_t));
  const Status status = run("const u16* in, Fragment* out",
                            std::string(kCopyIn) +
                                "out[t] = ldmatrix(shared_address(memory) + t * 16);\n"
                                "out[32 + t] = ldmatrix_transposed(shared_address(memory) + t * 16);",
                            in, out);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto values = out.values<std::uint32_t>();
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned r = 0; r < 4; ++r) {
      const unsigned row = lane / 4, column = lane % 4 * 2, tile = 64 * r;
      EXPECT_EQ(tile + row * 8 + column + ((tile + row * 8 + column + 1) << 16), values[lane * 4 + r]);
      EXPECT_EQ(tile + column * 8 + row + ((tile + (column + 1) * 8 + row) << 16), values[(32 + lane) * 4 + r]);
    }
}

// Through the lane offsets of mma.cuh: a 16x16 product of matrices in shared memory.
class Products : public Instructions, public ::testing::WithParamInterface<ElementType> {};

TEST_P(Products, AreSumsOfProductsPlusWhatWasThere) {
  const ElementType type = GetParam();
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> given(512);  // a: 16 rows of 16, b: 16 columns of 16, each along k
  for (std::uint16_t& bits : given) bits = store(type, normal(random));
  const Buffer in("in", given), out("out", 256 * sizeof(float));
  const std::string element = type == ElementType::kF16 ? "F16" : "BF16";
  const Status status =
      run("const u16* in, float* out",
          "for (int i = t; i < 512; i += 32) reinterpret_cast<u16*>(memory)[i] = in[i];\n__syncthreads();\n"
          "const Fragment a = ldmatrix(shared_address(memory) + lane_offset_rows_first(32));\n"
          "const Fragment b = ldmatrix(shared_address(memory) + 512 + lane_offset_columns_first(32));\n"
          "for (int n = 0; n < 2; ++n) {\n"
          "  float d[4] = {1, 1, 1, 1};\n  mma<" +
              element +
              ">(d, a, b.r[2 * n], b.r[2 * n + 1]);\n"
              "  for (int c = 0; c < 4; ++c) out[(t / 4 + c / 2 * 8) * 16 + n * 8 + t % 4 * 2 + c % 2] = d[c];\n}",
          in, out);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto values = out.values<float>();
  for (std::size_t m = 0; m < 16; ++m)
    for (std::size_t n = 0; n < 16; ++n) {
      double expected = 1;
      for (std::size_t k = 0; k < 16; ++k)
        expected += static_cast<double>(load(type, given[m * 16 + k])) *
                    static_cast<double>(load(type, given[256 + n * 16 + k]));
      EXPECT_FLOAT_EQ(static_cast<float>(expected), values[m * 16 + n]) << m << "," << n;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Products, ::testing::Values(ElementType::kF16, ElementType::kBF16),
                         [](const auto& parameter) { return std::string(name(parameter.param)); });

TEST_F(Instructions, ConversionsRoundToNearestEvenAndPackLowFirst) {
  const std::vector<float> given = {1.F + 0x1p-11F, 1.F + 3 * 0x1p-11F, 70000.F, 1e-8F, -2.5F, 1.F + 0x1p-8F};
  const Buffer in("in", given), out("out", 12 * sizeof(std::uint32_t));
  const Status status =
      run("const float* in, u32* out",
          "if (t < 6) { out[t] = F16::pack(in[t], 2.f); out[6 + t] = BF16::pack(in[t], 2.f); }", in, out);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto values = out.values<std::uint32_t>();
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(0x40000000U | float_to_half(given[i]), values[i]);
    EXPECT_EQ(0x40000000U | float_to_bfloat16(given[i]), values[6 + i]);
  }
  EXPECT_EQ(0x3c00U, values[0] & 0xffffU);  // a tie, to even
  EXPECT_EQ(0x3c02U, values[1] & 0xffffU);
  EXPECT_EQ(0x7c00U, values[2] & 0xffffU);
  EXPECT_EQ(0x3f80U, values[11] & 0xffffU);
}

TEST_F(Instructions, Exp2FlushesSubnormalsAndKnowsInfinity) {
  const std::vector<float> given = {-INFINITY, 0, 10, -0.5F, -140};
  const Buffer in("in", given), out("out", given.size() * sizeof(float));
  ASSERT_TRUE(run("const float* in, float* out", "if (t < 5) out[t] = exp2_approx(in[t]);", in, out).ok());
  EXPECT_EQ((std::vector<float>{0, 1, 1024, std::sqrt(0.5F), 0}), out.values<float>());
}

TEST_F(Instructions, ShufflesAndVotes) {
  const Buffer in("in", 4), out("out", 5 * 32 * sizeof(int));
  const Status status = run("const int* in, int* out",
                            "out[t] = __shfl_xor_sync(0xffffffffu, t, 5);\n"
                            "out[32 + t] = __shfl_sync(0xffffffffu, t, 3, 8);\n"
                            "out[64 + t] = __shfl_down_sync(0xffffffffu, t, 4, 16);\n"
                            "out[96 + t] = __ballot_sync(0xffffffffu, t % 3 == 0);\n"
                            "out[128 + t] = t < 16 ? __any_sync(0xffffu, t == 20) : __all_sync(0xffff0000u, t > 15);",
                            in, out);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto values = out.values<int>();
  for (int t = 0; t < 32; ++t) {
    const auto at = static_cast<std::size_t>(t);
    EXPECT_EQ(t ^ 5, values[at]);
    EXPECT_EQ(t / 8 * 8 + 3, values[32 + at]);
    EXPECT_EQ(t % 16 < 12 ? t + 4 : t, values[64 + at]);
    EXPECT_EQ(0x49249249, values[96 + at]);
    EXPECT_EQ(t < 16 ? 0 : 1, values[128 + at]);
  }
}

// A piece that is not valid is zeros and its source is not read; nothing may be read before the wait that covers it.
TEST_F(Instructions, CopiesAreZeroFilledAndThereAfterTheirWait) {
  const Buffer in("in", counting(8));
  for (const auto& [copy, when] : {std::pair("cp_async_16", Copies::kLate), std::pair("cp_async_16", Copies::kEarly),
                                   std::pair("cp_async_16_once", Copies::kLate)}) {
    const std::string one = copy, copies =
                                      "if (t != 0) return;\n"
                                      "u32* words = reinterpret_cast<u32*>(memory);\n" +
                                      one + "(shared_address(memory), in, true); cp_async_commit();\n" + one +
                                      "(shared_address(memory) + 16, in + 99999, false); cp_async_commit();\n";
    const Schedule schedule = {Order::kAscending, when, 1};
    const Buffer out("out", 2 * sizeof(std::uint32_t));
    const Status status = run("const u16* in, u32* out",
                              copies + "cp_async_wait<1>(); out[0] = words[0]; cp_async_wait<0>(); out[1] = words[7];",
                              in, out, 32, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ((std::vector<std::uint32_t>{0x10000U, 0}), out.values<std::uint32_t>());
    for (const char* early : {"out[0] = words[0];", "cp_async_wait<1>(); out[0] = words[4];", "words[4] = 1;"})
      EXPECT_TRUE(has(failure(copies + early, 32, schedule), "while a copy writes them")) << early;
  }
}

// Also where the numbers come out right: what no barrier orders is a race.
TEST_F(Instructions, RacesInSharedMemoryAreReported) {
  const std::string words = "u32* words = reinterpret_cast<u32*>(memory);\nwords[t] = t;\n";
  EXPECT_TRUE(has(failure(words + "out[t] = words[t ^ 1];"), "race: "));
  EXPECT_TRUE(has(failure(words + "__syncwarp();\nout[t] = words[t ^ 32];", 64), "race: "));
  EXPECT_TRUE(has(failure(words + "__shfl_xor_sync(0xffffffffu, t, 1);\nout[t] = words[t ^ 1];"), "race: "));
  EXPECT_TRUE(has(failure(words + "words[t ^ 1] = t;"), "race: "));
  EXPECT_TRUE(has(failure(words + "__syncthreads();\nout[t] = words[t];\nwords[t ^ 33] = t;", 64), "race: "));
  const Buffer in("in", 4), out("out", 64 * sizeof(std::uint32_t));
  const Status status = run("const u32* in, u32* out",
                            words +
                                "__syncwarp();\nconst u32 other = words[t ^ 1];\n__syncthreads();\n"
                                "words[t ^ 33] = other;\n__syncthreads();\nout[t] = words[t];",
                            in, out, 64);
  EXPECT_TRUE(status.ok()) << status.message();
}

// ---- what goes wrong is said, with its place

TEST_F(Instructions, DivergenceAndDeadlockAreReported) {
  EXPECT_TRUE(has(failure("if (t < 7) __syncthreads();\nelse __syncthreads();"), "divergent barrier"));
  const std::string deadlock = failure("if (t != 7) __syncthreads();");
  EXPECT_TRUE(has(deadlock,
                  "deadlock in block (0, 0, 0): 1 threads (the first: 7) ended; 31 threads (the first: 0) wait "
                  "in __syncthreads at kernel.cc:6"))
      << deadlock;
  EXPECT_TRUE(has(failure("if (t < 7) __syncwarp();\nelse __shfl_sync(0xffffffffu, t, 0);"), "divergent warp"));
  EXPECT_TRUE(has(failure("if (t < 7) __shfl_sync(0xff00u, t, 8);"), "mask leaves out"));
  EXPECT_TRUE(has(failure("if (t < 7) ldmatrix(shared_address(memory));"), "deadlock"));
}

TEST_F(Instructions, AccessesOutOfBoundsAreReported) {
  EXPECT_TRUE(has(failure("ldmatrix(shared_address(memory) + 4096);"), "ldmatrix of bytes 4096 to 4112"));
  EXPECT_TRUE(has(failure("ldmatrix(shared_address(memory) + 8);"), "not aligned"));
  EXPECT_TRUE(has(failure("cp_async_16(shared_address(memory) + 4088, in, true);"), "cp.async"));
  EXPECT_TRUE(has(failure("asm volatile(\"cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, 16, %2;\" "
                          ":: \"r\"(shared_address(memory)), \"l\"(in), \"l\"(7ull));"),
                  "no createpolicy made"));
  EXPECT_TRUE(has(failure("reinterpret_cast<volatile char*>(memory)[4096 + t] = 1;"), "shared memory (4096 bytes)"));
  EXPECT_TRUE(has(failure("out[1024] = 1;"), "0 bytes past the end of out"));
  EXPECT_TRUE(has(failure("out[t] = reinterpret_cast<volatile const unsigned*>(in)[1024];"), "past the end of in"));
  EXPECT_TRUE(has(failure("out[-1] = 1;"), "4 bytes before out"));
  EXPECT_TRUE(has(failure("*reinterpret_cast<uint4*>(out + t % 2) = make_uint4(1, 2, 3, 4);"), "misaligned"));
}

TEST_F(Instructions, AnUnknownInstructionIsNamed) {
  EXPECT_TRUE(has(failure("asm volatile(\"bra.uni %0;\" ::\"r\"(t));"), "does not know `bra.uni %0;`"));
}

}  // namespace
}  // namespace gqa::simt
