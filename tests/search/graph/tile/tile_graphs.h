// tile_graphs.h: what tests of tile kernels begin with: graphs that fuse, and a program taken apart into kernels.
// Owns: texts of users' graphs and of block graphs; kernels_of().
// Never: asserts more than that what it made is valid.
// Threads: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "search/graph/tile/tile_plan.h"
#include "tests/search/graph/enumerate/search_support.h"

namespace gqa {

struct TileKernel {
  KernelGraph graph;                 // of one operator
  std::vector<int> inputs, outputs;  // the program's tensors
};

// The kernel of one operator, under a thread plan where one is given.
inline TileKernel kernel_of(const KernelGraph& program, const KernelNode& node, const ThreadPlan& threads) {
  TileKernel kernel;
  std::map<int, int> known;
  std::vector<int> operands, results(1);
  for (const int input : node.inputs) {
    const auto [at, fresh] = known.emplace(input, -1);
    if (fresh) {
      EXPECT_TRUE(kernel.graph.add_input(program.spec(input), &at->second, program.tensor(input).name).ok());
      kernel.inputs.push_back(input);
    }
    operands.push_back(at->second);
  }
  Status status;
  if (node.block) {
    BlockGraph block = *node.block;
    block.threads = threads;
    status = kernel.graph.add_custom(operands, block, &results);
  } else {
    status = kernel.graph.add(node.op, operands, node.attributes, &results[0]);
  }
  EXPECT_TRUE(status.ok()) << status.message();
  for (const int result : results) EXPECT_TRUE(kernel.graph.mark_output(result).ok());
  kernel.outputs = node.outputs;
  return kernel;
}

// In launch order, each under its most promising plan for the device; empty where one of them has none.
inline std::vector<TileKernel> kernels_of(const KernelGraph& program, const DeviceSpec& device) {
  std::vector<TileKernel> kernels;
  for (const KernelNode& node : program.nodes()) {
    const std::vector<ThreadPlan> plans = tile_plans(program, node, device);
    if (plans.empty()) return {};
    kernels.push_back(kernel_of(program, node, plans[0]));
  }
  return kernels;
}

inline KernelGraph one_kernel(std::string_view text, const ThreadPlan& threads) {
  const KernelGraph graph = graph_of(text);
  return kernel_of(graph, graph.nodes()[0], threads).graph;
}

inline ThreadPlan tile_threads(std::int64_t warps, std::int64_t stages) {
  return {"tile", std::nullopt, {{"warps", warps}, {"stages", stages}}};
}

namespace tiles {

// silu(x a) * (x b), along k in steps.
inline const std::string kGated = R"(graph 1
x = input bf16[8,4096]
a = input bf16[4096,1024]
b = input bf16[4096,1024]
custom(x, a, b) grid=[32] steps=32
  loop:
  xt = load(0) grid=[-] loop=1/128
  at = load(1) grid=[1/32] loop=0/128
  bt = load(2) grid=[1/32] loop=0/128
  p = matmul(xt, at)
  q = matmul(xt, bt)
  ps = accumulate(p)
  qs = accumulate(q)
  after:
  s = silu(ps)
  y = mul(s, qs)
  store(y) -> o bf16[8,1024] grid=[1/32]
end
)";

// rms_norm(x) g w with the sum of squares gathered as the product goes; ragged rows, columns and steps.
inline const std::string kNormed = R"(graph 1
x = input bf16[5,72]
g = input bf16[72]
w = input bf16[72,44]
custom(x, g, w) grid=[3] steps=3
  loop:
  xt = load(0) grid=[-] loop=1/32
  gt = load(1) grid=[-] loop=0/32
  wt = load(2) grid=[1/16] loop=0/32
  sq = square(xt)
  ss = sum(sq) dim=1
  total = accumulate(ss)
  xg = mul(xt, gt)
  p = matmul(xg, wt)
  ps = accumulate(p)
  after:
  m = scale(total) count=72
  e = add_constant(m) c=1e-05
  r = rsqrt(e)
  y = mul(ps, r)
  store(y) -> o bf16[5,44] grid=[1/16]
end
)";

// The same with the norm taken before the loop, of rows that are read whole there and cut in it.
inline const std::string kNormedFirst = R"(graph 1
x = input f16[5,72]
g = input f16[72]
w = input f16[72,44]
custom(x, g, w) grid=[3] steps=3
  before:
  xw = load(0) grid=[-]
  sq = square(xw)
  ss = sum(sq) dim=1
  m = scale(ss) count=72
  e = add_constant(m) c=1e-05
  r = rsqrt(e)
  loop:
  xt = load(0) grid=[-] loop=1/32
  gt = load(1) grid=[-] loop=0/32
  wt = load(2) grid=[1/16] loop=0/32
  n = mul(xt, r)
  ng = mul(n, gt)
  p = matmul(ng, wt)
  ps = accumulate(p)
  after:
  store(ps) -> o f16[5,44] grid=[1/16]
end
)";

// The same with all of the dimension in one step: the normed rows take the place of the rows.
inline const std::string kNormedWhole = R"(graph 1
x = input f16[7,96]
g = input f16[96]
w = input f16[96,44]
custom(x, g, w) grid=[3] steps=1
  before:
  xt = load(0) grid=[-]
  gt = load(1) grid=[-]
  n = rms_norm(xt, gt) eps=1e-05
  wt = load(2) grid=[1/16]
  y = matmul(n, wt)
  store(y) -> o f16[7,44] grid=[1/16]
