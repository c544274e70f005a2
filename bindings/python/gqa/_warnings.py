"""The library's warnings as Python's.

Owns: their category, and whose line they point at. Never: words one; the library does. Threads: any.
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
