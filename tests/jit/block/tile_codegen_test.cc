// Tile kernels as text: held by a golden file, and compiled for two architectures, with no GPU: all assemble and none
// spills. Skipped by name where no NVRTC is installed.
#include "jit/block/tile_codegen.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "jit/nvrtc.h"
#include "tests/jit/nvrtc_support.h"
#include "tests/search/graph/stream_graphs.h"
#include "tests/search/graph/tile/tile_graphs.h"

namespace gqa {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(TileCodegen, Golden) {
  const std::string path = std::string(GQA_GOLDEN_DIR) + "/tile_gated_bf16.cu";
  const std::string source = tile_source(one_kernel(tiles::kGated, tile_threads(4, 4)));
  if (std::getenv("GQA_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << source;
  EXPECT_EQ(read_file(path), source);
}

TEST(TileCodegen, LaunchFollowsThePlan) {
  const KernelGraph kernel = one_kernel(tiles::kGated, tile_threads(8, 4));
  const TileLaunch launch = tile_launch(kernel);
  EXPECT_EQ(32, launch.blocks);
  EXPECT_EQ(256, launch.threads);
  EXPECT_EQ(4 * (8 * 256 + 2 * 128 * 64), launch.shared_memory);
  const TileLaunch plain = tile_launch(graph_of("graph 1\nx = input f16[1000,3]\ny = exp(x)\n"));
  EXPECT_EQ(12, plain.blocks);
  EXPECT_EQ(0, plain.shared_memory);
}

// Sixteen bytes at a time; not where they do not lie so, nor where there is no loop to wait for.
TEST(TileCodegen, RowsAreFoldedInEightsBeforeTheLoop) {
  const auto folds_eights = [](const std::string& text) {
    return tile_source(one_kernel(text, tile_threads(4, 3))).find("gqa::fold_eights<") != std::string::npos;
  };
  EXPECT_TRUE(folds_eights(tiles::kNormedFirst));
  for (const std::string* text : {&tiles::kNormed, &tiles::kNormedWhole, &tiles::kRows})
    EXPECT_FALSE(folds_eights(*text));
  for (const char* strided : {"[5,72] strides=[76,1]", "[5,72] strides=[1,5]"}) {
    std::string text = tiles::kNormedFirst;
    text.replace(text.find("[5,72]"), 6, strided);
    EXPECT_FALSE(folds_eights(text)) << strided;
  }
}

TEST(TileCodegen, WhatCannotRunSaysSoWhereItWouldBeCompiled) {
  const KernelGraph kernel = one_kernel(tiles::kGated, tile_threads(5, 4));
  EXPECT_FALSE(check_tile(kernel).ok());
  EXPECT_EQ(0U, tile_source(kernel).find("#error \"a tile kernel of warps=5"));
  EXPECT_EQ(0, tile_launch(kernel).blocks);
}

void expect_compiles(const Nvrtc& nvrtc, const KernelGraph& kernel, const std::string& arch) {
  Compiled compiled;
  const std::string source = tile_source(kernel);
  const Status status = nvrtc.compile(source, arch, &compiled);
  ASSERT_TRUE(status.ok()) << status.message() << "\n" << source;
  EXPECT_EQ(0, compiled.spill_bytes) << source;
  EXPECT_EQ(0, compiled.static_smem);
  EXPECT_NE(std::string::npos, compiled.ptx.find(kTileEntryPoint));
}

TEST(TileCodegen, BlocksCompile) {
  REQUIRE_NVRTC(nvrtc);
  for (const std::string* text : tiles::kAll) expect_compiles(*nvrtc, one_kernel(*text, tile_threads(4, 3)), "sm_80");
}

TEST(TileCodegen, StreamedLoopsCompile) {
  REQUIRE_NVRTC(nvrtc);
  for (const std::string* text : streams::kAll) {
    for (const ThreadPlan& threads : {stream_threads(8, 1), stream_threads(4, 1, 3)})
      expect_compiles(*nvrtc, one_kernel(*text, threads), "sm_80");
  }
}

TEST(TileCodegen, ALayoutThatDiffersFromTheHostsPlanDoesNotCompile) {
  REQUIRE_NVRTC(nvrtc);
  std::string source = tile_source(one_kernel(tiles::kGated, tile_threads(4, 3)));
  const std::string size = "== " + std::to_string(3 * 8 * 256);
  ASSERT_NE(std::string::npos, source.find(size));
  source.replace(source.find(size), size.size(), size + "1");
  Compiled compiled;
  const Status status = nvrtc->compile(source, "sm_80", &compiled);
  EXPECT_NE(std::string::npos, status.message().find("the host's plan and the device's layout differ"))
      << status.message();
}

// Every operator that may be a kernel of its own.
const char* const kPlain[] = {
    "a = input bf16[7,100]\nb = input bf16[100,33]\ny = matmul(a, b)\n",
    "a = input f16[2,3,40,8]\nb = input f16[3,24,40] strides=[960,1,24]\ny = matmul(a, b) ta=1 tb=1\n",
    "a = input f32[3,5]\nb = input f32[5]\ny = add(a, b)\n",
    "a = input bf16[3,5]\ny = softmax(a) dim=0\n",
    "a = input bf16[3,70]\nb = input bf16[70]\ny = rms_norm(a, b) eps=1e-05\n",
    "a = input bf16[2,3,70]\ny = mean(a) dim=1\n",
    "a = input f16[2,6,9]\ny = mask(a) left=3 right=0\n",
    "a = input f16[2,6,9]\ny = transpose(a) dims=[2,0,1]\n",
    "a = input f16[6,1]\ny = broadcast(a) dims=[4,6,9]\n",
    "a = input f16[6,1]\ny = squeeze(a) dim=1\n",
    "y = constant() c=0.1 dims=[4,5] type=f32\n",
    "a = input f16[6,4]\ny = clamp(a) lo=-1\n",
};

TEST(TileCodegen, PlainOperatorsCompile) {
  REQUIRE_NVRTC(nvrtc);
  for (const char* text : kPlain) expect_compiles(*nvrtc, graph_of(std::string("graph 1\n") + text), "sm_80");
}

class TileSpread : public ::testing::TestWithParam<const char*> {};

TEST_P(TileSpread, ProgramsOfTheSearchCompile) {
  REQUIRE_NVRTC(nvrtc);
  const DeviceSpec device = *DeviceSpec::for_arch(GetParam());
  for (const std::string& text : tiles::kUsers) {
    for (const RankedProgram& ranked : search(graph_of(text), "", 3).programs) {
      for (const TileKernel& kernel : kernels_of(ranked.program.graph, device))
        expect_compiles(*nvrtc, kernel.graph, GetParam());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, TileSpread, ::testing::Values("sm_80", "sm_90a"),
                         [](const auto& arch) { return std::string(arch.param); });

}  // namespace
}  // namespace gqa