end
)";

// x w + (x a) b in one accumulator.
inline const std::string kLora = R"(graph 1
x = input bf16[9,112]
w = input bf16[112,56]
a = input bf16[112,16]
b = input bf16[16,56]
custom(x, w, a, b) grid=[2] steps=4
  before:
  bt = load(3) grid=[1/32]
  loop:
  xt = load(0) grid=[-] loop=1/32
  wt = load(1) grid=[1/32] loop=0/32
  at = load(2) grid=[-] loop=0/32
  p = matmul(xt, wt)
  q = matmul(xt, at)
  r = matmul(q, bt)
  s = add(p, r)
  y = accumulate(s)
  after:
  store(y) -> o bf16[9,56] grid=[1/32]
end
)";

// A kernel of plain multiplications, an addition after the loop, maxima and sums over the steps.
inline const std::string kSingle = R"(graph 1
x = input f32[2,5,40]
w = input f32[40,24]
c = input f32[24]
custom(x, w, c) grid=[2,2] steps=3
  loop:
  xt = load(0) grid=[0/1,-] loop=2/16
  wt = load(1) grid=[-,1/16] loop=0/16
  p = matmul(xt, wt)
  ps = accumulate(p)
  big = accumulate_max(p)
  top = max(xt) dim=2
  tops = accumulate_max(top)
  after:
  ct = load(2) grid=[-,0/16]
  y = add(ps, ct)
  z = sub(y, tops)
  u = mul(z, big)
  v = add(u, ct)
  store(v) -> o f32[2,5,24] grid=[0/1,2/16]
end
)";

// Keys whose rows are columns in memory, a running maximum that nothing finishes, queries of two batches.
inline const std::string kTransposed = R"(graph 1
q = input f16[2,20,32]
k = input f16[2,37,32] strides=[1184,1,37]
v = input f16[37,24]
custom(q, k, v) grid=[2] steps=3
  before:
  qt = load(0) grid=[1/16]
  loop:
  kt = load(1) grid=[-] loop=1/16
  vt = load(2) grid=[-] loop=0/16
  a = matmul(qt, kt) tb=1
  s = mask(a) left=9 right=0
  top = max(s) dim=2
  same = scale(top)
  m = running_max(same)
  z = sub_max(s, m)
  p = exp(z)
  ps = sum(p) dim=2
  l = accumulate_rescaled(ps, m)
  pv = matmul(p, vt)
  r = accumulate_rescaled(pv, m)
  after:
  d = normalize(r, l)
  t = transpose(d) dims=[1,0,2]
  store(t) -> o f16[20,2,24] grid=[0/16]
end
)";

// Tiles stored in each step.
inline const std::string kEachStep = R"(graph 1
x = input f16[6,50]
b = input f16[6,1]
custom(x, b) grid=[2] steps=4
  loop:
  xt = load(0) grid=[0/3] loop=1/16
  bt = load(1) grid=[0/3]
  y = add(xt, bt)
  e = tanh(y)
  store(e) -> o f16[6,50] grid=[0/3] loop=1/16
end
)";

// Whole rows: softmax and mean, stretched operands, a transposed result.
inline const std::string kRows = R"(graph 1
x = input bf16[3,7,33]
b = input bf16[33]
custom(x, b) grid=[3] steps=1
  before:
  xt = load(0) grid=[0/1]
  bt = load(1) grid=[-]
  s = add(xt, bt)
  p = softmax(s) dim=2
  m = mean(p) dim=1
  d = sub(p, m)
  t = transpose(d) dims=[0,2,1]
  store(t) -> o bf16[3,33,7] grid=[0/1]
end
)";

inline const std::string* const kAll[] = {&kGated,  &kNormed,     &kNormedFirst, &kNormedWhole, &kLora,
                                          &kSingle, &kTransposed, &kEachStep,    &kRows};

// Users' graphs, small and ragged: what the search makes of them is tried.
inline const std::string kUsers[] = {
    "graph 1\nx = input bf16[8,200]\ng = input bf16[200]\nw = input bf16[200,72]\nn = rms_norm(x, g) eps=1e-05\no = "
    "matmul(n, w)\n",
    "graph 1\nx = input bf16[3,160]\na = input bf16[160,88]\nb = input bf16[160,88]\np = matmul(x, a)\nq = matmul(x, "
    "b)\ns = silu(p)\no = mul(s, q)\n",
    "graph 1\nx = input f16[5,160]\nw = input f16[160,88]\na = input f16[160,16]\nb = input f16[16,88]\np = matmul(x, "
    "w)\nq = matmul(x, a)\nr = matmul(q, b)\no = add(p, r)\n",
    "graph 1\nq = input bf16[2,20,32]\nk = input bf16[2,70,32]\nv = input bf16[2,70,24]\nqn = rms_norm(q) "
    "eps=1e-05\nkn = rms_norm(k) eps=1e-05\ns = matmul(qn, kn) tb=1\nm = mask(s) right=0\np = softmax(m) dim=2\no = "
    "matmul(p, v)\n",
    "graph 1\nq = input f16[2,33,16]\nk = input f16[2,16,90]\nv = input f16[2,90,16]\na = matmul(q, k)\nd = softmax(a) "
    "dim=2\no = matmul(d, v)\n",
};

}  // namespace tiles
}  // namespace gqa
