// canonical_test.cc: what changes a graph's digest and what does not.
#include "search/graph/ir/canonical.h"

#include <algorithm>
#include <set>

#include "search/graph/attention/attention_program.h"
#include "tests/search/graph/graphs.h"

namespace gqa {
namespace {

Digest digest(std::string_view text) { return canonical(graph_of(text)).digest; }

TEST(Canonical, NamesAndOrderDoNotMatter) {
  const KernelGraph a = graph_of(R"(graph 1
x = input f16[4,8]
y = input f16[4,8]
bias = input f16[8]
d = sub(x, y)
e = exp(d)
b = add(e, bias)
r = relu(x)
)");
  const KernelGraph b = graph_of(R"(graph 1
offset = input f16[8]
second = input f16[4,8]
first = input f16[4,8]
rest = relu(first)
minus = sub(first, second)
power = exp(minus)
out = add(offset, power)
)");
  const Canonical ca = canonical(a), cb = canonical(b);
  EXPECT_EQ(ca.digest, cb.digest);
  // What is bound by canonical order is bound to the tensor of the same role.
  const std::vector<std::string> roles_a = {"first", "second", "offset"}, roles_b = {"offset", "second", "first"};
  for (std::size_t at = 0; at < 3; ++at)
    EXPECT_EQ(roles_a[static_cast<std::size_t>(ca.inputs[at])], roles_b[static_cast<std::size_t>(cb.inputs[at])]);
  const std::vector<std::string> outputs_a = {"b", "r"}, outputs_b = {"r", "b"};
  for (std::size_t at = 0; at < 2; ++at)
    EXPECT_EQ(outputs_a[static_cast<std::size_t>(ca.outputs[at])], outputs_b[static_cast<std::size_t>(cb.outputs[at])]);
}

TEST(Canonical, SymmetricInputsAreOneGraph) {
  const std::string head = "graph 1\na = input f16[4]\nb = input f16[4]\nc = input f16[4]\n";
  EXPECT_EQ(digest(head + "x = mul(a, b)\ny = add(x, c)\n"), digest(head + "x = mul(c, a)\ny = add(b, x)\n"));
  EXPECT_NE(digest(head + "x = mul(a, b)\ny = add(x, c)\n"), digest(head + "x = mul(a, b)\ny = add(x, b)\n"));
}

TEST(Canonical, EverythingElseMatters) {
  const std::vector<std::string> texts = {
      "graph 1\na = input f16[4,4]\nb = input f16[4,4]\nc = sub(a, b)\nd = mul(a, c)\n",
      "graph 1\na = input f16[4,4]\nb = input f16[4,4]\nc = sub(b, a)\nd = mul(c, b)\ne = exp(d)\n",
      "graph 1\na = input f16[4,4]\nb = input f16[4,4]\nc = sub(b, a)\nd = mul(a, c)\n",  // as the first, swapped
      "graph 1\na = input f16[4,4]\nb = input f16[4,4]\nc = sub(a, b)\nd = mul(b, c)\n",  // equals the one above
      "graph 1\na = input bf16[4,4]\nb = input bf16[4,4]\nc = sub(a, b)\nd = mul(a, c)\n",
      "graph 1\na = input f16[4,5]\nb = input f16[4,5]\nc = sub(a, b)\nd = mul(a, c)\n",
      "graph 1\na = input f16[4,4] strides=[8,1]\nb = input f16[4,4]\nc = sub(a, b)\nd = mul(a, c)\n",
      "graph 1\na = input f16[4,4]\nb = input f16[4,4] strides=[8,1]\nc = sub(a, b)\nd = mul(a, c)\n",
      "graph 1\na = input f16[4,4]\nb = input f16[4,4]\nc = matmul(a, b)\nd = mul(a, c)\n",
      "graph 1\na = input f16[4,4]\nb = input f16[4,4]\nc = matmul(a, b) tb=1\nd = mul(a, c)\n",
      "graph 1\na = input f16[4,4]\nb = input f16[4,4]\nc = sub(a, b)\nd = mul(a, c)\noutputs c, d\n",
      "graph 1\na = input f16[4,4]\nb = input f16[4,4]\nc = sub(a, b)\nd = scale(c) c=2\n",
      "graph 1\na = input f16[4,4]\nb = input f16[4,4]\nc = sub(a, b)\nd = scale(c) c=3\n",
  };
  std::set<Digest> digests;
  for (const std::string& text : texts) digests.insert(digest(text));
  EXPECT_EQ(digests.size(), texts.size() - 1);
  EXPECT_EQ(digest(texts[2]), digest(texts[3]));
}

TEST(Canonical, BlockGraphsCount) {
  const Problem problem = problem_of("hq=4,hk=2,sq=64,d=32,causal");
  std::set<Digest> digests = {canonical(attention_graph(problem)).digest};
  const std::vector<const char*> candidates = {
      "flash m=16 n=16 warps=1 stages=1 pack=1", "flash m=16 n=16 warps=1 stages=2 pack=1",
      "flash m=16 n=32 warps=1 stages=1 pack=1", "flash m=32 n=16 warps=1 stages=1 pack=2",
      "split m=16 n=16 warps=1 stages=1 pack=1 splits=2"};
  for (const char* candidate : candidates)
    digests.insert(canonical(attention_program(problem, candidate_of(candidate))).digest);
  EXPECT_EQ(digests.size(), candidates.size() + 1);
}

TEST(Canonical, OperandOrderOfACustomOperatorDoesNotMatter) {
  const std::string body =
      " grid=[2] steps=1\n  b = load(B) grid=[0/2]\n  a = load(A) grid=[0/2]\n  c = sub(a, b)\n"
      "  store(c) -> c f16[4] grid=[0/2]\nend\n";
  const auto text = [&](const std::string& operands, const std::string& a, const std::string& b) {
    std::string filled = "graph 1\nx = input f16[4]\ny = input f16[4]\nr = relu(x)\ncustom(" + operands + ")" + body;
    filled.replace(filled.find("load(A"), 6, "load(" + a);
    filled.replace(filled.find("load(B"), 6, "load(" + b);
    return filled;
  };
  EXPECT_EQ(digest(text("x, y", "0", "1")), digest(text("y, x", "1", "0")));
  EXPECT_NE(digest(text("x, y", "0", "1")), digest(text("x, y", "1", "0")));
}

TEST(Canonical, ManySymmetricInputsAreQuick) {
  KernelBuilder builder;
  int sum = builder.input({{2}});
  std::vector<int> parts;
  for (int at = 0; at < 12; ++at) parts.push_back(builder.add(Op::kRelu, {builder.input({{2}})}));
  for (const int part : parts) sum = builder.add(Op::kAdd, {sum, part});
  EXPECT_EQ(canonical(finish(builder)).inputs.size(), 13u);
}

}  // namespace
}  // namespace gqa
