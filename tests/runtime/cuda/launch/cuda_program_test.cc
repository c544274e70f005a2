// cuda_program_test.cc: what a program hands to the driver, seen by a driver that only writes it down: the order of
// launches, where each kernel finds its tensors, the memory between kernels. Needs no GPU and no CUDA driver.
#include "runtime/cuda/launch/cuda_program.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "runtime/workload/programs.h"
#include "search/families/resources.h"
#include "search/graph/enumerate/superoptimize.h"
#include "search/graph/tile/kernel_plan.h"
#include "tests/runtime/cuda/driver/quiet_driver.h"
#include "tests/search/graph/graphs.h"

namespace gqa {
namespace {

struct Launch {
  std::vector<void*> arguments;
  unsigned blocks, threads, shared_memory;
  CUstream stream;
};

std::vector<Launch> launches;
std::vector<std::size_t> pointers;  // that each kernel of the program takes
int allocations = 0;

Driver program_driver() {
  Driver d = test::quiet_driver();
  d.cuLaunchKernel = [](CUfunction, unsigned x, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                        unsigned shared_memory, CUstream stream, void** arguments, void**) {
    Launch& launch = launches.emplace_back();
    launch.blocks = x;
    launch.threads = threads;
    launch.shared_memory = shared_memory;
    launch.stream = stream;
    const std::size_t count = pointers.at((launches.size() - 1) % pointers.size());
    for (std::size_t i = 0; i < count; ++i) launch.arguments.push_back(*static_cast<void**>(arguments[i]));
    return CUDA_SUCCESS;
  };
  d.cuMemAlloc = [](CUdeviceptr* address, std::size_t bytes) {
    ++allocations;
    *address = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
    return CUDA_SUCCESS;
  };
  return d;
}

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

class CudaProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    launches.clear();
    allocations = 0;
    ASSERT_TRUE(Context::retain(driver_, 0, &shared_->context).ok());
    shared_->workspaces = std::make_unique<WorkspacePool>(driver_);
    shared_->intermediates = std::make_unique<WorkspacePool>(driver_);
    shared_->sms = 132;
  }

  void load(const KernelGraph& program) {
    const Status planned = plan_kernels(program, &plan_);
    ASSERT_TRUE(planned.ok()) << planned.message();
    pointers.clear();
    for (const PlannedKernel& kernel : plan_.kernels) pointers.push_back(kernel.inputs.size() + kernel.outputs.size());
    Program made;
    const Status programmed = program_of(plan_, DeviceKind::kCuda, &made);
    ASSERT_TRUE(programmed.ok()) << programmed.message();
    std::vector<Binary> binaries(made.sources.size());
    for (Binary& binary : binaries) binary.cubin = "not looked at";
    const Status loaded = CudaProgram::load(shared_, made, binaries, &program_);
    ASSERT_TRUE(loaded.ok()) << loaded.message();
  }

  void launch(std::vector<const void*> inputs, std::vector<void*> outputs, void* stream = nullptr) {
    const Status status = program_->run(ProgramCall{inputs.data(), outputs.data(), stream, nullptr});
    ASSERT_TRUE(status.ok()) << status.message();
  }

  Driver driver_ = program_driver();
  std::shared_ptr<CudaShared> shared_ = std::make_shared<CudaShared>();
  KernelPlan plan_;
  std::unique_ptr<LoadedProgram> program_;
};

// Two outputs, one of which the second kernel reads.
constexpr const char* kChain =
    "graph 1\n"
    "x = input f16[64,64]\n"
    "w = input f16[64,64]\n"
    "b = exp(x)\n"
    "c = mul(b, w)\n"
    "d = add(c, b)\n"
    "outputs d, b\n";

