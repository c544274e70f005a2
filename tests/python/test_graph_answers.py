"""Graphs that answer: whose inputs share memory, whose values leave float16 for many inputs, which cancel."""

import gqa
import numpy as np
import pytest

HOST = gqa.Handle("host", threads=1, cache_mode="off")
TYPES = {np.dtype(np.float16): gqa.float16, np.dtype(np.float32): gqa.float32}


def answer(build, *arrays, budget=0.2):
    graph = gqa.new_kernel_graph()
    inputs = [graph.new_input(x.shape, TYPES[x.dtype], strides=[s // x.itemsize for s in x.strides]) for x in arrays]
    graph.mark_output(build(graph, *inputs))
    return np.asarray(graph.superoptimize(budget=budget, device=HOST)(list(arrays)))


def normal(*shape, dtype=np.float16):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


# ---------------------------------------------------------------- shared memory


@pytest.mark.parametrize("axis", (0, 1))
def test_a_stretched_input(axis):
    line, whole = normal(5, dtype=np.float32), normal(5, 5, dtype=np.float32)
    mask = np.broadcast_to(line, (5, 5)) if axis == 0 else np.broadcast_to(line[:, None], (5, 5))
    np.testing.assert_array_equal(answer(lambda g, x, y: x + y, mask, whole), mask + whole)


def test_a_mask_that_is_stretched_over_heads():
    scores = normal(4, 33, 33, dtype=np.float32)
    mask = np.broadcast_to(np.triu(np.full((33, 33), -np.inf, np.float32), 1), scores.shape)
    exact = np.exp((scores + mask).astype(np.float64))
    found = answer(lambda g, s, m: g.softmax(s + m), scores, mask)
    np.testing.assert_allclose(found, exact / exact.sum(-1, keepdims=True), rtol=1e-5, atol=1e-12)


def test_windows_that_overlap():
    signal = normal(40, dtype=np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(signal, 9)
    weights = normal(9, 3, dtype=np.float32)
    found = answer(lambda g, x, w: x @ w, windows, weights)
    np.testing.assert_allclose(found, windows.astype(np.float64) @ weights, rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- numbers


def half(value):
    with np.errstate(over="ignore"):
        return value.astype(np.float16).astype(np.float64)


OVERFLOW = {  # the graph; in float64; operator by operator in float16
    "x / square(y)": (
        lambda g, x, y: x / g.square(y),
        lambda x, y: x / y**2,
        lambda x, y: half(x / half(y**2)),
    ),
    "y / (x / 1024)": (
        lambda g, x, y: y / (x / 1024),
        lambda x, y: y / (x / 1024),
        lambda x, y: half(y / half(x / 1024)),
    ),
    "(x @ y) / (y @ x)": (
        lambda g, x, y: (x @ y) / (y @ x),
        lambda x, y: (x @ y) / (y @ x),
        lambda x, y: half(half(x @ y) / half(y @ x)),
    ),
}


@pytest.mark.parametrize("name", OVERFLOW)
def test_what_overflows_for_some_inputs(name):
    build, exactly, by_halves = OVERFLOW[name]
    x, y = normal(64, 64), normal(64, 64)[::-1].copy()
    found = answer(build, x, y).astype(np.float64)
    with np.errstate(all="ignore"):
        exact, naive = exactly(*map(np.float64, (x, y))), by_halves(*map(np.float64, (x, y)))
    sure = np.isfinite(naive) & (np.abs(exact) < 60000)
    assert sure.mean() > 0.9
    assert np.isfinite(found[sure]).all()
    assert np.linalg.norm((found - exact)[sure]) <= 1.5 * np.linalg.norm((naive - exact)[sure])


# Scores past float16: operator by operator their weights are inf / inf, all other weights of their rows are 0.
def test_weights_beside_scores_that_overflow():
    def weights(g, q, k):
        e = g.exp(q @ k)
        return e / g.sum(e, 1)

    q, k = np.ones((33, 8), np.float16), np.full((8, 65), 0.002, np.float16)
    q[::2] *= 300
    k[:, 7], k[:, 9] = 100, -50
    found = answer(weights, q, k).astype(np.float64)
    others = np.arange(65) != 7
    np.testing.assert_array_equal(found[::2, others], 0)
    assert np.isfinite(found[1::2]).all()


# The exponential is near the largest float32, the value itself far above the least.
@pytest.mark.parametrize("device", ("host", pytest.param("cuda", marks=pytest.mark.gpu)))
def test_silu_far_below_zero(device):
    x = np.linspace(-88.5, -87, 64, dtype=np.float32).reshape(4, 16)
    exact = x / (1 + np.exp(-x.astype(np.float64)))
    if device == "host":
        found = answer(lambda g, x: g.silu(x), x)
    else:
        import torch

        graph = gqa.new_kernel_graph()
        graph.mark_output(graph.silu(graph.new_input(x.shape, gqa.float32)))
        program = graph.superoptimize(budget=0.2, device=gqa.Handle("cuda", cache_mode="off"))
        found = program([torch.from_numpy(x).cuda()]).cpu().numpy()
    np.testing.assert_allclose(found, exact, rtol=1e-4)


FLOAT32 = {  # where the order of sums, or float32's own rounding, shows
    "gelu(x - 4)": lambda g, x: g.gelu(x - 4),
    "1 / gelu(x)": lambda g, x: 1 / g.gelu(x),
    "exp(rms_norm(x) @ x)": lambda g, x: g.exp(g.rms_norm(x) @ x),
    "1 / (x @ x + x)": lambda g, x: 1 / (x @ x + x),
    "tanh(exp(x @ x) @ x)": lambda g, x: g.tanh(g.exp(x @ x) @ x),
    "softmax(20 tanh(mask(x) / 20))": lambda g, x: g.softmax(g.tanh(g.causal_mask(x) / 20) * 20),
}


@pytest.mark.parametrize("name", FLOAT32)
def test_what_float32_makes_much_of(name):
    for budget in (0.001, 0.2):
        assert np.isfinite(answer(FLOAT32[name], normal(40, 40, dtype=np.float32), budget=budget)).mean() > 0.9


STEEP = """graph 1
t0 = input f32[2,65,8]
t1 = input f32[8,8] strides=[1,8]
t2 = max(t0) dim=2
t3 = sub(t0, t2)
t4 = exp(t3)
t5 = sum(t4) dim=2
t6 = div(t4, t5)
t7 = exp(t6)
t8 = matmul(t7, t1) tb=1
t9 = reciprocal(t8)
outputs t9
"""


# A reciprocal of sums that cancel makes much of float32's own rounding: no program keeps the bound, nor do the operators
# one by one. Those are the answer.
def test_a_graph_whose_own_operators_are_over_the_bound():
    explained = gqa.graph_from_text(STEEP).superoptimize(budget=0.2, device=HOST).explain()
    assert "nothing passed, so these are the graph's operators, each verified by itself" in explained
    assert "winner: 8 kernels: max; sub; exp; sum; div; exp; matmul; reciprocal" in explained


def test_the_sign_of_a_zero_reaches_an_infinity():
    x = np.array([[-4096.0, 4096.0, -0.0]], np.float32)
    np.testing.assert_array_equal(answer(lambda g, x: 1 / g.tanh(g.silu(x)), x), [[-np.inf, 1, -np.inf]])


@pytest.mark.parametrize("name", ("relu", "silu", "gelu", "tanh", "square", "reciprocal", "sqrt"))
def test_operators_after_a_mask(name):
    x = np.abs(normal(3, 33, dtype=np.float32)) + 1
    found = answer(lambda g, x: getattr(g, name)(g.causal_mask(x)), x)
    hidden = np.triu(np.ones((3, 33), bool), 31)
    assert np.isfinite(found[~hidden]).all()
