"""Random calls of merge_states: what they are, their text, their reference, smaller ones.

Owns: all of that, for this one function. Never: anything of attention.
"""

from dataclasses import dataclass, replace
from typing import Tuple

import numpy as np

import gqa

from .. import arrays
from ..judgement import Failure, Rows, judge_lse, judge_rows, norm
from ..types import TYPES
from . import check
from .source import Text, listed

ROUND = 32  # parts that a GPU merges at once; out is rounded once a round


@dataclass(frozen=True)
class Merge:
    function: str = "merge_states"
    type: str = "float16"
    frame: str = "numpy"
    parts: int = 1
    shape: Tuple = (1, 1, 1)  # of out: maybe a batch, rows, heads, elements
    stacked: bool = False  # all parts in one tensor
    in_place: bool = False
    layout: str = "plain"
    lse_layout: str = "plain"
    size: float = 1.0  # of log-sum-exps
    empty: bool = False  # some parts saw no key of some rows
    infinite: bool = False  # +inf stands for a part that saw none, as in FlashAttention-2
    hidden: str = "np.nan"  # out of a part that saw no key
    big: bool = False  # outs to the end of their type
    seed: int = 0

    @property
    def lse_shape(self):
        return (*self.shape[:-3], self.shape[-2], self.shape[-3])


def draw_merge(shape, own, device):
    return Merge(
        type=shape.of("float16", "bfloat16", "float32"),
        frame="torch" if device == "cuda" else shape.of("numpy", "torch"),
        parts=shape.of(1, 2, 3, shape.number(1, 41)),
        shape=(*shape.numbers(shape.of(1, 2), 0, 5), shape.number(1, 9), shape.number(1, 301)),
        stacked=shape.some(0.3),
        in_place=shape.some(0.3),
        layout=shape.of("plain", "plain", "gaps", "odd", "heads"),
        lse_layout=shape.of("plain", "plain", "gaps"),
        size=own.of(1.0, 60.0, 1e4),
        empty=own.some(0.6),
        infinite=own.some(0.1),
        hidden=own.of("np.nan", "np.inf", "0"),
        big=own.some(0.1),
        seed=own.number(0, 1 << 30),
    )


def write_merge(c, device):
    text, kind = Text(c.frame, device), TYPES[c.type]
    text.add(f"lses = {c.size!r} * normal([{c.seed}, 0], {c.parts}, {listed(c.lse_shape)})")
    if c.empty:
        text.add(
            f"random = np.random.default_rng([{c.seed}, 1])",
            "lses[random.random(lses.shape) < 0.3] = -np.inf",
            "lses[:, random.random(lses.shape[1:]) < 0.1] = -np.inf",
        )
    if c.infinite:
        text.add(f"lses[np.random.default_rng([{c.seed}, 2]).random(lses.shape) < 0.2] = np.inf")
    text.add(f"outs = normal([{c.seed}, 3], {c.parts}, {listed(c.shape)})")
    if c.big:
        text.add(f"outs = (outs * {kind.most / 6!r}).clip({-kind.most!r}, {kind.most!r})")
    if c.empty or c.infinite:
        text.add(f"outs[np.isinf(lses.swapaxes(-1, -2))] = {c.hidden}")
    if c.stacked:
        text.tensor("outs", c.type, "plain", len(c.shape) + 1)
        text.tensor("lses", "float32", "plain", len(c.shape))
        text.add("out, lse = gqa.merge_states(outs, lses)")
        return text
    for part in range(c.parts):
        for name, all_of, type_name, layout, ndim in (
            ("out", "outs", c.type, c.layout, len(c.shape)),
            ("lse", "lses", "float32", c.lse_layout, len(c.shape) - 1),
        ):
            text.add(f"{name}{part} = {all_of}[{part}]")
            text.tensor(f"{name}{part}", type_name, "plain" if ndim < 2 else layout, ndim)
    given = (", ".join(f"{name}{part}" for part in range(c.parts)) for name in ("out", "lse"))
    into = ", out=out0, lse=lse0" if c.in_place else ""
    text.add("out, lse = gqa.merge_states([{}], [{}]{})".format(*given, into))
    return text