TEST_F(CudaProgramTest, KernelsRunInOrderOnTheirTensors) {
  load(graph_of(kChain));
  launch({at(0x1000), at(0x2000)}, {at(0x3000), at(0x4000)}, at(7));
  ASSERT_EQ(launches.size(), 3u);
  ASSERT_EQ(launches[1].arguments.size(), 3u);
  void* const between = launches[1].arguments[2];
  ASSERT_NE(between, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(between) % 16, 0u);
  EXPECT_EQ(launches[0].arguments, (std::vector{at(0x1000), at(0x4000)})) << "exp writes the second output";
  EXPECT_EQ(launches[1].arguments, (std::vector{at(0x4000), at(0x2000), between})) << "mul reads it";
  EXPECT_EQ(launches[2].arguments, (std::vector{between, at(0x4000), at(0x3000)}));
  for (const Launch& launch : launches) EXPECT_EQ(launch.stream, static_cast<CUstream>(at(7)));
  for (std::size_t i = 0; i < 3; ++i) {
    const TileLaunch tile = tile_launch(plan_.kernels[i].graph);
    EXPECT_EQ(launches[i].blocks, static_cast<unsigned>(tile.blocks));
    EXPECT_EQ(launches[i].threads, static_cast<unsigned>(tile.threads));
    EXPECT_EQ(launches[i].shared_memory, static_cast<unsigned>(tile.shared_memory));
  }
}

TEST_F(CudaProgramTest, TensorsBetweenKernelsLieApartAndStreamsHaveTheirOwn) {
  load(
      graph_of("graph 1\n"
               "x = input f16[64,64]\n"
               "b = exp(x)\n"
               "c = square(b)\n"
               "d = silu(c)\n"));
  launch({at(0x1000)}, {at(0x3000)}, at(1));
  launch({at(0x1000)}, {at(0x3000)}, at(2));
  const auto address = [&](std::size_t launch, std::size_t argument) {
    return reinterpret_cast<std::uintptr_t>(launches[launch].arguments[argument]);
  };
  ASSERT_EQ(launches.size(), 6u);
  EXPECT_EQ(address(0, 1), address(1, 0));
  EXPECT_EQ(address(1, 1), address(2, 0));
  EXPECT_GE(address(1, 1), address(1, 0) + 64 * 64 * 2);
  EXPECT_NE(address(0, 1), address(3, 1));
  const int warm = allocations;
  EXPECT_GT(warm, 0);
  launch({at(0x1000)}, {at(0x3000)}, at(1));
  launch({at(0x1000)}, {at(0x3000)}, at(2));
  EXPECT_EQ(allocations, warm) << "nothing is allocated once warm";
}

TEST_F(CudaProgramTest, AFamilysKernelFindsItsOperands) {
  const KernelGraph graph = softmax_attention(2, 256, 512, 64);
  DeviceSpec spec = *DeviceSpec::for_arch("sm_80");
  SearchResult found;
  ASSERT_TRUE(superoptimize(graph, spec, {}, &found).ok());
  const auto one_family = [&] {
    for (const RankedProgram& ranked : found.programs) {
      for (const KernelGraph& graph_plan : thread_plans(ranked.program.graph, spec, 8)) {
        if (!plan_kernels(graph_plan, &plan_).ok() || plan_.kernels.size() != 1) continue;
        if (plan_.kernels[0].family && shape_of(plan_.kernels[0].family->candidate).splits == 1) return graph_plan;
      }
    }
    return KernelGraph();
  };
  load(one_family());
  ASSERT_EQ(plan_.kernels.size(), 1u);
  ASSERT_TRUE(plan_.kernels[0].family);
  driver_.cuLaunchKernel = [](CUfunction, unsigned x, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              CUstream, void** arguments, void**) {
    AttentionParams params;
    std::memcpy(&params, arguments[0], sizeof params);
    Launch& launch = launches.emplace_back();
    launch.blocks = x;
    launch.arguments = {const_cast<void*>(params.q), const_cast<void*>(params.k), const_cast<void*>(params.v),
                        params.out};
    EXPECT_EQ(params.batch * params.q_heads, 2);
    EXPECT_EQ(params.q_len, 256);
    EXPECT_EQ(params.kv_len, 512);
    EXPECT_NEAR(params.scale_log2, 1.442695, 1e-5) << "the graph scales nothing";
    EXPECT_EQ(params.q_strides.row, 64);
    EXPECT_EQ(params.k_strides.row, 512) << "keys lie transposed: a row of them is one column of all";
    EXPECT_EQ(params.v_strides.row, 64);
    return CUDA_SUCCESS;
  };
  launch({at(0x1000), at(0x2000), at(0x3000)}, {at(0x4000)});
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].arguments, (std::vector{at(0x1000), at(0x2000), at(0x3000), at(0x4000)}));
}

}  // namespace
}  // namespace gqa
