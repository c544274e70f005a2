"""Attention in float64, one sequence at a time, and the naive computation in the call's type beside it.

Owns: what a call's numbers should be, and what float32 may be off by. Never: calls gqa. Plain NumPy.
"""

import math
from dataclasses import dataclass
from typing import Optional

import numpy as np

from ..judgement import Rows, norm

# A float32 score is off by about this share of the terms it is summed of.
SCORE_STEP = 2.0**-22
# Weights below exp(-NEGLIGIBLE) of a row's largest add nothing, whatever their own error.
NEGLIGIBLE = 80.0
# A float32 sum of n terms by about this share of them, times the root of n.
SUM_STEP = 2.0**-24
LARGEST_SUM = float(np.finfo(np.float32).max) / 4


@dataclass
class Sequence:
    """One sequence's numbers in float64: q (n, q_heads, d), k, v (m, kv_heads, ..), and what is done to scores."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    group: int
    scale: float
    kind: object  # the Type of out
    causal: bool = False
    window: Optional[tuple] = None
    softcap: float = 0.0
    sink: Optional[np.ndarray] = None  # (q_heads)
    score_scale: Optional[np.ndarray] = None  # (q_heads, n)
    bias: Optional[np.ndarray] = None  # (q_heads, n, m)
    q_rounded: Optional[np.ndarray] = None  # q as its type has it, where the call rotates it


def hidden_keys(n, m, causal, window):
    """(n, m): the keys that the mask hides of each query."""
    place, key = np.arange(n)[:, None] + m - n, np.arange(m)
    left, right = (math.inf if side in (None, -1) else side for side in window or (-1, -1))
    return (key < place - left) | (key > place + (0 if causal else right))


def by_heads(x, group=1):
    """(tokens, heads, d) as (heads, tokens, d), each key head for all of its group."""
    return np.repeat(x.swapaxes(0, 1), group, axis=0)


@dataclass
class Scores:
    x: np.ndarray  # (q_heads, n, m), -inf where hidden
    error: np.ndarray  # what float32 may be off by


def scores_of(s, kind, hide):
    q = by_heads(s.q if s.q_rounded is None or kind == np.float64 else s.q_rounded).astype(kind)
    k = by_heads(s.k, s.group).astype(kind).swapaxes(1, 2)
    scale = kind(s.scale)
    x = q @ k * scale
    terms = np.abs(q) @ np.abs(k) * scale
    # q is rounded once more after rotation, each element by itself, and perhaps not as here.
    rounding = 0 if s.q_rounded is None else 2 * s.kind.step * np.sqrt((q * q) @ (k * k)) * scale
    if s.score_scale is not None:
        factor = s.score_scale[..., None].astype(kind)
        x, terms, rounding = x * factor, terms * np.abs(factor), rounding * np.abs(factor)
    if s.softcap:
        x = np.tanh(x / kind(s.softcap)) * kind(s.softcap)
    if s.bias is not None:
        bias = np.where(hide, 0, s.bias).astype(kind)
        x = x + bias
        terms = terms + np.where(np.isneginf(bias), 0, np.abs(bias))
    x = np.where(hide, -np.inf, x)
    return Scores(x, np.where(np.isneginf(x), 0, terms * SCORE_STEP + rounding))


@dataclass
class Weights:
    p: np.ndarray  # (q_heads, n, m)
    sums: np.ndarray
    lse: np.ndarray
    top: np.ndarray


def softmax(x, sink):
    top = x.max(-1, initial=-np.inf)
    if sink is not None:
        top = np.maximum(top, sink[:, None].astype(x.dtype))
    base = np.where(np.isneginf(top), 0, top)
    p = np.exp(x - base[..., None])
    sums = p.sum(-1)
    if sink is not None:
        sums = sums + np.exp(sink[:, None].astype(x.dtype) - base)
    with np.errstate(divide="ignore"):
        lse = np.where(sums == 0, -np.inf, np.log(sums) + base)
    return Weights(p, sums, lse, top)


def attend(s):
    """(Rows of (n, q_heads, dv), lse (q_heads, n), the naive lse, its doubt)."""
    hide = hidden_keys(len(s.q), len(s.k), s.causal, s.window)
    v = by_heads(s.v, s.group)
    with np.errstate(all="ignore"):
        exact = scores_of(s, np.float64, hide)
        w = softmax(exact.x, s.sink)
        divide = np.where(w.sums == 0, 1, w.sums)[..., None]
        want = w.p @ v / divide
        size = norm(w.p @ np.abs(v) / divide)
        matters = (
            exact.x + 2 * exact.error >= (w.top - NEGLIGIBLE)[..., None] - 2 * exact.error.max(-1, initial=0)[..., None]
        )
        doubt = np.where(matters, exact.error, 0).max(-1, initial=0)
        if s.sink is not None:  # a score, too, which a kernel may scale
            sink = np.broadcast_to(s.sink[:, None], doubt.shape)
            doubt = np.maximum(doubt, np.where(sink >= w.top - NEGLIGIBLE, np.abs(sink) * SCORE_STEP, 0))
        naive_scores = scores_of(s, np.float32, hide)
        naive = softmax(naive_scores.x, s.sink)
        rounded = s.kind.rounded(naive.p)
        naive_out = rounded @ v.astype(np.float32) / np.where(naive.sums == 0, 1, naive.sums)[..., None]
        naive_out = s.kind.rounded(naive_out).astype(np.float64)
        # Where q . k itself leaves float32's range there is nothing to hold a row against.
        over = (~np.isfinite(naive_scores.x) & np.isfinite(exact.x)).any(-1) | np.isnan(naive_scores.x).any(-1)
        # Nor where the weighted sum does, before it is divided: a sink need not be in the maximum.
        own = np.exp(
            exact.x
            - np.where(np.isneginf(exact.x.max(-1, initial=-np.inf)), 0, exact.x.max(-1, initial=-np.inf))[..., None]
        )
        over |= (own @ np.abs(v)).max(-1) > LARGEST_SUM
    sums = SUM_STEP * math.sqrt(len(s.k))
    doubt = np.where(over, np.inf, doubt + sums)
    low, high = bounds(v, s, w)
    ends = (tokens_first(x) for x in (low, high))
    rows = Rows(*(tokens_first(x) for x in (want, naive_out)), doubt.T, size.T, *ends, sums)
    return rows, w.lse, naive.lse.astype(np.float64), doubt


def tokens_first(x):
    return x.swapaxes(0, 1)


def bounds(v, s, w):
    """(q_heads, n, dv): between which any weighted mean of a row's values lies; 0 among them where something else may
    take the weight."""
    shape = *w.sums.shape, v.shape[-1]
    low, high = (f(v, axis=1, initial=0) if not v.shape[1] else f(v, axis=1) for f in (np.min, np.max))
    low, high = (np.broadcast_to(x[:, None], shape) for x in (low, high))
    zero = (w.sums == 0)[..., None] | (s.sink is not None)
    return np.where(zero, np.minimum(low, 0), low), np.where(zero, np.maximum(high, 0), high)


def rotated(x, cos, sin, places, interleaved):
    """x (tokens, heads, d) in float64, each token by its row of the tables."""
    half = cos.shape[1]
    c, s = cos[places][:, None], sin[places][:, None]
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    y = x.copy()
    y[..., first] = x[..., first] * c - x[..., second] * s
    y[..., second] = x[..., first] * s + x[..., second] * c
    return y
