"""Defects that are known and open: what fails so is counted apart, and is not news.

Owns: their list. Whoever mends one takes its line away, so that it can fail again.
"""

from dataclasses import replace

import numpy as np

from ..types import TYPES

MERGE_INF = "merge_states with +inf for a part that saw no key"


def fill_of(case):
    """The number that hides keys, as the bias's type has it; 0: none is finite."""
    hides = case.bias is not None and case.mask not in (None, "far", "nan") and np.isfinite(case.fill)
    return max(case.fill, -TYPES[case.bias_type].most) if hides else 0.0


def finite_fill(case, lists, failure, device):
    return device == "cuda" and fill_of(case) < -1e6


def huge_scores(case, lists, failure, device):
    """Scores beyond 1e9 in size, or near it: of numbers "huge" those of three deviations."""
    if fill_of(case) < -9e8:
        return True
    power = min(case.power, 15) if case.type == "float16" else case.power
    factor = 24.0 if case.score_scale is not None else 1.0
    return case.numbers == "huge" and 9 * 4.0**power * (case.scale or case.dim**-0.5) * factor > 1e8


def huge_sink(case, lists, failure, device):
    return case.sink == "huge"


def length_beyond(case, lists, failure, device):
    return case.keys is not None and bool((lists.given > lists.room).any())


# (what, the kinds of failure, whether a case with this failure is one)
NUMBERS = ("not finite", "wrong", "inexact", "outside", "log-sum-exp")
OPEN = (
    ("a finite number that hides keys", NUMBERS, finite_fill),
    ("finite scores beyond 1e9", NUMBERS, huge_scores),
    ("a sink above 2.3e38", NUMBERS, huge_sink),
    ("seqused_k above the rows that a packed sequence has", NUMBERS, length_beyond),
    (
        "refused: cache_batch_idx or cache_leftpad beside keys and values of unlike strides",
        ("refused",),
        lambda case, *_: case.rows is not None or case.pads is not None,
    ),
    (
        "refused: nothing to compute, and yet to append",
        ("refused",),
        lambda case, lists, *_: case.new is not None and not np.prod(lists.q_tokens),
    ),
    ("refused: no sequence, of packed ones", ("refused",), lambda case, *_: case.batch == 0),
    (
        "refused: no new token, of packed ones",
        ("refused",),
        lambda case, lists, *_: case.new is not None and not np.prod(lists.new_tokens),
    ),
)


def labelled(case, lists, failure, device):
    for what, kinds, is_one in OPEN:
        if failure.kind in kinds and is_one(case, lists, failure, device):
            return replace(failure, known=what)
    return failure
