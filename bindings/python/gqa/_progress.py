"""What superoptimize(verbose=True) prints.

Owns: the wording of a search's progress; on a terminal one line that is written over, elsewhere a line a phase and
one every few seconds. Never: decides when to tell. Threads: one search, one line.
"""

from __future__ import annotations

import sys
from typing import NamedTuple, Optional, TextIO


class SearchProgress(NamedTuple):
    """How far a search is; numbers of its µGraphs, kernels and programs."""

    phase: str  # "search", "compile", "verify", "time"
    explored: int
    pruned: int
    proved: int
    kernels: int
    compiled: int
    programs: int
    verified: int
    timed: int
    best_us: float  # 0: none yet
    seconds: float

    def __str__(self) -> str:
        words = {
            "search": [f"{self.explored:,} explored, {self.pruned:,} pruned, {self.proved:,} proved"],
            "compile": [f"{self.compiled:,} of {self.kernels:,} kernels"],
            "verify": [f"{self.verified:,} of {self.programs:,} programs"],
            "time": [f"{self.timed:,} of {self.programs:,} programs"],
        }.get(self.phase, [])
        best = [f"best {self.best_us:,.1f} us"] if self.best_us > 0 else []
        return f"{self.phase}: {', '.join([*words, *best, f'{self.seconds:.1f} s'])}"


class ProgressLine:
    _EVERY = 5.0  # seconds between lines of one phase, where lines are not written over

    def __init__(self, stream: Optional[TextIO] = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._over = self._stream.isatty()
        self._last: Optional[SearchProgress] = None  # told, and not printed yet
        self._printed = 0.0  # seconds into the search
        self._open = False  # a line that may be written over

    def __call__(self, told: SearchProgress) -> None:
        if self._over:
            self._stream.write(f"\r\x1b[Kgqa: {told}")
            self._stream.flush()
            self._open = True
            return
        if self._last is not None and self._last.phase != told.phase:
            self._print(self._last)
        self._last = told
        if told.seconds - self._printed >= self._EVERY:
            self._print(told)

    def close(self) -> None:
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
        if self._last is not None:
            self._print(self._last)

    def _print(self, told: SearchProgress) -> None:
        print(f"gqa: {told}", file=self._stream, flush=True)
        self._last, self._printed = None, told.seconds
