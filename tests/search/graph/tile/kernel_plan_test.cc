// kernel_plan_test.cc: what is launched is what was proved: plans, their tiles and their kernels.
#include "search/graph/tile/kernel_plan.h"

#include <set>

#include "search/families/resources.h"
#include "search/families/space.h"
#include "search/graph/attention/attention_program.h"
#include "search/graph/attention/retile.h"
#include "tests/search/graph/enumerate/search_support.h"

namespace gqa {
namespace {

const std::string kDecode = R"(graph 1
q = input bf16[4,2,8,1,128]
k = input bf16[4,2,1,4096,128]
v = input bf16[4,2,1,4096,128]
a = matmul(q, k) tb=1
s = scale(a) c=0.088388347648318447
p = softmax(s) dim=-1
o = matmul(p, v)
)";

const std::string kProjected = R"(graph 1
x = input f16[256,512]
w = input f16[512,64]
k = input f16[512,64]
v = input f16[512,64]
q = matmul(x, w)
custom(q, k, v) grid=[4] steps=8
  before:
  qt = load(0) grid=[0/64]
  loop:
  kt = load(1) grid=[-] loop=0/64
  vt = load(2) grid=[-] loop=0/64
  s = matmul(qt, kt) tb=1
  top = max(s) dim=1
  m = running_max(top)
  z = sub_max(s, m)
  p = exp(z)
  ps = sum(p) dim=1
  l = accumulate_rescaled(ps, m)
  pv = matmul(p, vt)
  r = accumulate_rescaled(pv, m)
  after:
  d = div(r, l)
  store(d) -> o f16[256,64] grid=[0/64]
end
y = relu(o)
)";

std::string plan_of(const KernelGraph& graph, std::size_t node = 0) {
  return to_text(graph.nodes()[node].block->threads);
}

std::string family_of(const KernelGraph& graph) { return graph.nodes()[0].block->threads.family; }

KernelPlan planned(const KernelGraph& graph) {
  KernelPlan plan;
  const Status status = plan_kernels(graph, &plan);
  EXPECT_TRUE(status.ok()) << status.message() << "\n" << to_text(graph);
  return plan;
}

std::string error_of(const std::string& text) {
  KernelPlan plan;
  const Status status = plan_kernels(graph_of(text), &plan);
  EXPECT_EQ(status.code(), Code::kOption);
  EXPECT_TRUE(plan.kernels.empty());
  return status.message();
}

std::string with_threads(std::string text, const std::string& plan) {
  for (auto at = text.find(" steps="); at != std::string::npos; at = text.find(" steps=", at + 1))
    text.insert(text.find('\n', at), " threads=" + plan);
  return text;
}

// Plans of all programs that the search finds for a graph. A program has none where no tile kernel takes its tiles.
std::vector<KernelGraph> all_plans(const std::string& text, std::size_t most, std::size_t programs = 12) {
  std::vector<KernelGraph> found;
  for (const RankedProgram& ranked : search(graph_of(text), "attention", programs).programs) {
    const auto plans = thread_plans(ranked.program.graph, hopper(), most);
    EXPECT_LE(plans.size(), most);
    found.insert(found.end(), plans.begin(), plans.end());
  }
  EXPECT_FALSE(found.empty());
  return found;
}

class ThreadPlans : public testing::TestWithParam<std::string> {};

TEST_P(ThreadPlans, AreEqualToTheUsersGraphAndCanBeLaunched) {
  const KernelGraph user = graph_of(GetParam());
  std::set<std::string> families;
  for (const KernelGraph& graph : all_plans(GetParam(), 6)) {
    const Status equal = prove_equal(user, graph, 11, nullptr);
    EXPECT_TRUE(equal.ok()) << equal.message() << "\n" << to_text(graph);
    for (const PlannedKernel& kernel : planned(graph).kernels)
      families.insert(kernel.family ? std::string(name(kernel.family->candidate)) : "tile");
  }
  EXPECT_TRUE(families.count("tile"));
  EXPECT_TRUE(families.count("flash") || families.count("warpgroup") || families.count("split"));
}

