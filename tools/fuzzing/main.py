"""The command line of tools/fuzz.

Owns: the options, the process that outlives a crash of the one that runs cases, the summary, the exit status. Never:
calls gqa in its own process.
"""

import argparse
import collections
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from .judgement import Failure

KINDS = ("calls", "graphs")
PATIENCE = 300.0  # seconds that a case may take, compiling included

ABOUT = """\
usage: tools/fuzz calls|graphs [--seconds N | --cases N] [--seed S] [--device cuda]
       tools/fuzz calls|graphs --seed S --case N

Random programs, each held against a reference in float64. A program that fails is made smaller, and printed as a test
function that fails as it did. A seed's case is always the same one, whatever ran before. A line of progress comes every
15 seconds. The exit status is 1 where something failed that is not known to be open, else 0.

  calls    attention, flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache, merge_states: shapes, layouts,
           lists, masks and options that are drawn, with numbers that are hard. NaN lies where nobody may look
  graphs   one to a dozen operators, superoptimized: fragments of models and what may follow them, layouts, masks, five
           sets of magnitudes. Also held against the graph operator by operator in its types: as finite, as exact

  --seconds N   how long (60)
  --cases N     so many cases, however long that takes
  --seed S      which cases (1)
  --case N      one case of the seed, again
  --device D    cpu or cuda; cuda needs torch (cpu)
  --budget N    seconds that a shape may tune (0.02; a graph at least 0.1)
  --known       tells failures of open defects, too; others only count them

  example: tools/fuzz calls --seconds 180 --seed "$(date +%Y%m%d)"

It runs with the Python of build/venv, or with $PYTHON. It needs NumPy; ml_dtypes or torch for bfloat16. Kernels go to a
cache of its own, or to $GQA_CACHE.
"""


def parse(arguments):
    p = argparse.ArgumentParser(prog="tools/fuzz", add_help=False, usage=argparse.SUPPRESS)
    p.add_argument("kind", choices=KINDS)
    p.add_argument("--seconds", type=float)
    p.add_argument("--cases", type=int)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--case", type=int)
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--budget", type=float, default=0.02)
    p.add_argument("--known", action="store_true")
    # For a process that runs cases.
    p.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    p.add_argument("--keep", help=argparse.SUPPRESS)
    options = p.parse_args(arguments)
    if options.seed < 0 or (options.case or 0) < 0:
        p.error("--seed and --case are 0 or more")
    if options.case is not None:
        options.first, options.cases, options.known = options.case, 1, True
    if options.seconds is None and options.cases is None:
        options.seconds = 60.0
    return options


def main(arguments):
    if not arguments or {"-h", "--help"} & set(arguments):
        (sys.stdout if arguments else sys.stderr).write(ABOUT)
        return 0 if arguments else 2
    options = parse(arguments)
    if options.keep:
        return work(options)
    with tempfile.TemporaryDirectory(prefix="gqa-fuzz-") as folder:
        os.environ.setdefault("GQA_CACHE", os.path.join(folder, "cache.db"))
        return watch(options, os.path.join(folder, "kept"))


def kind_of(options):
    return importlib.import_module(f"fuzzing.{options.kind}")


def work(options):
    """The process that runs cases."""
    from .worker import Worker

    kind = kind_of(options)
    kind.setup(options.device, options.budget)
    with open(options.keep, "r+") as keep:
        worker = Worker(kind, options.seed, options.device, options.known, keep)
        return worker.run(options.first, options.seconds, options.cases)


class Total:
    def __init__(self):
        self.cases, self.failed, self.counts = 0, 0, collections.Counter()

    def add(self, kept):
        self.cases += kept["cases"]
        self.failed += kept["failed"]
        self.counts.update(kept["counts"])


def watch(options, keep):
    """Starts processes that run cases, until the time is over; a crash costs the case, and is a finding."""
    from .worker import BROKEN

    total, start, first, status = Total(), time.monotonic(), options.first, 0
    while not ended(options, total, start):
        with open(keep, "w") as file:
            json.dump({"number": first, "cases": 0, "failed": 0, "counts": {}}, file)
        left = [*rest(options, total, start), "--first", str(first), "--keep", keep]
        status = run(left, keep)
        with open(keep) as file:
            kept = json.load(file)
        total.add(kept)
        first = kept["number"] + 1
        if status in (0, BROKEN):
            continue
        if status > 0:
            return status  # it said why
        crash(options, kept["number"], -status, total)
    summary(options, total, time.monotonic() - start)
    return 1 if total.failed else 0


def ended(options, total, start):
    if options.cases is not None:
        return total.cases >= options.cases
    return time.monotonic() - start >= options.seconds - 1 and total.cases > 0


def rest(options, total, start):
    given = [options.kind, "--seed", str(options.seed), "--device", options.device, "--budget", str(options.budget)]
    if options.cases is not None:
        given += ["--cases", str(options.cases - total.cases)]
    else:
        given += ["--seconds", str(max(1.0, options.seconds - (time.monotonic() - start)))]
    return [*given, *(["--known"] if options.known else [])]


def run(arguments, keep):
    """The exit status; that of a process that stood still is -SIGKILL."""
    process = subprocess.Popen([sys.executable, "-m", "fuzzing", *arguments])
    try:
        while True:
            try:
                return process.wait(5)
            except subprocess.TimeoutExpired:
                if time.time() - os.stat(keep).st_mtime > PATIENCE:
                    process.kill()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise


def crash(options, number, signal_number, total):
    """Tells a case that took its process with it, made smaller in processes of their own."""
    from .shrinking import shrink
    from .worker import Worker, told

    kind = kind_of(options)
    name = "it stood still" if signal_number == signal.SIGKILL else f"signal {signal_number}"
    failure, case = Failure("crash", name), kind.draw(options.seed, number, options.device)
    total.cases += 1
    total.failed += 1
    total.counts[f"{kind.group(case)}: crash"] += 1
    if options.device == "cpu" and signal_number != signal.SIGKILL:
        kind.load()
        case, failure = shrink(case, failure, kind.simpler, lambda smaller: apart(kind, smaller, options), 100, 60.0)
    again = Worker(kind, options.seed, options.device).again
    print(told(kind, options.seed, number, case, failure, again), flush=True)


def apart(kind, case, options):
    """A case in a process of its own: the failure where that ends by a signal, else None."""
    child = os.fork()
    if not child:
        try:
            kind.setup(options.device, options.budget)
            kind.attempt(case)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return Failure("crash", f"signal {os.WTERMSIG(status)}") if os.WIFSIGNALED(status) else None


def summary(options, total, seconds):
    known = sum(n for name, n in total.counts.items() if ": known: " in name)
    rate = total.cases / max(seconds, 1e-9)
    print(
        f"{options.kind}, seed {options.seed}, {options.device}: {total.cases} cases in {seconds:.0f} s, "
        f"{rate:.1f} a second; "
        f"{total.failed} failed, {known} of known defects"
    )
    for name, count in sorted(total.counts.items()):
        print(f"  {count:7}  {name}")
