// graph_text_test.cc: graphs as text, JSON and drawings: both ways where there are two, and what is refused.
#include "search/graph/ir/graph_text.h"

#include <set>

#include "search/families/space.h"
#include "search/graph/attention/attention_program.h"
#include "search/graph/ir/graph_dot.h"
#include "search/graph/ir/graph_json.h"
#include "tests/search/graph/graphs.h"

namespace gqa {
namespace {

constexpr std::string_view kAttention = R"(graph 1
q = input f16[2,256,64]
k = input f16[2,64,4096]
v = input f16[2,4096,64]
a = matmul(q, k)
e = exp(a)
s = sum(e) dim=2
d = div(e, s)
o = matmul(d, v)
)";

constexpr std::string_view kFused = R"(graph 1
x = input bf16[16,4096]
w = input bf16[4096,4096] strides=[1,4096]
custom(x, w) grid=[32] steps=64 threads=tiles m=16 n=128
  loop:
  x_tile = load(0) grid=[-] loop=1/64
  w_tile = load(1) grid=[1/128] loop=0/64
  part = matmul(x_tile, w_tile)
  product = accumulate(part)
  squares = square(x_tile)
  square_sum = sum(squares) dim=1
  total = accumulate(square_sum)
  after:
  mean = scale(total) count=4096
  shifted = add_constant(mean) c=1e-06
  inverse = rsqrt(shifted)
  normed = mul(product, inverse)
  store(normed) -> y bf16[16,4096] grid=[1/128]
end
z = relu(y)
outputs y, z
)";

std::vector<KernelGraph> samples() {
  std::vector<KernelGraph> graphs = {graph_of(kAttention), graph_of(kFused)};
  for (const char* candidate :
       {"flash m=64 n=32 warps=4 stages=2 pack=1 head_swizzle=1", "split m=16 n=32 warps=4 stages=3 pack=4 splits=8",
        "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1"})
    graphs.push_back(
        attention_program(problem_of("b=2,hq=32,hk=8,sq=100,sk=4000,d=128,causal"), candidate_of(candidate)));
  return graphs;
}

TEST(GraphText, IsWrittenAsItIsRead) {
  EXPECT_EQ(to_text(graph_of(kAttention)), kAttention);
  EXPECT_EQ(to_text(graph_of(kFused)), kFused);
  EXPECT_EQ(graph_of(kAttention), softmax_attention(2, 256, 4096, 64));
}

// What the host device keeps of a kernel: text and back, and no two candidates with one graph.
TEST(GraphText, RoundTripsForTheWholeAttentionSpace) {
  std::set<std::string> texts;
  std::size_t graphs = 0;
  for (const char* shape : {"hq=32,hk=8,sq=512,d=128,causal", "b=3,hq=7,hk=1,sq=33,sk=2000,d=96,dtype=f16",
                            "hq=16,hk=2,sq=1,sk=5000,d=192,dv=128,align=2"}) {
    const Problem problem = problem_of(shape);
    for (const Ranked& ranked : enumerate(problem, *DeviceSpec::for_arch("sm_90a")).ranked) {
      const KernelGraph graph = attention_program(problem, ranked.candidate);
      ASSERT_FALSE(graph.nodes().empty()) << to_text(ranked.candidate);
      const std::string text = to_text(graph);
      ASSERT_EQ(graph_of(text), graph) << text;
      Candidate candidate;
      ASSERT_TRUE(parse(to_text(graph.nodes()[0].block->threads), &candidate).ok()) << text;
      ASSERT_EQ(candidate, ranked.candidate);
      texts.insert(text);
      ++graphs;
    }
  }
  EXPECT_GT(graphs, 100U);
  EXPECT_EQ(texts.size(), graphs);
}