INSTANTIATE_TEST_SUITE_P(Graphs, ThreadPlans, testing::Values(programs::kNaive, programs::kSoftcap, kDecode));

TEST(KernelPlan, TheIssuesGraphRunsOnEveryFamily) {
  std::set<std::string> families;
  for (const KernelGraph& graph : thread_plans(graph_of(programs::kFlash), hopper(), 8))
    families.insert(family_of(graph));
  EXPECT_EQ(families, (std::set<std::string>{"flash", "split", "tile", "warpgroup"}));
}

TEST(KernelPlan, DecodeRunsOnSplitWithAllHeadsOfAGroupInATile) {
  bool packed = false;
  for (const KernelGraph& graph : all_plans(kDecode, 6)) {
    const KernelPlan plan = planned(graph);
    if (!plan.kernels[0].family || shape_of(plan.kernels[0].family->candidate).splits == 1) continue;
    EXPECT_EQ(graph.nodes().size(), 2U);
    EXPECT_EQ(plan.kernels.size(), 1U) << "the family's kernel merges too";
    packed = packed || shape_of(plan.kernels[0].family->candidate).pack == 8;
  }
  EXPECT_TRUE(packed);
}

TEST(KernelPlan, TheHostRunsBlockGraphsItself) {
  DeviceSpec host;
  host.kind = DeviceKind::kHost;
  host.arch = "x86-64";
  host.sms = 2;
  host.smem_per_block = 1 << 20;
  host.memory_bandwidth = host.tensor_flops = 1e10;
  const auto plans = thread_plans(graph_of(programs::kFlash), host, 8);
  ASSERT_FALSE(plans.empty());
  for (const KernelGraph& graph : plans) EXPECT_EQ(family_of(graph), "tile");
}

TEST(KernelPlan, RetiledBlocksHaveTheCandidatesTiles) {
  const KernelGraph split = search(graph_of(kDecode), "attention").programs[0].program.graph;
  const Candidate candidate = candidate_of("split m=16 n=32 warps=4 stages=2 pack=8 splits=4");
  const auto graph = retile(split, candidate);
  ASSERT_TRUE(graph);
  const KernelNode& node = graph->nodes()[0];
  const Axes q = tile_of(*graph, node, "q"), k = tile_of(*graph, node, "k");
  EXPECT_EQ(tile_dims(q), (Dims{1, 1, 8, 1, 128}));
  EXPECT_EQ(tile_dims(k), (Dims{1, 1, 1, 32, 128}));
  EXPECT_EQ(k[3].share, 4096 / 4);
  EXPECT_EQ(node.block->steps, 4096 / 4 / 32);
  EXPECT_EQ(plan_of(*graph), to_text(candidate));
  EXPECT_EQ(plan_of(*graph, 1), to_text(candidate));
}

TEST(KernelPlan, RetiledBlocksAreThoseOfTheAttentionSearch) {
  for (const char* text : {"b=2,hq=8,hk=2,sq=100,sk=300,d=64,dtype=f16,causal", "hq=8,hk=1,sq=3,sk=512,d=128",
                           "hq=8,hk=2,sq=70,sk=300,d=64,causal,ktrans"}) {
    const Problem problem = problem_of(text);
    for (const char* plan :
         {"flash m=64 n=64 warps=4 stages=2 pack=2", "split m=32 n=32 warps=1 stages=2 pack=4 splits=3"}) {
      const KernelGraph program = attention_program(problem, candidate_of(plan));
      const auto graph = retile(program, candidate_of(plan));
      ASSERT_TRUE(graph) << plan;
      EXPECT_TRUE(prove_equal(attention_graph(problem), *graph, 5, nullptr).ok()) << to_text(*graph);
      EXPECT_EQ(attention_form(*graph), attention_form(program));
      EXPECT_EQ(blocks(*graph->nodes()[0].block), blocks(*program.nodes()[0].block));
      EXPECT_EQ(graph->nodes()[0].block->steps, program.nodes()[0].block->steps);
    }
  }
}

