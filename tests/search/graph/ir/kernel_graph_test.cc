// kernel_graph_test.cc: graphs of operators: shapes, types, names, outputs, and what is refused with which words.
#include "search/graph/ir/kernel_graph.h"

#include "tests/search/graph/graphs.h"

namespace gqa {
namespace {

struct Case {
  const char* op;
  std::vector<Dims> operands;
  std::string_view attributes;
  Dims result;  // empty: refused
};

Status add(const Case& test, Dims* result) {
  KernelGraph graph;
  std::vector<int> inputs;
  for (const Dims& dims : test.operands) {
    const Status status = graph.add_input({dims}, &inputs.emplace_back());
    EXPECT_TRUE(status.ok()) << status.message();
  }
  const Op op = find_op(test.op)->op;
  Attributes attributes;
  if (!test.attributes.empty()) {
    const Status status = parse_attribute(op, test.attributes, &attributes);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  int tensor = -1;
  Status status = graph.add(op, inputs, attributes, &tensor);
  if (status.ok()) *result = graph.spec(tensor).dims;
  return status;
}

TEST(KernelGraph, ShapeRules) {
  const std::vector<Case> cases = {
      {"matmul", {{2, 256, 64}, {2, 64, 4096}}, "", {2, 256, 4096}},
      {"matmul", {{2, 256, 64}, {2, 4096, 64}}, "tb=1", {2, 256, 4096}},
      {"matmul", {{64, 256}, {64, 8}}, "ta=1", {256, 8}},
      {"matmul", {{2, 4, 8, 3}, {2, 1, 3, 5}}, "", {2, 4, 8, 5}},
      {"matmul", {{4, 8, 3}, {3, 5}}, "", {4, 8, 5}},
      {"matmul", {{2, 256, 64}, {2, 32, 4096}}, "", {}},
      {"matmul", {{2, 4, 8}, {3, 8, 4}}, "", {}},
      {"matmul", {{8}, {8, 4}}, "", {}},
      {"add", {{2, 3}, {2, 1}}, "", {2, 3}},
      {"div", {{2, 256, 4096}, {2, 256, 1}}, "", {2, 256, 4096}},
      {"mul", {{3}, {2, 1}}, "", {2, 3}},
      {"sub", {{2, 3}, {3, 2}}, "", {}},
      {"sum", {{2, 256, 4096}}, "dim=2", {2, 256, 1}},
      {"max", {{2, 3}}, "dim=-2", {1, 3}},
      {"mean", {{2, 3}}, "dim=2", {}},
      {"softmax", {{2, 3}}, "dim=-1", {2, 3}},
      {"rms_norm", {{4, 8}}, "eps=1e-6", {4, 8}},
      {"rms_norm", {{4, 8}, {8}}, "eps=1e-6", {4, 8}},
      {"rms_norm", {{4, 8}, {4}}, "eps=1e-6", {}},
      {"rms_norm", {{8}, {4, 8}}, "eps=1e-6", {}},
      {"mask", {{4, 8}}, "right=0", {4, 8}},
      {"mask", {{8}}, "right=0", {}},
      {"transpose", {{2, 3, 4}}, "dims=[2,0,1]", {4, 2, 3}},
      {"transpose", {{2, 3, 4}}, "dims=[2,0]", {}},
      {"broadcast", {{2, 1}}, "dims=[5,2,3]", {5, 2, 3}},
      {"broadcast", {{2, 3}}, "dims=[2,1]", {}},
      {"squeeze", {{2, 1, 3}}, "dim=1", {2, 3}},
      {"squeeze", {{2, 3}}, "dim=1", {}},
      {"unsqueeze", {{2, 3}}, "dim=-1", {2, 3, 1}},
      {"constant", {}, "dims=[2,2]", {2, 2}},
      {"exp", {{2}, {2}}, "", {}},
  };
  for (const Case& test : cases) {
    Dims result;
    const Status status = add(test, &result);
    EXPECT_EQ(status.ok(), !test.result.empty()) << test.op << ": " << status.message();
    EXPECT_EQ(result, test.result) << test.op;
  }
}

TEST(KernelGraph, ErrorsNameWhatWasGivenAndExpected) {
  Dims result;
  EXPECT_EQ(add({"matmul", {{2, 256, 64}, {2, 32, 4096}}, "", {}}, &result).message(),
            "matmul of [2,256,64] and [2,32,4096]: the inner dimensions are 64 and 32: expected equal sizes");
  EXPECT_EQ(add({"sum", {{2, 3}}, "dim=2", {}}, &result).message(),
            "sum of [2,3]: expected a dimension from -2 to 1, not 2");
  EXPECT_EQ(add({"exp", {{2}, {2}}, "", {}}, &result).message(), "exp of 2 operands: expected 1");
}

TEST(KernelGraph, TypesMeet) {
  KernelBuilder graph;
  const int half = graph.input({{4}, ElementType::kF16}), single = graph.input({{4}, ElementType::kF32});
  graph.add(Op::kAdd, {half, single}, {}, "mixed");
  graph.add(Op::kAdd, {half, half}, {}, "halves");
  const KernelGraph made = finish(graph);
  EXPECT_EQ(made.spec(made.find("mixed")).type, ElementType::kF32);
  EXPECT_EQ(made.spec(made.find("halves")).type, ElementType::kF16);
  const int brain = graph.input({{4}, ElementType::kBF16});
  graph.add(Op::kAdd, {half, brain});
  KernelGraph none;
  EXPECT_EQ(graph.finish(&none).code(), Code::kDtype);
}

TEST(KernelGraph, OutputsAreTheUnreadResultsUnlessMarked) {
  KernelGraph graph = softmax_attention(1, 4, 8, 2);
  EXPECT_EQ(graph.outputs(), std::vector<int>{graph.find("o")});
  ASSERT_TRUE(graph.mark_output(graph.find("s")).ok());
  EXPECT_EQ(graph.outputs(), std::vector<int>{graph.find("s")});
  EXPECT_FALSE(graph.mark_output(graph.find("s")).ok());
  EXPECT_FALSE(graph.mark_output(graph.find("q")).ok());
  EXPECT_FALSE(graph.mark_output(99).ok());
}

TEST(KernelGraph, RefusesAndStaysAsItWas) {
  KernelGraph graph = softmax_attention(1, 4, 8, 2);
  const KernelGraph before = graph;
  int tensor = -1;
  EXPECT_EQ(graph.add_input({{0, 2}}, &tensor).code(), Code::kSize);
  EXPECT_EQ(graph.add_input({{}}, &tensor).code(), Code::kRank);
  EXPECT_EQ(graph.add_input({{1 << 30, 1 << 30}}, &tensor).code(), Code::kSize);
  EXPECT_EQ(graph.add_input({{2, 2}, ElementType::kF16, {1}}, &tensor).code(), Code::kStride);
  EXPECT_FALSE(graph.add_input({{2}}, &tensor, "q").ok()) << "a taken name";
  EXPECT_FALSE(graph.add_input({{2}}, &tensor, "2nd").ok());
  EXPECT_FALSE(graph.add(Op::kExp, {8}, {}, &tensor).ok()) << "a tensor that is made later: a cycle";
  EXPECT_FALSE(graph.add(Op::kRunningMax, {0}, {}, &tensor).ok()) << "a block operator";
  EXPECT_EQ(graph, before);
}

TEST(KernelGraph, StridesThatSayNothingAreDropped) {
  KernelGraph graph;
  int a = -1, b = -1;
  ASSERT_TRUE(graph.add_input({{2, 1, 3}, ElementType::kF16, {3, 77, 1}}, &a).ok());
  ASSERT_TRUE(graph.add_input({{2, 1, 3}, ElementType::kF16, {6, 3, 1}}, &b).ok());
  EXPECT_TRUE(graph.spec(a).strides.empty());
  EXPECT_EQ(graph.spec(b).strides, (Dims{6, 3, 1}));
}

}  // namespace
}  // namespace gqa
