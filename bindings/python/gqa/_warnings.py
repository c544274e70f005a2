"""The library's warnings as Python's, and one of this package's own.

Owns: their category, and whose line they point at; how a layout is told that looks right and is not. Never: words what
the library warns of. Threads: any.
"""

from __future__ import annotations

import sys
import warnings
from typing import List


def warn(messages: List[str]) -> None:
    """One warning each, at the line outside this package whose call led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    for message in messages:
        warnings.warn(message, RuntimeWarning, stacklevel=level)


LIKELY_HEADS = 256  # a layer has no more
_told: List[str] = []


def warn_of_layout(name: str, expected: str, *, heads: int, tokens: int) -> None:
    """Once, where heads and tokens look swapped: numbers that fit each other are not refused."""
    if heads > LIKELY_HEADS and heads > tokens and not _told:
        _told.append(name)
        given = f"{name} has {heads} heads and {tokens} tokens"
        warn([f"{given}; expected {expected}: are they swapped? {name}.transpose(1, 2) swaps them back"])
