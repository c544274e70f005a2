// sample_test.cc: a graph at some of its rows has there the numbers that the whole has, and what can be sampled is.
#include "search/graph/prove/sample.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/search/graph/graphs.h"

namespace gqa {
namespace {

using Values = std::vector<std::vector<double>>;

// The elements of a row-major tensor at the indices of each dimension; empty: all.
std::vector<double> gathered(const Dims& dims, const std::vector<Indices>& at, const std::vector<double>& values) {
  std::vector<double> found;
  for (std::int64_t index = 0; index < elements(dims); ++index) {
    std::int64_t rest = index;
    bool taken = true;
    for (std::size_t dim = dims.size(); dim-- > 0; rest /= dims[dim])
      taken = taken && (at[dim].empty() || std::count(at[dim].begin(), at[dim].end(), rest % dims[dim]) > 0);
    if (taken) found.push_back(values[static_cast<std::size_t>(index)]);
  }
  return found;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Evaluates the sample of about `most` multiply-adds, and the whole.
SampledGraph expect_same(const KernelGraph& graph, double most) {
  SampledGraph sampled = sample(graph, most);
  const Values inputs = random_inputs(graph, 3);
  Values few;
  for (std::size_t at = 0; at < inputs.size(); ++at)
    few.push_back(gathered(graph.spec(graph.inputs()[at]).dims, sampled.inputs[at], inputs[at]));
  for (const Rounding rounding : {Rounding::kNone, Rounding::kResults}) {
    EvaluateOptions options;
    options.rounding = rounding;
    options.places = sampled.places;
    Values expected, found;
    EXPECT_TRUE(evaluate(graph, inputs, &expected, rounding).ok());
    const Status status = evaluate(sampled.graph, few, &found, options);
    EXPECT_TRUE(status.ok()) << status.message();
    for (std::size_t output = 0; output < found.size(); ++output) {
      const auto whole = gathered(graph.spec(graph.outputs()[output]).dims, sampled.outputs[output], expected[output]);
      EXPECT_EQ(whole.size(), found[output].size());
      for (std::size_t at = 0; at < std::min(whole.size(), found[output].size()); ++at)
        EXPECT_TRUE(same(whole[at], found[output][at])) << to_text(graph) << output << " at " << at;
    }
  }
  return sampled;
}

struct Case {
  const char* name;
  const char* text;
  bool sampled;  // something of it
};

const Case kCases[] = {
    {"Attention", R"(graph 1
q = input f16[3,70,8]
k = input f16[3,90,8]
v = input f16[3,90,8]
s = matmul(q, k) tb=1
p = softmax(s) dim=2
o = matmul(p, v)
)",
     true},
    {"CausalAttention", R"(graph 1
q = input f16[2,3,70,8]
k = input f16[2,1,8,90]
v = input f16[2,1,90,8]
s = matmul(q, k)
c = scale(s) c=0.35
m = mask(c) left=40 right=0
p = softmax(m) dim=3
o = matmul(p, v)
)",
     true},
    {"MaskedOutput", "graph 1\nx = input f32[80,90]\nz = mask(x) left=11 right=5\n", true},
    {"AddedMask", R"(graph 1
q = input f16[2,70,8]
k = input f16[2,8,90]
b = input f32[70,90]
s = matmul(q, k)
t = add(s, b)
m = max(t) dim=2
d = sub(t, m)
e = exp(d)
z = sum(e) dim=2
w = div(e, z)
)",
     true},
    {"SwiGlu", R"(graph 1
x = input bf16[70,16]
w1 = input bf16[16,200]
w3 = input bf16[16,200]
a = matmul(x, w1)
g = silu(a)
b = matmul(x, w3)
y = mul(g, b)
)",
     true},
    {"NormedLinear", R"(graph 1
x = input f16[70,24]
g = input f16[24]
w = input f16[96,24]
n = rms_norm(x, g) eps=1e-05
y = matmul(n, w) tb=1
)",
     true},
    {"Norm", "graph 1\nx = input f16[70,90]\ng = input f16[90]\nn = rms_norm(x, g) eps=1e-05\n", true},
    {"TwoLayers", R"(graph 1
x = input f16[70,16]
a = input f16[16,80]
b = input f16[80,12]
h = matmul(x, a)
r = relu(h)
y = matmul(r, b)
)",
     true},
    {"ViewsAndConstants", R"(graph 1
x = input f32[90,5]
c = constant() c=0.5 dims=[5,90] type=f32
t = transpose(x) dims=[1,0]
y = add(t, c)
u = unsqueeze(y) dim=0
b = broadcast(u) dims=[4,5,90]
s = sum(b) dim=1
z = squeeze(s) dim=1
)",
     true},
    {"Gram", "graph 1\nx = input f16[90,6]\ny = matmul(x, x) tb=1\nz = exp(y)\n", true},
    {"SumOfAll", "graph 1\nx = input f32[40,50]\na = sum(x) dim=1\nb = sum(a) dim=0\n", false},
    {"NormedAlongBoth", "graph 1\nx = input f32[40,50]\na = softmax(x) dim=0\nb = softmax(a) dim=1\n", false},
};