def attempt_merge(case):
    text, kind = write_merge(case, check.DEVICE["name"]), TYPES[case.type]
    names = check.namespace()
    try:
        before = check.run_text(text, names)
    except (gqa.GqaError, NotImplementedError) as error:
        return Failure("refused", f"{type(error).__name__}: {error}")
    return judged(case, kind, names, before) or untouched(case, text, kind, names, before)


def parts_of(case, kind, before):
    """(outs, lses) in float64, a part in a row."""
    if case.stacked:
        return arrays.decoded(before["outs"], kind), arrays.decoded(before["lses"], TYPES["float32"])
    outs = [arrays.decoded(before[f"out{part}"], kind) for part in range(case.parts)]
    return np.stack(outs), np.stack(
        [arrays.decoded(before[f"lse{part}"], TYPES["float32"]) for part in range(case.parts)]
    )


def merged(outs, lses, kind):
    """(out, lse, the size of out's terms) in this NumPy type."""
    lses = np.where(np.isposinf(lses), -np.inf, lses).astype(kind)
    top = lses.max(0)
    base = np.where(np.isneginf(top), 0, top)
    with np.errstate(all="ignore"):
        e = np.exp(lses - base)
        sums = e.sum(0)
        weights = (e / np.where(sums == 0, 1, sums)).swapaxes(-1, -2)[..., None]
        terms = np.where(weights > 0, weights * outs.astype(kind), 0)
        return terms.sum(0), np.where(sums == 0, -np.inf, np.log(sums) + base), np.abs(terms).sum(0)


def judged(case, kind, names, before):
    if not np.prod(case.shape):
        return None
    outs, lses = parts_of(case, kind, before)
    want, want_lse, terms = merged(outs, lses, np.float64)
    naive, naive_lse, _ = merged(outs, lses, np.float32)
    # Weights are float32's, of log-sum-exps that may be large.
    largest = np.where(np.isfinite(lses), np.abs(lses), 0).max(0).swapaxes(-1, -2)
    rows = Rows(want, kind.rounded(naive).astype(np.float64), (largest + 16) * 2.0**-21, norm(terms))
    rounds = 1 if case.parts <= ROUND or case.type == "float32" else 2
    found = judge_rows(arrays.numbers(names["out"]), rows, kind, factor=rounds)
    return found or judge_lse(arrays.numbers(names["lse"]), want_lse, naive_lse.astype(np.float64), 0.0)


def untouched(case, text, kind, names, before):
    for name in text.made:
        if case.in_place and not case.stacked and name in ("out0", "lse0"):
            continue
        after = arrays.host(names[name])
        if (after != before[name]).any():
            at = tuple(int(i) for i in np.argwhere(after != before[name])[0])
            was = arrays.decoded(before[name], TYPES["float32"] if name.startswith("lse") else kind)[at]
            words = f"{name}{list(at)}, a part, was {was:.6g} and was written"
            return Failure(
                "overwritten", words, f"np.testing.assert_equal(float({name}{list(at)}), {check.literal(was)})"
            )
    return None


def merge_test(case, failure, name):
    return check.as_test(write_merge(case, check.DEVICE["name"]), failure, name)


def simpler_merge(case):
    simplest = Merge()
    for name in (
        "infinite",
        "empty",
        "big",
        "in_place",
        "stacked",
        "layout",
        "lse_layout",
        "size",
        "hidden",
        "frame",
        "type",
    ):
        if getattr(case, name) != getattr(simplest, name):
            yield replace(case, **{name: getattr(simplest, name)})
    if len(case.shape) > 3:
        yield replace(case, shape=case.shape[1:])
    for parts in (1, 2, case.parts // 2, case.parts - 1):
        if 0 < parts < case.parts:
            yield replace(case, parts=parts)
    for at, size in enumerate(case.shape):
        for smaller in (1, size // 2, size - 1):
            if 0 < smaller < size:
                yield replace(case, shape=(*case.shape[:at], smaller, *case.shape[at + 1 :]))
    if case.seed > 9:
        yield from (replace(case, seed=seed) for seed in range(3))
