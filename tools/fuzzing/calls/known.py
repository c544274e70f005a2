"""Defects that are known and open: what fails so is counted apart, and is not news.

Owns: their list. Whoever mends one takes its line away, so that it can fail again.
"""

from dataclasses import replace


# (what, the kinds of failure, whether a case with this failure is one)
OPEN = (
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
