"""Random programs held against a reference in float64: what tools/fuzz runs.

Owns: main.py (the command line, the loop, the tally), worker.py (cases one after another, in a process that may crash),
shrinking.py, judgement.py (rows of a result in units of the naive computation's error), types.py, arrays.py,
modules.py, and a package for each kind of program: calls/, graphs/. Never: imported by gqa; never trusts gqa for an
expected number.

A kind of program is a module with these functions:

  draw(seed, number, device) -> case    case `number` of a seed, whatever was drawn before
  attempt(case) -> Failure or None      runs it, and judges it
  simpler(case) -> cases                smaller ones, the boldest first
  test(case, failure, name) -> str      it as a test function that fails as it did
  differing(case) -> dict               what it says beyond the simplest case
  group(case) -> str                    what a tally counts by
  load()                                imports, which take seconds
  setup(device, budget)                 handles, once in a process that runs cases
"""
