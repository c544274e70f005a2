"""Runs a graph's program at each set of magnitudes, and judges what it gives.

Owns: the promise that is held to: where operator by operator is finite the program is; its error is at most NORM times
operator by operator's over all rows, and ROW times in one. Operator by operator's error is the root mean square of one
evaluation that rounds to nearest and several that round, and order their sums, by chance, and at least what rounding
makes of the result.
"""

import math
import time
from dataclasses import replace

import gqa
import numpy as np

from ..arrays import host, numbers
from ..judgement import ABSOLUTE, RELATIVE, Failure, equal_line, name_of, worst
from ..types import TYPES
from . import source
from .reference import at_random, evaluate, nearest

NORM, ROW, WRONG, ENOUGH = 1.5, 3.0, 30.0, 256
LOOSE_F32 = 20.0  # the operators' own approximations show
TOGETHER = 64  # elements of rows that are judged as one, where a row has fewer
BY_CHANCE = 8  # evaluations
# Evaluations of either kind that must be finite, too, where a program is blamed for not being it. A quotient by what
# cancels leaves its type in one of a hundred.
AGAIN = 1000
OTHER_NUMBERS = 3  # seeds at which an error that is small enough to be chance must be seen again
LATE = 5.0  # seconds, beside five times the budget

HANDLES, MODULES, DEVICE = {}, {}, {"name": "cpu", "budget": 0.2}


class Program:
    """A graph's program, and how long it was searched for."""

    def __init__(self, case, names):
        exec("\n".join(source.graph_lines(case)), names)
        start = time.monotonic()
        exec(source.program_line(case, DEVICE["budget"]), names)
        self.seconds = time.monotonic() - start
        self.made = names["program"]


def names_for(case, powers):
    names = {"np": np, "gqa": gqa, "handle": HANDLES["handle"], **MODULES}
    exec("\n".join(source.input_lines(case, powers, DEVICE["name"])), names)
    return names


def attempt(case):
    names = names_for(case, case.powers[0])
    try:
        program = Program(case, names)
    except gqa.GqaError as error:
        return refused(case, error)
    if program.seconds > LATE + 5 * DEVICE["budget"]:
        return Failure("slow", f"{program.seconds:.1f} s of search for a budget of {DEVICE['budget']}")
    for powers in case.powers:
        failure = judge(case, powers, program)
        if failure and failure.kind == "inexact" and not seen_again(case, powers, program):
            continue
        if failure:
            return failure
    return None


def refused(case, error):
    words = str(error).splitlines()[0]
    if any(means_little(case, powers) for powers in case.powers[:1]):
        return None
    return Failure("refused", f"{type(error).__name__}: {words}")


def means_little(case, powers):
    """Whether most of what operator by operator gives is no number."""
    arrays = arrays_of(case, names_for(case, powers))
    found = [evaluate(case, arrays), evaluate(case, arrays, nearest)]
    return min(np.isfinite(value.numbers).mean() for value in found) <= 0.9


def arrays_of(case, names):
    return {each.name: numbers(names[each.name]) for each in case.inputs}


def seen_again(case, powers, program):
    others = (replace(case, seed=case.seed + n) for n in range(1, OTHER_NUMBERS + 1))
    return sum(judge(other, powers, program) is not None for other in others) >= 2


def judge(case, powers, program):
    names = names_for(case, powers)
    before = {each.name: host(names[each.name]) for each in case.inputs}
    names["program"] = program.made
    exec(source.call_line(case), names)
    for each in case.inputs:
        if not np.array_equal(before[each.name], host(names[each.name])):
            return Failure("overwritten", f"input {each.name}", f"assert False, 'writes {each.name}'")
    return compare(case, arrays_of(case, names), numbers(names["out"]))


def by_chance(case, arrays, random):
    return evaluate(case, arrays, at_random(random), random).numbers


