"""gqa.configure: what calls that name no handle do.

Owns: its arguments, and who is told. Never: tunes. Threads: any; it holds for calls that begin later.
"""

from __future__ import annotations

from typing import Optional

from . import _defaults, _doors
from ._handle import TUNINGS, one_of


def configure(*, tuning: Optional[str] = None) -> None:
    """Says what each later call does whose shape is not ready, of doors (use_as_sdpa, the FlashAttention implementation
    "gqa", Transformers) and of functions that name no handle: "now" (search and time within the budget), "guess" (the
    cost model's best, untimed and stored nowhere) or "cached-only" (fail; a door falls back). None: each as by default:
    doors guess, other functions tune. A call that tunes replaces a guess of its shape. gqa.warm tunes whatever is said
    here.
    """
    code = 0 if tuning is None else 1 + one_of("tuning", tuning, TUNINGS)
    _defaults.tune_as(code)
    _doors.configured(tuning is not None)
