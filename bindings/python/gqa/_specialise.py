"""A graph for inputs of other dims than it was declared with: its operators put again, on such inputs.

Owns: what of a graph follows its inputs (sizes, strides, a broadcast's dims) and what stays as it was put, and the
words of a refusal. Never: judges whether operators suit sizes; the library does. Threads: pure functions.
"""

from __future__ import annotations

import re
from typing import List, Optional, Sequence, Tuple

from . import _gqa
from ._errors import GqaError, Status, error_for

Dims = Tuple[int, ...]

_INPUT = re.compile(r"(\S+ = input \S+)\[([\d,]*)\](?: strides=\[([\d,]*)\])?$")
_BROADCAST = re.compile(r"(\S+ = broadcast\((\S+)\) dims=)\[([\d,]*)\]$")
_MOST = 400  # characters of a message
_REFUSED_AT = re.compile(r"line (\d+): (.*)", re.DOTALL)


def specialised(text: str, sizes: Sequence[Dims]) -> str:
    """The text of the graph that `text` is, whose inputs have these sizes, in their order. Raises the refusal of the
    first operator that they do not suit, and names it."""
    lines = text.splitlines()
    if any(" = custom(" in line or line.startswith("custom(") for line in lines):
        raise error_for(
            Status.ERROR_SHAPE,
            f"the inputs have other dims than declared, {_shown(sizes)}, and the graph holds generated kernels "
            "(custom), which are for theirs alone; expected the declared dims, or a graph of operators",
        )
    declared = _gqa.Graph.parse(text)
    made: List[str] = []
    given = iter(enumerate(sizes))
    for line in lines:
        if found := _INPUT.match(line):
            at, dims = next(given)
            line = _input(at, dims, found[1], _numbers(found[2]), None if found[3] is None else _numbers(found[3]))
        elif found := _BROADCAST.match(line):
            was, now = (graph.describe(graph.find(found[2]))[0] for graph in (declared, _parsed(made, sizes)))
            line = f"{found[1]}[{_listed(_broadcast(_numbers(found[3]), was, now))}]"
        made.append(line)
    _parsed(made, sizes)
    return "\n".join(made) + "\n"


def _broadcast(put: Dims, was: Dims, now: Dims) -> Dims:
    """A dimension that was the operand's own follows it; one that was stretched stays as long as it was put."""
    new = len(put) - len(was)
    return (*put[:new], *(size if before == wanted else wanted for before, size, wanted in zip(was, now, put[new:])))


def _input(at: int, dims: Dims, head: str, declared: Dims, strides: Optional[Dims]) -> str:
    if len(dims) != len(declared):
        raise error_for(
            Status.ERROR_RANK,
            f"input {at} has {len(dims)} dimensions, {tuple(dims)}; expected {len(declared)}, as it was declared with, "
            f"{declared}: a graph is specialised to other sizes, not to another number of dimensions",
        )
    line = f"{head}[{_listed(dims)}]"
    return line if strides is None else f"{line} strides=[{_listed(_strides(at, dims, declared, strides))}]"


def _strides(at: int, dims: Dims, declared: Dims, strides: Dims) -> Dims:
    """Strides of an input that was declared with its own: dimensions in the same order, without gaps where it had
    none. A gap, an overlap or a 0 stays, where the dimensions within are as long as they were."""
    made = list(strides)
    before = now = 1  # where the next dimension begins, where there is no gap: as declared, and now
    same = True  # all within are as long as declared
    for axis in sorted(range(len(dims)), key=lambda axis: (strides[axis], declared[axis] > 1, -axis)):
        if strides[axis] == 0:
            continue
        if strides[axis] == before:
            made[axis] = now
        elif not same or (declared[axis] == 1 and dims[axis] > 1):
            raise error_for(
                Status.ERROR_STRIDE,
                f"input {at} has dims {tuple(dims)}; its declared strides {strides}, of dims {declared}, leave a gap "
                f"or overlap before dimension {axis}; expected the declared sizes within. Declare a graph of these "
                "dims and strides",
            )
        elif declared[axis] == 1:
            continue
        before, now = strides[axis] * declared[axis], made[axis] * dims[axis]
        same = same and dims[axis] == declared[axis]
    return tuple(made)


def _parsed(lines: Sequence[str], sizes: Sequence[Dims]) -> _gqa.Graph:
    try:
        return _gqa.Graph.parse("\n".join(lines) + "\n")
    except GqaError as error:
        found = _REFUSED_AT.match(str(error))
        if found is None:
            raise
        said = f"the graph cannot be specialised to inputs of dims {_shown(sizes)[:120]}: "
        said += f"at {lines[int(found[1]) - 1][:60]}: "
        raise error_for(error.status, f"{said}{found[2][: _MOST - len(said)]}") from None


def _numbers(listed: str) -> Dims:
    return tuple(map(int, listed.split(",")))


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _shown(sizes: Sequence[Dims]) -> str:
    return ", ".join(f"[{_listed(dims)}]" for dims in sizes)