def compare(case, arrays, got):
    random = np.random.default_rng(case.seed)
    exact, near = evaluate(case, arrays), evaluate(case, arrays, nearest)
    others = [by_chance(case, arrays, random) for _ in range(BY_CHANCE)]
    want, kind = exact.numbers, TYPES[exact.type]
    if got.shape != want.shape:
        return Failure("wrong", f"shape {got.shape}, expected {want.shape}", f"assert out.shape == {want.shape}")
    sure = (np.abs(want) < 0.97 * kind.most) & np.isfinite(near.numbers) & np.isfinite(others).all(0)
    bad = sure & ~np.isfinite(got)
    again = 0
    while bad.any() and again < AGAIN:  # to nearest in another order of the sums, and by chance
        bad &= np.isfinite(evaluate(case, arrays, nearest, random).numbers)
        bad &= np.isfinite(by_chance(case, arrays, random))
        again += 1
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        words = f"{int(bad.sum())} of {bad.size}, the first out{name_of(at)} is {got[at]}; expected {want[at]:.5g}, "
        words += f"operator by operator {near.numbers[at]:.5g}"
        known = None
        if near.overflowed or exact.overflowed or exact.beyond:
            known = "not finite where operator by operator survives that a value leaves its type"
        return Failure("not finite", words, f"assert np.isfinite(float(out{name_of(at)}))", known)
    sure &= np.isfinite(got)
    return None if near.overflowed else compare_errors(got, want, [near.numbers, *others], kind, sure)


def compare_errors(got, want, naive, kind, sure):
    def squares(found):
        return np.where(sure, found - want, 0.0) ** 2

    chance = sum(squares(found) for found in naive[1:]) / (2 * BY_CHANCE)  # rounding so has twice the square
    columns = want.shape[-1]
    rows = -(-TOGETHER // columns)
    size = -(-want.size // (rows * columns))

    def folded(x):
        return np.pad(x.ravel(), (0, size * rows * columns - x.size)).reshape(size, -1).sum(-1)

    loose = LOOSE_F32 if kind.name == "float32" else 1.0
    least = (RELATIVE * kind.step) ** 2 * folded(np.where(sure, want, 0.0) ** 2)
    least += (ABSOLUTE * kind.least) ** 2 * folded(1.0 * sure)
    unit = np.maximum(np.maximum(folded(np.maximum(squares(naive[0]), chance)), least), 1e-300)
    off = np.sqrt(folded(squares(got)) / unit) / loose
    together = math.sqrt(float((off**2).mean()))
    if off.max() <= ROW and (together <= NORM or want.size < ENOUGH):
        return None
    row = int(off.argmax()) * rows * columns
    first = row + worst(squares(got).ravel()[row : row + rows * columns])[0]
    at = tuple(int(i) for i in np.unravel_index(first, want.shape))
    words = f"out{name_of(at)} is {got[at]:.6g}, expected {want[at]:.6g}, operator by operator {naive[0][at]:.6g}: "
    words += f"all rows are off by {together:.3g} times as much, the worst by {off.max():.3g}"
    line = equal_line("out", at, want[at], 0.7 * abs(got[at] - want[at]))
    return Failure("wrong" if off.max() > WRONG else "inexact", words, line)


def test(case, failure, name):
    """At the first set of magnitudes; of a graph that fails at another, shrinking leaves that alone."""
    torch = ["import torch"] if case.frame == "torch" else []
    bfloat = ["import ml_dtypes"] if not torch and any(each.type == "bfloat16" for each in case.inputs) else []
    device = "cuda" if DEVICE["name"] == "cuda" else "host"
    body = [
        f'handle = gqa.Handle("{device}", cache_mode="off"{"" if device == "cuda" else ", threads=1"})',
        *source.input_lines(case, case.powers[0], DEVICE["name"]),
        *source.graph_lines(case),
        source.program_line(case, DEVICE["budget"]),
        source.call_line(case),
        *([failure.assertion] if failure.assertion else []),
    ]
    lines = [*bfloat, "import gqa", "import numpy as np", *torch, "", "", f"def {name}():"]
    return "\n".join([*lines, *(f"    {line}" for line in body)]) + "\n"