TEST(GraphText, RoundTrips) {
  for (const KernelGraph& graph : samples()) {
    ASSERT_FALSE(graph.nodes().empty());
    EXPECT_EQ(graph_of(to_text(graph)), graph) << to_text(graph);
    KernelGraph read;
    const Status status = parse_json(to_json(graph), &read);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(read, graph) << to_json(graph);
  }
}

TEST(GraphText, ErrorsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "an empty text: expected 'graph 1'"},
      {"graph 2\n", "line 1: found 'graph 2': expected 'graph 1'"},
      {"graph 1\nx = input f8[2]\n", "line 2: unknown element type 'f8': expected f16, bf16 or f32"},
      {"graph 1\nx = input f16[2]\ny = frob(x)\n", "line 3: unknown operator 'frob': expected constant, matmul"},
      {"graph 1\ny = exp(x)\n", "line 2: no tensor 'x' stands before: expected one that does"},
      {"graph 1\nx = input f16[2]\ny = exp(x) c=2\n", "line 3: exp has no attribute 'c=2'"},
      {"graph 1\nx = input f16[2]\ncustom(x) grid=[2] steps=1\n  a = load(0) grid=[0/1]\n",
       "the text stops inside a custom operator: expected 'end'"},
      {"graph 1\nx = input f16[2]\ncustom(x) grid=[2] steps=1\n  a = load(1) grid=[0/1]\n",
       "line 4: operand='1': expected a whole number from 0 to 0"},
      {"graph 1\nx = input f16[2]\ncustom(x) grid=[2]\n", "line 3: a custom operator: expected custom("},
      {"graph 1\nx = input f16[2]\nx\n", "line 3: found 'x': expected NAME = ..."},
      {"graph 1\nx = input f16[2]\noutputs x\n", "line 3: input 'x' as output: expected a result"},
  };
  for (const auto& [text, words] : cases) {
    KernelGraph graph = softmax_attention(1, 2, 4, 2);
    const KernelGraph before = graph;
    const Status status = parse(text, &graph);
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_EQ(status.message().rfind(words, 0), 0u) << status.message();
    EXPECT_EQ(graph, before);
  }
}

// Whatever is cut out of a text, reading it ends with a graph or a message.
TEST(GraphText, SurvivesDamage) {
  const std::string text = to_text(samples()[3]), json = to_json(samples()[1]);
  int refused = 0;
  for (std::size_t at = 0; at + 1 < text.size(); at += 3) {
    KernelGraph graph;
    refused += parse(text.substr(0, at) + text.substr(at + 2), &graph).ok() ? 0 : 1;
  }
  for (std::size_t at = 0; at + 1 < json.size(); at += 3) {
    KernelGraph graph;
    refused += parse_json(json.substr(0, at) + json.substr(at + 2), &graph).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
}

TEST(GraphJson, RefusesWithWords) {
  KernelGraph graph;
  EXPECT_NE(parse_json("{", &graph).message().find("graph JSON: "), std::string::npos);
  EXPECT_NE(parse_json(R"({"version": 2})", &graph).message().find("expected 1"), std::string::npos);
  EXPECT_FALSE(parse_json(R"({"version": 1, "nodes": [{"op": "exp"}], "outputs": []})", &graph).ok());
  EXPECT_FALSE(parse_json(R"({"version": 1, "nodes": 3, "outputs": []})", &graph).ok());
}

TEST(GraphDot, DrawsEveryTensorOperatorAndBlock) {
  const std::string dot = to_dot(graph_of(kFused));
  for (const char* words :
       {"digraph mugraph {", "subgraph cluster_node0 {", "loop of 64 steps", "x_tile = load",
        "grid 0 cuts dim 1 by 128", "tensor0 -> node0_0", "node0_10 -> tensor2", "relu", "tensor3 [penwidth=2]"})
    EXPECT_NE(dot.find(words), std::string::npos) << words << "\n" << dot;
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '{'), std::count(dot.begin(), dot.end(), '}'));
}

}  // namespace
}  // namespace gqa
