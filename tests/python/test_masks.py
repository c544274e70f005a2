"""Attention whose mask is an input of -inf, as people write it: the program that is found, held against float64."""

import gqa
import numpy as np
import pytest

from conftest import check
from attention_graph import normal

SHAPES = {"two-heads": (2, 64, 1024, 64), "few-rows": (1, 16, 512, 64)}


def masks(rows, keys):
    key, row = np.arange(keys), np.arange(rows)[:, None]
    hidden = {
        "first half": key < keys // 2,
        "last half": key >= keys // 2,
        "middle": (key >= keys // 4) & (key < keys - keys // 4),
        "alternate tiles": key // 64 % 2 == 0,
        "causal": key > row + keys // 2 - rows,
        "all but the last key": key < keys - 1,
        "a whole row": (row == 3) & (key >= 0),
    }
    return {name: np.broadcast_to(which, (rows, keys)) for name, which in hidden.items()}


def maximum_taken_off(g, scores, mask):
    scores = scores / 8 + mask
    return g.exp(scores - g.max(scores, -1))


def no_maximum(g, scores, mask):
    return g.exp(scores / 8 + mask)


def scaled_after(g, scores, mask):
    scores = (scores + mask) / 8
    return g.exp(scores - g.max(scores, -1))


def weights_multiplied(g, scores, mask):
    scores = scores / 8
    return g.exp(scores - g.max(scores, -1)) * mask


SPELLINGS = {
    "maximum taken off": (maximum_taken_off, -np.inf, 0),
    "no maximum": (no_maximum, -np.inf, 0),
    "scaled after": (scaled_after, -np.inf, 0),
    "a large number": (maximum_taken_off, -1e30, 0),
    "weights multiplied": (weights_multiplied, 0, 1),
}


@pytest.fixture(scope="module", params=["host", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def handle_of(request, tmp_path_factory):
    with gqa.Handle(request.param, cache_path=tmp_path_factory.mktemp("masks") / "cache.db", tuning_budget=1) as made:
        yield made


def run(program, handle, arrays):
    """A program on NumPy arrays, by way of the handle's device."""
    if handle.device.startswith("host"):
        return program(arrays)
    import torch

    return program([torch.from_numpy(x).cuda() for x in arrays]).cpu().numpy()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_hidden_keys(handle_of, spelling, shape):
    batch, rows, keys, dim = SHAPES[shape]
    weights_of, hidden, seen = SPELLINGS[spelling]
    g = gqa.new_kernel_graph()
    q, k = (g.new_input((batch, n, dim), gqa.float16) for n in (rows, keys))
    v = g.new_input((batch, keys, dim), gqa.float16)
    mask = g.new_input((rows, keys), gqa.float32)
    weights = weights_of(g, g.matmul(q, k, transpose_b=True), mask)
    g.mark_output(weights / g.sum(weights, -1) @ v)
    program = g.superoptimize(device=handle_of)

    given = [normal(batch, n, dim, seed=seed) for seed, n in enumerate((rows, keys, keys))]
    q, k, v = (x.astype(np.float64) for x in given)
    for name, hides in masks(rows, keys).items():
        scores = q @ k.swapaxes(-1, -2) / 8 + np.where(hides & (hidden != -1e30), -np.inf, 0)
        whole = hides.all(-1)
        out = run(program, handle_of, given + [np.where(hides, hidden, seen).astype(np.float32)])
        assert np.isfinite(out[:, ~whole]).all(), f"{name}: {program.explain()}"
        if hidden == -1e30:  # finite: a whole row of it weighs all keys alike
            scores = np.where(hides, -1e30, scores)
        else:
            assert (np.isnan(out[:, whole]) | (out[:, whole] == 0)).all(), name
            out, scores = out[:, ~whole], scores[:, ~whole]
        expected = np.exp(scores - scores.max(-1, keepdims=True))
        check(out, expected / expected.sum(-1, keepdims=True) @ v)
