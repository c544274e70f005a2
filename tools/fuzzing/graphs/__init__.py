"""Random graphs, each tried at five sets of magnitudes: a kind of program, as fuzzing has them.

Owns: how its parts are put together. case.py says what a graph is, draw.py draws it, source.py writes it down,
reference.py evaluates it, check.py runs and judges it, shrinks.py makes it smaller.
"""

from dataclasses import replace

import gqa

from ..modules import has, loaded
from . import check
from .case import differing
from .check import attempt, test
from .draw import draw as drawn
from .shrinks import simpler

NAME = "graphs"
ABOUT = "graphs of one to a dozen operators, superoptimized"


def draw(seed, number, device):
    """None where the case would be none: no graph, or of types that are not to be had here."""
    case = drawn(seed, number, device)
    if case is None or case.frame == "torch" and has("torch"):
        return case
    if case.frame == "torch":
        case = replace(case, frame="numpy")
    bfloat = any(each.type == "bfloat16" for each in case.inputs)
    return None if bfloat and not has("ml_dtypes") else case


def group(case):
    """What a tally counts by."""
    return next((each.type for each in case.inputs if each.type != "float32"), "float32")


def load():
    check.MODULES.update(loaded())


def setup(device, budget):
    """One thread on a CPU, whose cases are small."""
    check.DEVICE.update(name=device, budget=max(budget, 0.1))
    check.HANDLES["handle"] = gqa.Handle("cuda") if device == "cuda" else gqa.Handle("host", threads=1)
    load()


__all__ = ["ABOUT", "NAME", "attempt", "differing", "draw", "group", "load", "setup", "simpler", "test"]
