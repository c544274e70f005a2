"""Defects that are known and open: what fails so is counted apart, and is not news.

Owns: their list. Whoever mends one takes its line away, so that it can fail again.
"""

from dataclasses import replace


# (what, the kinds of failure, whether a case with this failure is one)
OPEN = (
    (
        "refused: cache_leftpad beside rows that are no whole number of slots apart, or pages with gaps between",
        ("refused",),
        lambda case, _, failure, __: case.pads is not None and "beside cache_leftpad" in failure.words,
    ),
    (
        "inexact: float32 below 1e-37 beside a far sink, on the host 0",
        ("inexact",),
        lambda case, _, __, device: device == "cpu" and case.type == "float32" and case.sink == "far",
    ),
    # Its products of bfloat16 take a float32 below the least normal one for 0.
    (
        "inexact: AMX on numbers whose products are below 1e-38",
        ("inexact",),
        lambda case, _, __, device: device == "cpu"
        and "bfloat16" in case.type
        and (case.numbers == "tiny" or case.sink == "far"),  # what a far sink leaves of weights is as small
    ),
)


def labelled(case, lists, failure, device):
    for what, kinds, is_one in OPEN:
        if failure.kind in kinds and is_one(case, lists, failure, device):
            return replace(failure, known=what)
    return failure