class Samples : public testing::TestWithParam<Case> {};

TEST_P(Samples, HaveTheWholesNumbers) {
  const KernelGraph graph = graph_of(GetParam().text);
  const SampledGraph few = expect_same(graph, 1);
  EXPECT_EQ(few.whole, !GetParam().sampled);
  EXPECT_TRUE(expect_same(graph, 1e12).whole);
  expect_same(graph, 2e4);
}
INSTANTIATE_TEST_SUITE_P(Graphs, Samples, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<Case>& each) { return std::string(each.param.name); });

TEST(Sample, NeverLeavesFewerThanFourRows) {
  const SampledGraph few = sample(graph_of(kCases[0].text), 1);
  EXPECT_EQ(few.graph.spec(few.graph.outputs()[0]).dims, (Dims{3, 4, 4}));
  EXPECT_EQ(few.graph.spec(few.graph.inputs()[1]).dims, (Dims{3, 90, 8}));
}

TEST(Sample, ThinsOutBatchesBeforeRows) {
  const SampledGraph few = sample(softmax_attention(32, 2048, 2048, 128), 2e8);
  const Dims& dims = few.graph.spec(few.graph.outputs()[0]).dims;
  EXPECT_LE(dims[0], 8);
  EXPECT_GE(dims[1], 32);
  EXPECT_EQ(dims[2], 128);
}

TEST(Sample, IsTheSameEveryTime) {
  const KernelGraph graph = softmax_attention(32, 2048, 2048, 128);
  EXPECT_EQ(sample(graph, 2e8).outputs, sample(graph, 2e8).outputs);
}

TEST(SampleIndices, AreAsManyAscendingAndApart) {
  for (const std::int64_t size : {1, 2, 5, 63, 64, 65, 100, 1000, 4096}) {
    for (const std::int64_t count : {1, 2, 4, 7, 31, 100, 4096}) {
      const Indices found = sample_indices(size, count);
      EXPECT_EQ(found.size(), static_cast<std::size_t>(std::min(size, count))) << size << " " << count;
      EXPECT_EQ(std::set<std::int64_t>(found.begin(), found.end()).size(), found.size());
      EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
      EXPECT_GE(found.front(), 0);
      EXPECT_LT(found.back(), size);
      if (count > 1) {
        EXPECT_EQ(found.front(), 0);
        EXPECT_EQ(found.back(), size - 1);
      }
    }
  }
}

// A tile that went wrong is hit: each 16 of the first and of the last 64 rows, and each 64 rows between.
TEST(SampleIndices, HitEachTile) {
  for (const std::int64_t size : {1000, 4096, 4100}) {
    std::set<std::int64_t> tiles, blocks;
    for (const std::int64_t at : sample_indices(size, 2 * size / 64 + 24)) {
      tiles.insert(at / 16);
      blocks.insert(at / 64);
    }
    EXPECT_EQ(blocks.size(), static_cast<std::size_t>((size + 63) / 64));
    for (std::int64_t tile = 0; tile < 4; ++tile) {
      EXPECT_TRUE(tiles.count(tile)) << tile;
      const std::int64_t last = (size - 1) / 64 * 4 + tile;
      EXPECT_TRUE(last * 16 >= size || tiles.count(last)) << last;
    }
  }
}

// Patterns of hidden keys follow each other from row to row: no row's number modulo 8 is left out.
TEST(SampleIndices, KeepNoFixedDistance) {
  std::set<std::int64_t> residues;
  for (const std::int64_t at : sample_indices(4096, 64)) residues.insert(at % 8);
  EXPECT_EQ(residues.size(), 8U);
}

TEST(Evaluate, OnSeveralThreadsGivesTheSame) {
  const KernelGraph graph = softmax_attention(2, 200, 300, 16);
  const Values inputs = random_inputs(graph, 3, 0.3);
  EvaluateOptions options;
  std::int64_t loops = 0;
  options.workers.loop = [&](std::int64_t count, const std::function<void(std::int64_t)>& body) {
    ++loops;
    for (std::int64_t at = count; at-- > 0;) body(at);
  };
  Values found;
  ASSERT_TRUE(evaluate(graph, inputs, &found, options).ok());
  EXPECT_EQ(found, values_of(graph, inputs));
  EXPECT_GE(loops, 4);
}

TEST(Evaluate, EndsWhenToldTo) {
  const KernelGraph graph = softmax_attention(2, 200, 300, 16);
  int asked = 0;
  EvaluateOptions options;
  options.workers.stop = [&] { return ++asked > 3; };
  Values found;
  EXPECT_EQ(evaluate(graph, random_inputs(graph, 3), &found, options).code(), Code::kCancelled);
}

}  // namespace
}  // namespace gqa
