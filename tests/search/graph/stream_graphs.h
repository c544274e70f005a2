// stream_graphs.h: block graphs whose loops can be streamed (search/graph/tile/tile_stream.h), small and ragged where
// they may be.
// Owns: their text, and the thread plan.
// Never: runs them.
// Threads: constants.
#pragma once

#include <string>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

inline ThreadPlan stream_threads(std::int64_t warps, std::int64_t ahead, std::int64_t splits = 1) {
  ThreadPlan plan = {"tile", std::nullopt, {{"warps", warps}, {"stream", ahead}}};
  if (splits > 1) plan.parameters.emplace_back("splits", splits);
  return plan;
}

namespace streams {

// RMSNorm and a product: rows scaled and squared in registers, a short last tile of columns.
inline const std::string kNormed = R"(graph 1
x = input bf16[5,192]
g = input bf16[192]
w = input bf16[192,88]
custom(x, g, w) grid=[2] steps=6
  loop:
  xt = load(0) grid=[-] loop=1/32
  gt = load(1) grid=[-] loop=0/32
  wt = load(2) grid=[1/64] loop=0/32
  sq = square(xt)
  ss = sum(sq) dim=1
  part = scale(ss) count=192
  mean = accumulate(part)
  xg = mul(xt, gt)
  p = matmul(xg, wt)
  ps = accumulate(p)
  after:
  e = add_constant(mean) c=1e-05
  r = rsqrt(e)
  y = mul(ps, r)
  store(y) -> o bf16[5,88] grid=[1/64]
end
)";

// The same with the norm taken before the loop, of rows that are read whole there and cut in it.
inline const std::string kNormedFirst = R"(graph 1
x = input f16[5,192]
g = input f16[192]
w = input f16[192,88]
custom(x, g, w) grid=[2] steps=6
  before:
  xw = load(0) grid=[-]
  sq = square(xw)
  ss = sum(sq) dim=1
  m = scale(ss) count=192
  e = add_constant(m) c=1e-05
  r = rsqrt(e)
  loop:
  xt = load(0) grid=[-] loop=1/32
  gt = load(1) grid=[-] loop=0/32
  wt = load(2) grid=[1/64] loop=0/32
  n = mul(xt, r)
  ng = mul(n, gt)
  p = matmul(ng, wt)
  ps = accumulate(p)
  after:
  store(ps) -> o f16[5,88] grid=[1/64]
end
)";

// Two wide products: two groups of warps.
inline const std::string kGated = R"(graph 1
x = input f16[16,256]
u = input f16[256,128]
w = input f16[256,128]
custom(x, u, w) grid=[2] steps=8
  loop:
  xt = load(0) grid=[-] loop=1/32
  ut = load(1) grid=[1/64] loop=0/32
  wt = load(2) grid=[1/64] loop=0/32
  a = matmul(xt, ut)
  as = accumulate(a)
  b = matmul(xt, wt)
  bs = accumulate(b)
  after:
  s = silu(as)
  y = mul(s, bs)
  store(y) -> o f16[16,128] grid=[1/64]
end
)";

// A wide and a narrow product in one warp, and one more of their sums after the loop.
inline const std::string kLora = R"(graph 1
x = input f16[9,96]
w = input f16[96,96]
a = input f16[96,16]
b = input f16[16,96]
custom(x, w, a, b) grid=[3] steps=3
  before:
  bt = load(3) grid=[1/32]
  loop:
  xt = load(0) grid=[-] loop=1/32
  wt = load(1) grid=[1/32] loop=0/32
  at = load(2) grid=[-] loop=0/32
  p = matmul(xt, wt)
  ps = accumulate(p)
  q = matmul(xt, at)
  qs = accumulate(q)
  after:
  r = matmul(qs, bt)
  y = add(ps, r)
  store(y) -> o f16[9,96] grid=[1/32]
end
)";

// Rows of two dimensions, not packed, cut by the grid with a short last share; a weight that lies transposed, its last
// tile short by no whole number of lanes; an operand that each row has one element of.
inline const std::string kTransposed = R"(graph 1
x = input bf16[5,3,128] strides=[400,136,1]
s = input bf16[5,3,1]
w = input bf16[45,128]
custom(x, s, w) grid=[2,2] steps=4
  before:
  st = load(1) grid=[0/3,-]
  loop:
  xt = load(0) grid=[0/3,-] loop=2/32
  wt = load(2) grid=[-,0/32] loop=1/32
  xs = mul(xt, st)
  t = tanh(xs)
  p = matmul(t, wt) tb=1
  ps = accumulate(p)
  after:
  store(ps) -> o bf16[5,3,45] grid=[0/3,2/32]
end
)";

// More rows than an instruction has, two products that add up, the loop's dimension divided among blocks too.
inline const std::string kParts = R"(graph 1
x = input bf16[20,256]
u = input bf16[256,32]
z = input bf16[20,256]
w = input bf16[256,32]
custom(x, u, z, w) grid=[2,2] steps=4
  loop:
  xt = load(0) grid=[-,1/128] loop=1/32
  ut = load(1) grid=[1/16,0/128] loop=0/32
  zt = load(2) grid=[-,1/128] loop=1/32
  wt = load(3) grid=[1/16,0/128] loop=0/32
  p = matmul(xt, ut)
  q = matmul(zt, wt)
  s = add(p, q)
  ps = accumulate(s)
  after:
  part = unsqueeze(ps) dim=0
  store(part) -> o f32[2,20,32] grid=[2/16,0/1]
end
)";

// Eight columns: a lane has one.
inline const std::string kNarrow = R"(graph 1
x = input f16[1,128]
w = input f16[128,24]
custom(x, w) grid=[3] steps=4
  loop:
  xt = load(0) grid=[-] loop=1/32
  wt = load(1) grid=[1/8] loop=0/32
  p = matmul(xt, wt)
  ps = accumulate(p)
  after:
  y = gelu(ps)
  store(y) -> o f16[1,24] grid=[1/8]
end
)";

// More columns than a warp has registers for: two groups of warps, the second with a short last tile.
inline const std::string kWide = R"(graph 1
x = input bf16[7,128]
w = input bf16[128,208]
custom(x, w) grid=[2] steps=4
  loop:
  xt = load(0) grid=[-] loop=1/32
  wt = load(1) grid=[1/128] loop=0/32
  p = matmul(xt, wt)
  ps = accumulate(p)
  after:
  y = relu(ps)
  store(y) -> o bf16[7,208] grid=[1/128]
end
)";

inline const std::string* const kAll[] = {&kNormed,     &kNormedFirst, &kGated,  &kLora,
                                          &kTransposed, &kParts,       &kNarrow, &kWide};
// Those that have registers for two pieces on their way.
inline const std::string* const kSlender[] = {&kLora, &kTransposed, &kNarrow};

}  // namespace streams
}  // namespace gqa
