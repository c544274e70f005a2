"""Random calls of gqa's attention functions and merge_states: a kind of program, as fuzzing has them.

Owns: how its parts are put together. case.py says what a call is, draw.py draws it, source.py writes it down, check.py
runs and judges it by reference.py, shrinks.py makes it smaller, merge.py is merge_states alone, known.py lists the
defects that are open.
"""

from dataclasses import replace

import gqa

from ..modules import has, loaded
from . import check
from .case import differing, fits
from .draw import draw as drawn
from .merge import Merge, attempt_merge, merge_test, simpler_merge
from .shrinks import simpler_calls

NAME = "calls"
ABOUT = "attention, flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache and merge_states"


def draw(seed, number, device):
    """None where the case would be none."""
    case = possible(drawn(seed, number, device))
    return case if isinstance(case, Merge) or fits(case) else None


def possible(case):
    """With what is installed: torch's tensors as NumPy's where there is no torch; bfloat16 in NumPy needs ml_dtypes."""
    if case.frame == "torch" and not has("torch"):
        case = replace(case, frame="numpy")
    if case.frame == "numpy" and not has("ml_dtypes") and "bfloat16" in (case.type, getattr(case, "bias_type", "")):
        case = replace(case, frame="torch") if has("torch") else replace(case, type="float16", **bias_of(case))
    return case


def bias_of(case):
    return {} if isinstance(case, Merge) else {"bias_type": "float32"}


def attempt(case):
    return attempt_merge(case) if isinstance(case, Merge) else check.attempt_call(case)


def simpler(case):
    if isinstance(case, Merge):
        yield from simpler_merge(case)
        return
    yield from (smaller for smaller in simpler_calls(case) if fits(smaller))


def test(case, failure, name):
    return (merge_test if isinstance(case, Merge) else check.call_test)(case, failure, name)


def group(case):
    """What a tally counts by."""
    return case.function


def load():
    """What takes seconds and makes no handle: once, before processes that run a case each."""
    check.MODULES.update(loaded())


def setup(device, budget):
    """Handles that tune for little: those of functions that take none are the shared ones, which are replaced."""
    name = "cuda" if device == "cuda" else "host"
    shared = gqa.Handle(name, tuning_budget=budget)
    place = "cuda:0" if device == "cuda" else "host"
    gqa._defaults._handles[place], gqa._defaults._cores[place] = shared, shared._core
    check.HANDLES["checked"] = gqa.Handle(name, tuning_budget=budget, checked=True)
    check.DEVICE["name"] = device
    load()


__all__ = ["ABOUT", "NAME", "attempt", "differing", "draw", "group", "load", "setup", "simpler", "test"]
