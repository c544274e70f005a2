"""Defects that are known and open: what fails so is counted apart, and is not news.

Owns: their list. Whoever mends one takes its line away, so that it can fail again.
"""

from dataclasses import replace

def length_beyond(case, lists, failure, device):
    return case.keys is not None and bool((lists.given > lists.room).any())


# (what, the kinds of failure, whether a case with this failure is one)
NUMBERS = ("not finite", "wrong", "inexact", "outside", "log-sum-exp")
OPEN = (
    ("seqused_k above the rows that a packed sequence has", NUMBERS, length_beyond),
    (
        "refused: cache_leftpad beside keys and values of unlike strides",
        ("refused",),
        lambda case, *_: case.pads is not None,
    ),
)


def labelled(case, lists, failure, device):
    for what, kinds, is_one in OPEN:
        if failure.kind in kinds and is_one(case, lists, failure, device):
            return replace(failure, known=what)
    return failure
