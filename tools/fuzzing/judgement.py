"""When a result's rows are right: each is judged by itself, in units of what its type's naive computation is off by.

Owns: the bounds, what a failure is, the assertion that shows it in a test. Never: computes what is expected.

The idea is runtime/verify/judgement.h's, and the factors are wider: a race's candidates are judged on inputs of its own
choice, and here numbers are of any kind. A row may be off by what float32's scores are off by besides (`doubt`).
"""

import math
from dataclasses import dataclass
from typing import Optional, Tuple

import numpy as np

# A row's error may be so many units; one beyond WRONG is more than bad rounding. The root mean square of all rows
# together is held to TOGETHER, where there are enough of them for chance to be averaged away.
INEXACT, WRONG, TOGETHER, ENOUGH = 7.0, 40.0, 1.4, 60
# What rounding makes of a number, root mean square: relative, and absolute where it loses bits.
RELATIVE, ABSOLUTE = 0.2123, 0.29
LSE_RELATIVE, LSE_ABSOLUTE = 2e-6, 2e-5  # as the library's own judge has them


@dataclass(frozen=True)
class Failure:
    # "not finite", "wrong", "inexact", "outside", "log-sum-exp", "overwritten", "append", "refused", "raised", "crash"
    kind: str
    words: str
    assertion: str = ""  # a line of a test, "" where the call itself fails
    known: Optional[str] = None  # the open defect that this is an instance of

    def like(self) -> Tuple:
        """Failures that are alike are one finding."""
        return self.kind, self.known, self.words[:25] if self.kind in ("refused", "raised") else ""


def norm(x):
    """Rows' norms; of bfloat16's largest numbers too, whose squares leave float64's range by nothing but are many."""
    return np.sqrt((x * x).sum(-1))


@dataclass(frozen=True)
class Rows:
    """What rows (.., elements) should be. doubt: what float32's scores may be off by, as a share of a weight; size: of
    the terms that make a row; low, high: between which weighted means of its values lie, or None."""

    want: np.ndarray
    naive: np.ndarray
    doubt: np.ndarray
    size: np.ndarray
    low: Optional[np.ndarray] = None
    high: Optional[np.ndarray] = None
    sums: float = 0.0  # by which share float32's sums of these terms may be off, which is in doubt, too


def name_of(at):
    return "[" + ", ".join(str(int(i)) for i in at) + "]"


def worst(off):
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(off)), off.shape))


def equal_line(name, at, want, atol):
    return f"np.testing.assert_allclose(float({name}{name_of(at)}), {float(want)!r}, rtol=0, atol={atol:.3g})"


def judge_rows(got, rows, kind, name="out", places=lambda at: at, factor=1.0) -> Optional[Failure]:
    """places: where an element of `got` stands in the tensor that a test calls `name`."""
    known = np.isfinite(rows.naive)
    bad = ~np.isfinite(got) & known & np.isfinite(rows.doubt)[..., None]
    if bad.any():
        at = tuple(np.argwhere(bad)[0])
        count = f"{int(np.isnan(got).sum())} NaN and {int(np.isinf(got).sum())} inf of {got.size}"
        words = f"{count}, the first at {name}{name_of(places(at))}; expected {rows.want[at]:.6g}"
        return Failure("not finite", words, f"assert np.isfinite(float({name}{name_of(places(at))}))")
    usable = known.all(-1) & np.isfinite(rows.doubt) & np.isfinite(got).all(-1)
    if not usable.any():
        return None
    count = rows.want.shape[-1]
    least = RELATIVE * kind.step * norm(rows.want) + ABSOLUTE * kind.least * math.sqrt(count)
    unit = factor * np.maximum(norm(np.where(known, rows.naive, rows.want) - rows.want), least)
    unit = np.where(usable, unit + np.minimum(rows.doubt, 1e9) * rows.size, np.inf)
    apart = np.abs(got - rows.want)
    off = np.where(usable, norm(apart) / unit, 0.0)
    if (off > INEXACT).any():
        row = worst(off)
        at = (*row, int(apart[row].argmax()))
        words = f"{name}{name_of(places(at))} is {got[at]:.6g}, expected {rows.want[at]:.6g}: its row is off by "
        words += f"{off[row]:.3g} units, and {int((off > INEXACT).sum())} of {off.size} rows by over {INEXACT:g}"
        line = equal_line(name, places(at), rows.want[at], 0.9 * INEXACT * unit[row] / math.sqrt(count))
        return Failure("wrong" if off[row] > WRONG else "inexact", words, line)
    if rows.low is not None:
        slack = 4 * (kind.step + rows.sums) * np.maximum(np.abs(rows.low), np.abs(rows.high)) + 8 * kind.least
        out = usable[..., None] & ((got < rows.low - slack) | (got > rows.high + slack))
        if out.any():
            at = tuple(np.argwhere(out)[0])
            place, low, high = f"{name}{name_of(places(at))}", rows.low[at], rows.high[at]
            words = f"{place} is {got[at]:.6g}; all values that it is a mean of lie in {low:.6g} to {high:.6g}"
            line = f"assert {low - slack[at]:.6g} <= float({place}) <= {high + slack[at]:.6g}"
            return Failure("outside", words, line)
    together = math.sqrt(float((off[usable] ** 2).mean()))
    if usable.sum() > ENOUGH and together > TOGETHER:
        row = worst(off)
        at = (*row, int(apart[row].argmax()))
        words = (
            f"all {int(usable.sum())} rows are off by {together:.2f} units, root mean square, none by over {INEXACT:g}"
        )
        line = equal_line(name, places(at), rows.want[at], apart[at] / 1.4) + "  # of all rows that are off, the worst"
        return Failure("inexact", words, line)
    return None


def judge_lse(got, want, naive, doubt, name="lse", places=lambda at: at) -> Optional[Failure]:
    """doubt: absolute."""
    usable = ~np.isnan(naive) & (np.isfinite(naive) | ~np.isfinite(want))
    with np.errstate(invalid="ignore"):
        allowed = np.maximum(LSE_ABSOLUTE, LSE_RELATIVE * np.abs(want)) + doubt + 6 * np.abs(naive - want)
        right = (got == want) | (np.abs(got - want) <= allowed)
    bad = usable & ~right
    if not bad.any():
        return None
    at = tuple(np.argwhere(bad)[0])
    words = (
        f"{name}{name_of(places(at))} is {got[at]:.8g}, expected {want[at]:.8g}; {int(bad.sum())} of {bad.size} are off"
    )
    if not np.isfinite(want[at]):
        return Failure(
            "log-sum-exp",
            words,
            f"assert float({name}{name_of(places(at))}) == -np.inf".replace(
                "-np.inf", "-np.inf" if want[at] < 0 else "np.inf"
            ),
        )
    return Failure("log-sum-exp", words, equal_line(name, places(at), want[at], float(allowed[at])))
