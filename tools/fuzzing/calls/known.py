"""Defects that are known and open: what fails so is counted apart, and is not news.

Owns: their list. Whoever mends one takes its line away, so that it can fail again.
"""

from dataclasses import replace

import numpy as np

from ..types import TYPES

MERGE_INF = "merge_states with +inf for a part that saw no key"


def finite_fill(case, lists, failure):
    return case.bias is not None and case.mask is not None and np.isfinite(case.fill)


def huge_scores(case, lists, failure):
    """Scores beyond 1e9 in size: of one element each, to the powers that numbers "huge" have."""
    if case.bias is not None and case.mask is not None and np.isfinite(case.fill):
        return max(case.fill, -TYPES[case.bias_type].most) < -1e9
    return case.numbers == "huge"


def huge_sink(case, lists, failure):
    return case.sink == "huge"



# (what, the kinds of failure, whether a case with this failure is one)
NUMBERS = ("not finite", "wrong", "inexact", "outside", "log-sum-exp")
OPEN = (
    ("a finite number that hides keys", NUMBERS, finite_fill),
    ("finite scores beyond 1e9", NUMBERS, huge_scores),
    ("a sink above 2.3e38", NUMBERS, huge_sink),
    ("refused: cache_batch_idx or cache_leftpad beside keys and values of unlike strides", ("refused",),
     lambda case, lists, failure: case.rows is not None or case.pads is not None),
    ("refused: nothing to compute, and yet to append", ("refused",),
     lambda case, lists, failure: case.new is not None and not np.prod(lists.q_tokens)),
    ("refused: no sequence, of packed ones", ("refused",),
     lambda case, lists, failure: case.batch == 0),
    ("refused: no new token, of packed ones", ("refused",),
     lambda case, lists, failure: case.new is not None and not np.prod(lists.new_tokens)),
)


def labelled(case, lists, failure):
    for what, kinds, is_one in OPEN:
        if failure.kind in kinds and is_one(case, lists, failure):
            return replace(failure, known=what)
    return failure
