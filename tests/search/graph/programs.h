// programs.h: the programs that equivalence is tried on: for each user graph the ways to run it, as text.
// Owns: texts; mutants are made of them by replacing words.
// Never: asserts.
// Threads: constants.
#pragma once

#include <string>

namespace gqa::programs {

inline const std::string kInputs = R"(graph 1
q = input f16[2,256,64]
k = input f16[2,64,4096]
v = input f16[2,4096,64]
)";

inline const std::string kNaive = kInputs + R"(a = matmul(q, k)
e = exp(a)
s = sum(e) dim=2
d = div(e, s)
o = matmul(d, v)
)";

inline const std::string kStable = kInputs + R"(a = matmul(q, k)
m = max(a) dim=2
z = sub(a, m)
e = exp(z)
s = sum(e) dim=2
d = div(e, s)
o = matmul(d, v)
)";

inline const std::string kSoftmax = kInputs + R"(a = matmul(q, k)
d = softmax(a) dim=2
o = matmul(d, v)
)";

inline const std::string kDivisionLast = kInputs + R"(a = matmul(q, k)
e = exp(a)
s = sum(e) dim=2
w = matmul(e, v)
o = div(w, s)
)";

inline const std::string kFlash = kInputs + R"(custom(q, k, v) grid=[4,2] steps=64
  before:
  qt = load(0) grid=[1/64,0/1]
  loop:
  kt = load(1) grid=[-,0/1] loop=2/64
  vt = load(2) grid=[-,0/1] loop=1/64
  s = matmul(qt, kt)
  top = max(s) dim=2
  m = running_max(top)
  z = sub_max(s, m)
  p = exp(z)
  ps = sum(p) dim=2
  l = accumulate_rescaled(ps, m)
  pv = matmul(p, vt)
  r = accumulate_rescaled(pv, m)
  after:
  d = div(r, l)
  store(d) -> o f16[2,256,64] grid=[1/64,0/1]
end
)";

inline const std::string kSplit = kInputs + R"(custom(q, k, v) grid=[4,2,8] steps=8
  before:
  qt = load(0) grid=[1/64,0/1,-]
  loop:
  kt = load(1) grid=[-,0/1,2/512] loop=2/64
  vt = load(2) grid=[-,0/1,1/512] loop=1/64
  s = matmul(qt, kt)
  top = max(s) dim=2
  m = running_max(top)
  z = sub_max(s, m)
  p = exp(z)
  ps = sum(p) dim=2
  l = accumulate_rescaled(ps, m)
  pv = matmul(p, vt)
  r = accumulate_rescaled(pv, m)
  after:
  mu = unsqueeze(m) dim=0
  lu = unsqueeze(l) dim=0
  ru = unsqueeze(r) dim=0
  store(mu) -> pm f32[8,2,256,1] grid=[2/64,1/1,0/1]
  store(lu) -> pl f32[8,2,256,1] grid=[2/64,1/1,0/1]
  store(ru) -> pr f32[8,2,256,64] grid=[2/64,1/1,0/1]
end
custom(pm, pl, pr) grid=[4,2] steps=1
  before:
  ms = load(0) grid=[2/64,1/1]
  ls = load(1) grid=[2/64,1/1]
  rs = load(2) grid=[2/64,1/1]
  m = max(ms) dim=0
  z = sub_max(ms, m)
  w = exp(z)
  lw = mul(ls, w)
  rw = mul(rs, w)
  lt = sum(lw) dim=0
  rt = sum(rw) dim=0
  d = div(rt, lt)
  out = squeeze(d) dim=0
  store(out) -> o f16[2,256,64] grid=[1/64,0/1]
end
)";

// Scores scaled, masked; odd sizes.
inline const std::string kMaskedInputs = R"(graph 1
q = input bf16[3,100,64]
k = input bf16[3,300,64]
v = input bf16[3,300,64]
)";

inline const std::string kMasked = kMaskedInputs + R"(a = matmul(q, k) tb=1
b = scale(a) c=0.125
c = mask(b) left=100 right=0
d = softmax(c) dim=-1
o = matmul(d, v)
)";