TEST(KernelPlan, AttentionAmongOtherKernelsIsOneOfThem) {
  const KernelGraph program = graph_of(kProjected);
  const auto plans = thread_plans(program, hopper(), 6);
  ASSERT_GT(plans.size(), 2U);
  EXPECT_TRUE(prove_equal(program, plans[0], 3, nullptr).ok());
  const KernelPlan plan = planned(plans[0]);
  ASSERT_EQ(plan.kernels.size(), 3U);
  EXPECT_FALSE(plan.kernels[0].family);
  ASSERT_TRUE(plan.kernels[1].family);
  EXPECT_FALSE(plan.kernels[2].family);
  const auto named = [&](const std::vector<int>& tensors) {
    std::string names;
    for (const int tensor : tensors) names += plan.program.tensor(tensor).name + " ";
    return names;
  };
  EXPECT_EQ(named(plan.kernels[0].inputs) + "-> " + named(plan.kernels[0].outputs), "x w -> q ");
  EXPECT_EQ(named(plan.kernels[1].inputs) + "-> " + named(plan.kernels[1].outputs), "q k v -> o ");
  EXPECT_EQ(named(plan.kernels[2].inputs) + "-> " + named(plan.kernels[2].outputs), "o -> y ");
  const PlannedKernel& attention = plan.kernels[1];
  EXPECT_EQ(attention.graph.tensor(attention.family->form.k.tensor).name, "k");
  EXPECT_EQ(attention.graph.outputs(), std::vector<int>{attention.family->form.out.tensor});
}

// Fused into one kernel it would be no family's: the search keeps a program in which it stands alone.
TEST(KernelPlan, AttentionOfNormalisedQueriesAndKeysRunsOnAFamilyToo) {
  bool found = false;
  for (const KernelGraph& graph : all_plans(R"(graph 1
q = input f16[8,512,64]
k = input f16[8,2048,64]
v = input f16[8,2048,64]
g = input f16[64]
qn = rms_norm(q, g) eps=1e-06
kn = rms_norm(k, g) eps=1e-06
a = matmul(qn, kn) tb=1
p = softmax(a) dim=-1
o = matmul(p, v)
)",
                                            4, 24)) {
    for (const PlannedKernel& kernel : planned(graph).kernels) found = found || kernel.family;
  }
  EXPECT_TRUE(found);
}

TEST(KernelPlan, EveryPlanOfAProgramIsAnother) {
  std::set<std::string> texts;
  const auto plans = thread_plans(graph_of(programs::kFlash), hopper(), 12);
  for (const KernelGraph& graph : plans) texts.insert(to_text(graph));
  EXPECT_EQ(texts.size(), plans.size());
}

TEST(KernelPlan, SaysWhichThreadPlanCannotBeLaunched) {
  const std::string flash = "flash m=64 n=64 warps=4 stages=2 pack=1 splits=1 head_swizzle=0";
  EXPECT_NE(error_of(programs::kFlash).find("without a thread plan"), std::string::npos);
  EXPECT_NE(error_of(with_threads(programs::kFlash, "flush m=64")).find("unknown family 'flush'"), std::string::npos);
  EXPECT_NE(error_of(with_threads(programs::kGatedFused, flash)).find("no attention a family runs"), std::string::npos);
  const std::string other = "flash m=128 n=64 warps=4 stages=2 pack=1 splits=1 head_swizzle=0";
  EXPECT_NE(error_of(with_threads(programs::kFlash, other)).find("other tiles"), std::string::npos);
  EXPECT_EQ(planned(graph_of(with_threads(programs::kFlash, flash))).kernels.size(), 1U);
}

}  // namespace
}  // namespace gqa
