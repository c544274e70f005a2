"""The README's graph, attention written out: the graph, inputs for it, and its answer in float64."""

import gqa
import numpy as np


def attention_graph(queries=256, keys=4096, dim=64, dtype=gqa.float16):
    """The graph as its users write it."""
    graph = gqa.new_kernel_graph()
    Q = graph.new_input(dims=(2, queries, dim), dtype=dtype)
    K = graph.new_input(dims=(2, dim, keys), dtype=dtype)
    V = graph.new_input(dims=(2, keys, dim), dtype=dtype)
    A = graph.matmul(Q, K)
    E = graph.exp(A)
    S = graph.reduction(E, 2)
    D = graph.div(E, S)
    graph.matmul(D, V)
    return graph


def normal(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float16)


def attention_inputs(queries=256, keys=4096, dim=64, scale=0.3):
    return [
        normal(2, queries, dim, seed=1, scale=scale),
        normal(2, dim, keys, seed=2),
        normal(2, keys, dim, seed=3),
    ]


def attention_of(q, k, v):
    q, k, v = (np.asarray(x).astype(np.float64) for x in (q, k, v))
    scores = q @ k
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v