inline const std::string kMaskedFlash = kMaskedInputs + R"(custom(q, k, v) grid=[2,3] steps=5
  before:
  qt = load(0) grid=[1/64,0/1]
  qs = scale(qt) c=0.125
  loop:
  kt = load(1) grid=[-,0/1] loop=1/64
  vt = load(2) grid=[-,0/1] loop=1/64
  a = matmul(qs, kt) tb=1
  s = mask(a) left=100 right=0
  top = max(s) dim=2
  m = running_max(top)
  z = sub_max(s, m)
  p = exp(z)
  ps = sum(p) dim=2
  l = accumulate_rescaled(ps, m)
  pv = matmul(p, vt)
  r = accumulate_rescaled(pv, m)
  after:
  d = normalize(r, l)
  store(d) -> o bf16[3,100,64] grid=[1/64,0/1]
end
)";

inline const std::string kSoftcap = kInputs + R"(a = matmul(q, k)
b = scale(a) c=0.05
t = tanh(b)
c = scale(t) c=20
d = softmax(c) dim=2
o = matmul(d, v)
)";

inline const std::string kSoftcapFlash = [] {
  std::string text = kFlash;
  text.replace(text.find("s = matmul(qt, kt)"), 18,
               "a = matmul(qt, kt)\n  b = scale(a) c=0.05\n  t = tanh(b)\n  s = scale(t) c=20");
  return text;
}();

inline const std::string kNormInputs = R"(graph 1
x = input bf16[16,4096]
g = input bf16[4096]
w = input bf16[4096,1024]
)";

inline const std::string kNormLinear = kNormInputs + R"(n = rms_norm(x, g) eps=1e-06
y = matmul(n, w)
)";

inline const std::string kNormLinearFused = kNormInputs + R"(custom(x, g, w) grid=[8] steps=64
  loop:
  xt = load(0) grid=[-] loop=1/64
  gt = load(1) grid=[-] loop=0/64
  wt = load(2) grid=[1/128] loop=0/64
  xg = mul(xt, gt)
  part = matmul(xg, wt)
  product = accumulate(part)
  sq = square(xt)
  squares = accumulate(sq)
  after:
  total = sum(squares) dim=1
  mean = scale(total) count=4096
  shifted = add_constant(mean) c=1e-06
  inverse = rsqrt(shifted)
  y = mul(product, inverse)
  store(y) -> y bf16[16,1024] grid=[1/128]
end
)";

inline const std::string kGatedInputs = R"(graph 1
x = input bf16[8,4096]
w1 = input bf16[4096,11008]
w3 = input bf16[4096,11008]
)";

inline const std::string kGated = kGatedInputs + R"(a = matmul(x, w1)
b = matmul(x, w3)
s = silu(a)
y = mul(s, b)
)";

inline const std::string kGatedFused = kGatedInputs + R"(custom(x, w1, w3) grid=[86] steps=32
  loop:
  xt = load(0) grid=[-] loop=1/128
  at = load(1) grid=[1/128] loop=0/128
  bt = load(2) grid=[1/128] loop=0/128
  ap = matmul(xt, at)
  bp = matmul(xt, bt)
  a = accumulate(ap)
  b = accumulate(bp)
  after:
  s = silu(a)
  y = mul(s, b)
  store(y) -> y bf16[8,11008] grid=[1/128]
end
)";

inline const std::string kLoraInputs = R"(graph 1
x = input bf16[16,4096]
w = input bf16[4096,4096]
a = input bf16[4096,16]
b = input bf16[16,4096]
)";

inline const std::string kLora = kLoraInputs + R"(p = matmul(x, w)
h = matmul(x, a)
r = matmul(h, b)
y = add(p, r)
)";

inline const std::string kLoraMerged = kLoraInputs + R"(m = matmul(a, b)
s = add(w, m)
y = matmul(x, s)
)";

inline const std::string kLoraFused = kLoraInputs + R"(custom(x, w, a, b) grid=[32] steps=64
  before:
  bt = load(3) grid=[1/128]
  loop:
  xt = load(0) grid=[-] loop=1/64
  wt = load(1) grid=[1/128] loop=0/64
  at = load(2) grid=[-] loop=0/64
  pp = matmul(xt, wt)
  hp = matmul(xt, at)
  p = accumulate(pp)
  h = accumulate(hp)
  after:
  r = matmul(h, bt)
  y = add(p, r)
  store(y) -> y bf16[16,4096] grid=[1/128]
end
)";

inline const std::string kWindow = R"(graph 1
x = input f16[64,64]
m = mask(x) left=30 right=4
y = softmax(m) dim=1
)";

inline const std::string kSquare = R"(graph 1
x = input f16[64,64]
w = input f16[64,64]
y = matmul(x, w)
)";

}  // namespace gqa::programs
