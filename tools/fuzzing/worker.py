"""Runs cases one after another, tells what fails, shrinks it and prints it as a test.

Owns: one process's loop and its tally, kept in a file so that it outlives a crash. Never: decides how long in all; see
main.py.
"""

import collections
import json
import os
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, field
from typing import Optional

import numpy as np

from .judgement import Failure
from .shrinking import shrink

EVERY = 15.0  # seconds between lines of progress
ALIKE = 2  # findings that are alike and told; all are counted
BROKEN = 3  # exit status of a process whose device is lost


@dataclass
class Tally:
    cases: int = 0
    failed: int = 0  # news alone
    counts: dict = field(default_factory=collections.Counter)  # "function: outcome"
    findings: list = field(default_factory=list)  # numbers of the cases that were told


def guarded(kind, case) -> Optional[Failure]:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kind.attempt(case)
    except Exception as error:  # a fault of the program's or of the fuzz's: told either way
        frames = traceback.extract_tb(error.__traceback__)
        at = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}"
        return Failure("raised", f"{type(error).__name__}: {error} ({at})")


def lost(failure):
    """Whether the device answers no more, so that all later calls would fail, too."""
    words = failure.words.lower()
    return any(sign in words for sign in ("illegal", "misaligned", "launch failure", "launch_failed"))


def told(kind, seed, number, case, failure, again):
    """The lines of a finding."""
    name = f"test_{kind.NAME}_seed_{seed}_case_{number}"
    label = f" [known: {failure.known}]" if failure.known else ""
    fields = ", ".join(f"{name}={value!r}" for name, value in kind.differing(case).items())
    return (
        f"\nFAILED case {number}: {failure.kind}: {' '.join(failure.words.split())[:400]}{label}\n"
        f"  again: {again} --seed {seed} --case {number}\n  smallest: {fields}\n\n{kind.test(case, failure, name)}"
    )


class Worker:
    def __init__(self, kind, seed, device, show_known=False, keep=None, print_to=None):
        self.kind, self.seed, self.device, self.show_known, self.keep = kind, seed, device, show_known, keep
        self.tally, self.shown, self.print_to = Tally(), collections.Counter(), print_to or sys.stdout
        self.again = f"tools/fuzz {kind.NAME}" + (f" --device {device}" if device != "cpu" else "")

    def run(self, first, seconds=None, cases=None):
        """Cases from this number on. 0, or BROKEN after a loss of the device."""
        start = said = time.monotonic()
        number, done = first, 0
        while (seconds is None or time.monotonic() - start < seconds) and (cases is None or done < cases):
            case = self.kind.draw(self.seed, number, self.device)
            if case is not None:
                self.remember(number)
                if self.one(number, case):
                    return BROKEN
                done += 1
            number += 1
            if time.monotonic() - said >= EVERY:
                said = time.monotonic()
                self.progress(said - start, number)
        self.remember(number)
        return 0

    def one(self, number, case):
        """Whether the device is lost."""
        failure = guarded(self.kind, case)
        self.tally.cases += 1
        outcome = "right" if failure is None else f"known: {failure.known}" if failure.known else failure.kind
        self.tally.counts[f"{self.kind.group(case)}: {outcome}"] += 1
        if failure is None:
            return False
        self.tally.failed += failure.known is None
        self.tell(number, case, failure)
        return self.device != "cpu" and lost(failure)

    def tell(self, number, case, failure):
        if failure.known and not self.show_known:
            return
        like = (self.kind.group(case), failure.like())
        self.shown[like] += 1
        if self.shown[like] > ALIKE:
            return
        self.tally.findings.append(number)
        if not (self.device != "cpu" and lost(failure)):
            case, failure = shrink(case, failure, self.kind.simpler, lambda smaller: guarded(self.kind, smaller))
        print(told(self.kind, self.seed, number, case, failure, self.again), file=self.print_to, flush=True)

    def remember(self, number):
        if self.keep is None:
            return
        kept = {"number": number, "cases": self.tally.cases, "failed": self.tally.failed, "counts": self.tally.counts}
        self.keep.seek(0)
        self.keep.write(json.dumps(kept))
        self.keep.truncate()
        self.keep.flush()

    def progress(self, seconds, number):
        done, failed = self.tally.cases, self.tally.failed
        print(
            f"  {seconds:.0f} s: {done} cases, {done / seconds:.1f} a second, {failed} failed",
            file=sys.stderr,
            flush=True,
        )
