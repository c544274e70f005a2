"""What a random graph is: its inputs, its steps, the sizes that they share, and the magnitudes that it is tried at.

Owns: the dimensions of each value, which say whether a case is a graph at all. Never: draws, or makes a tensor.
"""

from dataclasses import dataclass, fields
from typing import Dict, Optional, Tuple

Dims = Tuple[str, ...]  # a letter of Case.sizes, or "1"

BINARY = ("add", "sub", "mul", "div")
REDUCTIONS = ("sum", "max", "mean")
UNARY = ("exp", "sqrt", "square", "reciprocal", "relu", "silu", "gelu", "tanh")


@dataclass(frozen=True)
class Input:
    name: str
    dims: Dims
    type: str
    kind: str = "normal"  # "positive", "hides" (0 or -inf), "least" (0 or a large negative number), "zero or one"
    layout: str = "plain"  # "swapped": the last two dimensions lie the other way; "gaps" between rows


@dataclass(frozen=True)
class Step:
    name: str
    op: str
    of: Tuple[str, ...]
    numbers: Tuple = ()


@dataclass(frozen=True)
class Case:
    inputs: Tuple[Input, ...] = ()
    steps: Tuple[Step, ...] = ()
    sizes: Tuple[Tuple[str, int], ...] = ()
    powers: Tuple[Tuple[int, ...], ...] = ((),)  # of two, one an input: the deviation of its numbers; a set each
    config: Optional[str] = None
    frame: str = "numpy"  # or "torch"
    seed: int = 0


def shape_of(case, dims):
    sizes = dict(case.sizes)
    return tuple(1 if d == "1" else sizes[d] for d in dims)


def dims_of(case) -> Dict[str, Dims]:
    """Each value's dimensions. ValueError where the steps do not fit each other."""
    found = {each.name: each.dims for each in case.inputs}
    for step in case.steps:
        operands = [found[name] for name in step.of] if all(name in found for name in step.of) else None
        if operands is None:
            raise ValueError(f"{step.name} reads what is not there")
        found[step.name] = result_dims(step, operands)
    return found


def result_dims(step, operands):
    first = operands[0]
    if step.op in BINARY:
        return stretched(*operands)
    if step.op == "matmul":
        a, b = (swap(dims) if turned else dims for dims, turned in zip(operands, step.numbers))
        if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
            raise ValueError(f"{step.name} multiplies {a} and {b}")
        return stretched(a[:-2], b[:-2]) + (a[-2], b[-1])
    if step.op in REDUCTIONS:
        at = step.numbers[0] % len(first)
        return first[:at] + ("1",) + first[at + 1 :]
    if step.op == "transpose":
        return swap(first)
    if step.op == "rms_norm" and len(operands) > 1 and operands[1] != first[-1:]:
        raise ValueError(f"{step.name}: a weight of {operands[1]} for {first}")
    if step.op == "mask" and len(first) < 2:
        raise ValueError(f"{step.name}: a mask of a vector")
    return first


def swap(dims):
    if len(dims) < 2:
        raise ValueError("a vector has no transpose")
    return dims[:-2] + dims[:-3:-1]


def stretched(a, b):
    count = max(len(a), len(b))
    pairs = list(zip(*(("1",) * (count - len(dims)) + dims for dims in (a, b))))
    if any(x != y and "1" not in (x, y) for x, y in pairs):
        raise ValueError(f"{a} does not meet {b}")
    return tuple(y if x == "1" else x for x, y in pairs)


def tidy(case) -> Optional[Case]:
    """Without what the last step does not need; None where nothing is left, or it is no graph."""
    if not case.steps:
        return None
    needed, steps = {case.steps[-1].name}, []
    for step in reversed(case.steps):
        if step.name in needed:
            needed.update(step.of)
            steps.insert(0, step)
    kept = [at for at, each in enumerate(case.inputs) if each.name in needed]
    inputs = tuple(case.inputs[at] for at in kept)
    letters = {d for each in inputs for d in each.dims}
    made = Case(
        inputs,
        tuple(steps),
        tuple((letter, n) for letter, n in case.sizes if letter in letters),
        tuple(tuple(powers[at] for at in kept) for powers in case.powers),
        case.config,
        case.frame,
        case.seed,
    )
    try:
        dims_of(made)
    except ValueError:
        return None
    return made if inputs else None


def differing(case):
    """The fields that are not at their simplest."""
    return {f.name: getattr(case, f.name) for f in fields(Case) if getattr(case, f.name) != f.default}
