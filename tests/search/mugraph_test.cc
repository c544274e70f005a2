// mugraph_test.cc: the µGraph of a candidate: its shape, its text both ways, its hash.
#include "search/mugraph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "search/space.h"

namespace gqa {
namespace {

Problem problem_of(std::string_view text) {
  Problem problem;
  const Status status = parse(text, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return problem;
}

Candidate candidate_of(std::string_view text) {
  Candidate candidate;
  const Status status = parse(text, &candidate);
  EXPECT_TRUE(status.ok()) << status.message();
  return candidate;
}

MuGraph decode_graph() {
  return attention_mugraph(problem_of("b=2,hq=32,hk=8,sq=1,sk=4096,d=128"),
                           candidate_of("split m=16 n=32 warps=4 stages=3 pack=4 splits=16"));
}

TEST(MuGraph, FlashText) {
  const MuGraph graph = attention_mugraph(problem_of("hq=32,hk=8,sq=4000,d=128,causal"),
                                          candidate_of("flash m=128 n=64 warps=4 stages=2 pack=1 order=1"));
  EXPECT_EQ(to_text(graph), R"(mugraph 1
problem b=1,hq=32,hk=8,sq=4000,sk=4000,d=128,dtype=bf16,causal
candidate flash m=128 n=64 warps=4 stages=2 pack=1 splits=1 order=1
grid tiles=32 heads=32 batch=1 splits=1
loop steps=63
q = input() [tile=1 head=2 batch=0]
in loop: k = input() [head=2 batch=0 loop=1]
in loop: v = input() [head=2 batch=0 loop=1]
in loop: products = matmul(q, k)
in loop: scaled = scale(products)
in loop: scores = mask(scaled)
in loop: maximum = max(scores)
in loop: weights = exp(scores, maximum)
in loop: weight_sum = sum(weights)
in loop: total = accumulate(weight_sum, maximum)
in loop: weighted = matmul(weights, v)
in loop: rows = accumulate(weighted, maximum)
normalised = div(rows, total)
out = output(normalised) [tile=1 head=2 batch=0]
)");
}

TEST(MuGraph, WarpgroupText) {
  const MuGraph graph =
      attention_mugraph(problem_of("b=2,hq=32,hk=8,sq=300,sk=4000,d=128,dtype=f16"),
                        candidate_of("warpgroup m=192 n=80 warps=12 stages=2 pack=4 draw=1 out=1 order=12"));
  const std::string text = to_text(graph);
  EXPECT_EQ(text, R"(mugraph 1
problem b=2,hq=32,hk=8,sq=300,sk=4000,d=128,dtype=f16
candidate warpgroup m=192 n=80 warps=12 stages=2 pack=4 draw=1 out=1 splits=1 order=12
grid tiles=7 heads=8 batch=2 splits=1
loop steps=50
q = input() [tile=1 head=2 batch=0]
in loop: k = input() [head=2 batch=0 loop=1]
in loop: v = input() [head=2 batch=0 loop=1]
in loop: products = matmul(q, k)
in loop: scaled = scale(products)
in loop: maximum = max(scaled)
in loop: weights = exp(scaled, maximum)
in loop: weight_sum = sum(weights)
in loop: total = accumulate(weight_sum, maximum)
in loop: weighted = matmul(weights, v)
in loop: rows = accumulate(weighted, maximum)
normalised = div(rows, total)
out = output(normalised) [tile=1 head=2 batch=0]
)");
  MuGraph back;
  ASSERT_TRUE(parse(text, &back).ok());
  EXPECT_EQ(back, graph);
  EXPECT_EQ(hash(back), hash(graph));
}

TEST(MuGraph, SplitText) {
  EXPECT_EQ(to_text(decode_graph()), R"(mugraph 1
problem b=2,hq=32,hk=8,sq=1,sk=4096,d=128,dtype=bf16
candidate split m=16 n=32 warps=4 stages=3 pack=4 splits=16 order=0
grid tiles=1 heads=8 batch=2 splits=16
loop steps=2
q = input() [tile=1 head=2 batch=0]
in loop: k = input() [head=2 batch=0 split=1 loop=1]
in loop: v = input() [head=2 batch=0 split=1 loop=1]
in loop: products = matmul(q, k)
in loop: scaled = scale(products)
in loop: maximum = max(scaled)
in loop: weights = exp(scaled, maximum)
in loop: weight_sum = sum(weights)
in loop: total = accumulate(weight_sum, maximum)
in loop: weighted = matmul(weights, v)
in loop: rows = accumulate(weighted, maximum)
part_maximum = partial(maximum) [tile=1 head=2 batch=3 split=0]
part_total = partial(total) [tile=1 head=2 batch=3 split=0]
part_rows = partial(rows) [tile=1 head=2 batch=3 split=0]
merged_total = merge(part_total, part_maximum)
merged_rows = merge(part_rows, part_maximum)
normalised = div(merged_rows, merged_total)
out = output(normalised) [tile=1 head=2 batch=0]
)");
}

// Every candidate of several problems: text and back, and no two graphs with one hash.
TEST(MuGraph, TextRoundTripsForTheWholeSpace) {
  std::set<std::uint64_t> hashes;
  std::size_t graphs = 0;
  for (const char* shape : {"hq=32,hk=8,sq=512,d=128,causal", "b=3,hq=7,hk=1,sq=33,sk=2000,d=96,dtype=f16",
                            "hq=16,hk=2,sq=1,sk=5000,d=192,dv=128,align=2"}) {
    const Problem problem = problem_of(shape);
    const Space space = enumerate(problem, *DeviceSpec::for_arch("sm_90a"));
    for (const Ranked& ranked : space.ranked) {
      const MuGraph graph = attention_mugraph(problem, ranked.candidate);
      MuGraph back;
      const Status status = parse(to_text(graph), &back);
      ASSERT_TRUE(status.ok()) << status.message() << "\n" << to_text(graph);
      ASSERT_EQ(back, graph) << to_text(graph);
      ASSERT_EQ(hash(back), hash(graph));
      hashes.insert(hash(graph));
      ++graphs;
    }
  }
  EXPECT_GT(graphs, 100u);
  EXPECT_EQ(hashes.size(), graphs);
}

// Names are defined once, before their use; inputs and outputs are mapped; the loop's nodes stand together.
TEST(MuGraph, IsWellFormed) {
  for (const MuGraph& graph : {decode_graph(), attention_mugraph(problem_of("hq=2,sq=99,d=64,causal"), Candidate())}) {
    std::set<std::string> names;
    int leaves_and_enters = 0;
    bool in_loop = false;
    for (const Node& node : graph.block) {
      for (const std::string& input : node.inputs) EXPECT_TRUE(names.count(input)) << node.name << " of " << input;
      EXPECT_TRUE(names.insert(node.name).second) << node.name;
      EXPECT_EQ(std::count(known_ops().begin(), known_ops().end(), node.op), 1) << node.op;
      const bool at_edge = node.op == "input" || node.op == "output" || node.op == "partial";
      EXPECT_EQ(node.map == DimMap(), !at_edge) << node.name;
      leaves_and_enters += node.in_loop != in_loop;
      in_loop = node.in_loop;
    }
    EXPECT_EQ(leaves_and_enters, 2);
    EXPECT_EQ(graph.block.back().op, "output");
  }
}

TEST(MuGraph, HashIsTheSameInEveryProcess) { EXPECT_EQ(hash(decode_graph()), 13082095740503998660u); }

std::string error_after(std::string_view found, std::string_view replacement) {
  std::string text = to_text(decode_graph());
  const auto at = text.find(found);
  EXPECT_NE(at, std::string::npos) << found;
  text.replace(at, found.size(), replacement);
  MuGraph graph;
  const Status status = parse(text, &graph);
  EXPECT_FALSE(status.ok()) << text;
  EXPECT_EQ(graph, MuGraph());
  return status.message();
}

TEST(MuGraph, ParseErrorsNameLineAndExpectation) {
  EXPECT_EQ(error_after("mugraph 1", "mugraph 2"), "line 1: found 'mugraph 2', expected 'mugraph 1'");
  EXPECT_EQ(error_after("d=128", "d=129"),
            "line 2: head_dim is 129, expected one of 32, 64, 80, 96, 112, 128, 192, 256");
  EXPECT_EQ(error_after("candidate split", "candidate dense"),
            "line 3: unknown skeleton 'dense': expected 'flash', 'split' or 'warpgroup' first");
  EXPECT_EQ(error_after("heads=8 ", ""), "line 4: found 'batch=2', expected heads=NUMBER");
  EXPECT_EQ(error_after("steps=2", "steps=2 more"), "line 5: found 'more', expected the end of the line");
  EXPECT_EQ(error_after("steps=2", "steps=0"),
            "line 5: steps='0': expected a whole number from 1 to 9223372036854775807");
  EXPECT_EQ(error_after("matmul(q, k)", "matmul(q, z)"), "line 9: input 'z' is not an earlier node");
  EXPECT_EQ(error_after("matmul(q, k)", "matmul(q,k)"), "line 9: found ',' without a space after it, expected ', '");
  EXPECT_EQ(
      error_after("products = matmul", "products = conv"),
      "line 9: unknown op 'conv': expected one of input, matmul, scale, mask, max, exp, sum, accumulate, partial, "
      "merge, div, output");
  EXPECT_EQ(error_after("v = input", "k = input"), "line 8: node 'k' is defined twice");
  EXPECT_EQ(error_after("v = input", "V = input"), "line 8: 'V' is no name: expected a-z, 0-9 and _, no digit first");
  EXPECT_EQ(error_after("[tile=1 head=2 batch=0]", "[head=2 tile=1]"),
            "line 6: found 'tile=1' in a map, expected tile=, head=, batch=, split=, loop= in this order");
  EXPECT_EQ(error_after("[tile=1 head=2 batch=0]", "[tile=4]"),
            "line 6: tile='4': expected a whole number from 0 to 3");
  EXPECT_EQ(error_after("[tile=1 head=2 batch=0]", "tile=1"),
            "line 6: found ' tile=1' after the inputs, expected [MAP]");
  EXPECT_EQ(error_after("q = input()", "q input"),
            "line 6: found 'q input [tile=1 head=2 batch=0]', expected NAME = OP(INPUTS) [MAP]");
}

TEST(MuGraph, TextThatEndsEarly) {
  MuGraph graph;
  EXPECT_EQ(parse("", &graph).message(),
            "the text ends after 0 lines, expected 'mugraph 1', problem, candidate, grid and loop before the nodes");
  const std::string text = to_text(decode_graph());
  EXPECT_EQ(parse(text.substr(0, text.find("q = ")), &graph).message(), "the graph has no node, expected at least one");
}

}  // namespace
}  // namespace gqa
