// small_graphs.h: graphs that take microseconds to run, of sizes that tiles do not divide: what every program that the
// search returns is run on, in double and on devices.
// Owns: texts.
// Never: asserts.
// Threads: constants.
#pragma once

#include <string>

namespace gqa::programs {

inline const std::string kSmall[] = {
    R"(graph 1
q = input f16[2,40,16]
k = input f16[2,16,150]
v = input f16[2,150,24]
a = matmul(q, k)
e = exp(a)
s = sum(e) dim=2
d = div(e, s)
o = matmul(d, v)
)",
    R"(graph 1
q = input f32[2,2,4,3,16]
k = input f32[2,2,1,150,16]
v = input f32[2,2,1,150,16]
a = matmul(q, k) tb=1
s = scale(a) c=0.25
t = tanh(s)
c = mask(t) right=0
p = softmax(c) dim=-1
o = matmul(p, v)
)",
    R"(graph 1
q = input f32[2,40,16]
k = input f32[2,150,16]
v = input f32[2,150,16]
g = input f32[16]
n = rms_norm(k, g) eps=1e-05
a = matmul(q, n) tb=1
p = softmax(a) dim=-1
o = matmul(p, v)
)",
    R"(graph 1
x = input f32[20,150]
g = input f32[150]
w = input f32[150,70]
n = rms_norm(x, g) eps=1e-05
y = matmul(n, w)
)",
    R"(graph 1
x = input f32[20,150]
w1 = input f32[150,70]
w3 = input f32[150,70]
a = matmul(x, w1)
b = matmul(x, w3)
s = silu(a)
y = mul(s, b)
)",
    R"(graph 1
x = input f32[20,150]
w = input f32[150,70]
a = input f32[150,4]
b = input f32[4,70]
p = matmul(x, w)
h = matmul(x, a)
r = matmul(h, b)
y = add(p, r)
)",
    R"(graph 1
x = input f32[20,150]
w1 = input f32[150,70]
w2 = input f32[150,30]
m = mean(x) dim=1
a = matmul(x, w1)
b = matmul(x, w2)
c = sub(b, m)
outputs a, c
)",
};

}  // namespace gqa::programs
