"""Smaller graphs, the boldest first: fewer steps, one set of magnitudes, smaller sizes, plainer inputs, milder numbers.

Never: runs one.
"""

from dataclasses import replace

from .case import tidy


def simpler(case):
    yield from (made for made in (tidy(each) for each in _simpler(case)) if made is not None and made != case)


def _simpler(case):
    if len(case.powers) > 1:
        yield from (replace(case, powers=(powers,)) for powers in case.powers)
    yield from (replace(case, steps=case.steps[:upto]) for upto in range(1, len(case.steps)))
    yield from (without(case, at) for at in range(len(case.steps) - 1))
    for at, (letter, n) in enumerate(case.sizes):
        for smaller in sorted({1, 2, n // 2, n - 1}):
            if 0 < smaller < n:
                yield replace(case, sizes=(*case.sizes[:at], (letter, smaller), *case.sizes[at + 1 :]))
    for at, each in enumerate(case.inputs):
        plainer = [replace(each, layout="plain"), replace(each, kind="normal"), replace(each, dims=each.dims[1:])]
        for made in plainer:
            if made.dims:
                yield replace(case, inputs=(*case.inputs[:at], made, *case.inputs[at + 1 :]))
    for at in range(len(case.inputs)):
        for factor in (0, 0.5):
            milder = tuple((*p[:at], int(p[at] * factor), *p[at + 1 :]) for p in case.powers)
            yield replace(case, powers=milder)
    yield replace(case, config=None)
    yield replace(case, frame="numpy")


def without(case, at):
    """Whoever read the step reads its first operand."""
    gone = case.steps[at]
    left = (
        replace(step, of=tuple(gone.of[0] if name == gone.name else name for name in step.of))
        for step in case.steps
        if step is not gone
    )
    return replace(case, steps=tuple(left))
