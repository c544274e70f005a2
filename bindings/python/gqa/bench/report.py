"""What is printed: a table a grid, and the same as JSON.

Owns: medians, ratios and columns. Never: times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any, Dict, List, Optional, Tuple, Union

from .graph_cases import GraphCase
from .serving_cases import ServingCase
from .shapes import Shape


@dataclass
class Result:
    """One shape: each contestant's microseconds, a number a round, its error, or why it did not run."""

    shape: Union[Shape, GraphCase, ServingCase]
    sets: int
    times: Dict[str, List[float]] = field(default_factory=dict)
    errors: Dict[str, float] = field(default_factory=dict)
    failures: Dict[str, str] = field(default_factory=dict)
    error_ratios: Dict[str, float] = field(default_factory=dict)  # of graphs: over operator by operator's, in norm

    def us(self, name: str) -> float:
        return median(self.times[name])

    def ratio(self, name: str) -> float:
        """How many times as long as gqa a contestant takes: the median of the rounds' ratios."""
        return median(theirs / ours for theirs, ours in zip(self.times[name], self.times["gqa"]))

    def best_peer(self) -> Optional[str]:
        peers = [name for name in self.times if not name.startswith("gqa")]  # gqa.attention is none
        return min(peers, key=self.us) if peers and "gqa" in self.times else None

    def as_json(self) -> Dict[str, Any]:
        best = self.best_peer()
        lengths = {"lengths": self.shape.lengths()} if isinstance(self.shape, ServingCase) else {}
        return {
            "shape": str(self.shape),
            **lengths,
            "input_sets": self.sets,
            "us": {name: self.us(name) for name in self.times},
            "samples_us": self.times,
            "tflops": {name: self._tflops(name) for name in self.times},
            "gbps": {name: self._gbps(name) for name in self.times},
            "max_abs_error": self.errors,
            **({"error_norm_ratio": self.error_ratios} if self.error_ratios else {}),
            "ratio": {name: self.ratio(name) for name in self.times if "gqa" in self.times},
            "best_peer": best,
            "failures": self.failures,
        }

    def _tflops(self, name: str) -> float:
        return self.shape.flops() / self.us(name) / 1e6

    def _gbps(self, name: str) -> float:
        return self.shape.bytes() / self.us(name) / 1e3

    def rate(self, name: str) -> str:
        if not self.shape.decode:
            return f"{self._tflops(name):.3g} TFLOP/s"
        gbps = self._gbps(name)
        return f"{gbps:.0f} GB/s" if gbps < 1000 else f"{gbps / 1000:.2f} TB/s"


_COLUMNS = ("shape", "library", "us", "rate", "time / gqa", "error / op by op", "max abs error")  # the sixth: of graphs


def rows_of(result: Result) -> List[Tuple[str, ...]]:
    rows = []
    for name in result.times:
        ratio = f"{result.ratio(name):.3f}" if "gqa" in result.times else "-"
        off = f"{result.error_ratios[name]:.2f}" if name in result.error_ratios else "-"
        error = f"{result.errors[name]:.2g}"
        rows.append((str(result.shape), name, f"{result.us(name):.1f}", result.rate(name), ratio, off, error))
    for name, why in result.failures.items():
        rows.append((str(result.shape), name, "-", "-", "-", "-", f"failed: {why}"))
    return [rows[0]] + [("",) + row[1:] for row in rows[1:]]


def table(results: List[Result]) -> str:
    rows: List[Tuple[str, ...]] = [_COLUMNS]
    for result in results:
        rows += rows_of(result)
    if not any(result.error_ratios for result in results):
        rows = [row[:5] + row[6:] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)] + [0]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def summary(result: Result) -> str:
    """One line a shape: the ratio that counts; of lengths that a seed gave, a line that says them."""
    if isinstance(result.shape, ServingCase):
        return f"{_ratio(result)}\n  {result.shape.told()}"
    return _ratio(result)


def _ratio(result: Result) -> str:
    best = result.best_peer()
    if best is None:
        why = "; ".join(f"{name}: {reason}" for name, reason in result.failures.items())
        return f"{result.shape}: no ratio ({why})"
    ratio, peer_us, gqa_us = result.ratio(best), result.us(best), result.us("gqa")
    return f"{result.shape}: best peer / gqa = {ratio:.3f} ({best} {peer_us:.1f} us, gqa {gqa_us:.1f} us)"
