"""What superoptimize and warm_serving print where verbose is True.

Owns: the wording of their progress; on a terminal one line that is written over, elsewhere a line a phase and one every
few seconds. Never: decides when to tell. Threads: one piece of work, one line.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Iterator, NamedTuple, Optional, TextIO, Union


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


class ServingProgress(NamedTuple):
    """How far warm_serving is, and its plan."""

    shapes: int
    tuned: int  # of them, those that the cache had a tuned winner for before
    kernels: int  # that the others are about to try
    to_compile: int  # of them, those that are not cached
    about_seconds: float  # of the work, an estimate
    most_seconds: float  # where every shape spends its whole tuning_budget
    done: int  # shapes, so far
    failed: int  # of those
    shape: Optional[str]  # the last that was done, as gqa-cache writes it; None: this is the plan, before any
    seconds: float

    @property
    def phase(self) -> str:
        return "plan" if self.shape is None else "warm"

    def __str__(self) -> str:
        if self.shape is None:
            return (
                f"plan: {self.shapes:,} shapes, {self.tuned:,} tuned already; {self.kernels:,} kernels, "
                f"{self.to_compile:,} to compile; about {self.about_seconds:,.0f} s, up to {self.most_seconds:,.0f} s"
            )
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"warm: {self.done:,} of {self.shapes:,} shapes{failed}, {self.seconds:,.1f} s; {self.shape}"


Told = Union[SearchProgress, ServingProgress]


def check_verbose(verbose: Any) -> None:
    if verbose is not None and not isinstance(verbose, bool) and not callable(verbose):
        raise TypeError(f"verbose is a {type(verbose).__name__}; expected True, False or a callable")


@contextlib.contextmanager
def listener(verbose: Any) -> Iterator[Optional[Callable[[Any], None]]]:
    """Who is told: a line on stderr (True), the callable, or nobody (None)."""
    line = ProgressLine() if verbose is True else None
    try:
        yield line or (verbose if callable(verbose) else None)
    finally:
        if line is not None:
            line.close()


class ProgressLine:
    _EVERY = 5.0  # seconds between lines of one phase, where lines are not written over

    def __init__(self, stream: Optional[TextIO] = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._over = self._stream.isatty()
        self._last: Optional[Told] = None  # told, and not printed yet
        self._printed = 0.0  # seconds into the work
        self._open = False  # a line that may be written over

    def __call__(self, told: Told) -> None:
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

    def _print(self, told: Told) -> None:
        print(f"gqa: {told}", file=self._stream, flush=True)
        self._last, self._printed = None, told.seconds
