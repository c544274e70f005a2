"""What a graph gives: in float64, and operator by operator in its types, rounded to nearest or at random.

Never: calls gqa. A result's type is its operands', float32 where one of them is. An operator's sums have no order: where
it rounds at random, they are taken in a random one.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..types import TYPES


@dataclass
class Value:
    numbers: np.ndarray  # float64
    type: str
    overflowed: bool  # an operator made infinities or NaN of numbers on the way: what follows may be luck
    beyond: bool = False  # a number on the way is larger than its type's largest, but for infinities


def turned(x, yes):
    return x.swapaxes(-1, -2) if yes else x


def seen(x, left, right):
    rows, keys = x.shape[-2:]
    apart = np.arange(keys) - (np.arange(rows)[:, None] + keys - rows)
    return (apart >= (-math.inf if left is None else -left)) & (apart <= (math.inf if right is None else right))


def softmax(x, along):
    most = x.max(along, keepdims=True)
    weights = np.exp(x - np.where(np.isneginf(most), 0, most))
    total = weights.sum(along, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def gelu(x):
    if x.dtype == np.float64:
        return 0.5 * x * _erfc(-x / math.sqrt(2))
    return 0.5 * x * (1 + (1 - _erfc(x / np.float32(math.sqrt(2)))).astype(x.dtype))  # as float32's own erf has it


_erfc_of = np.vectorize(math.erfc, otypes=[np.float64])


def _erfc(x):
    return _erfc_of(np.asarray(x, np.float64))


OPERATORS = {
    "matmul": lambda a, b, ta, tb: turned(a, ta) @ turned(b, tb),
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "square": np.square,
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": gelu,
    "tanh": np.tanh,
    "clamp": lambda x, low, high: np.clip(x, low, high),
    "scale": lambda x, c: x * x.dtype.type(c),
    "add_constant": lambda x, c: x + x.dtype.type(c),
    "sum": lambda x, along: x.sum(along, keepdims=True),
    "max": lambda x, along: x.max(along, keepdims=True),
    "mean": lambda x, along: x.mean(along, keepdims=True),
    "softmax": softmax,
    "transpose": lambda x: x.swapaxes(-1, -2),
    "mask": lambda x, left, right: np.where(seen(x, left, right), x, x.dtype.type(-np.inf)),
}


def rms_norm(x, *weight_and_epsilon):
    *weight, epsilon = weight_and_epsilon
    normed = x / np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(epsilon))
    return normed * weight[0] if weight else normed


def shuffled(step, operands, random):
    """The operands of a sum with what it adds in another order."""
    if step.op == "matmul":
        (a, b), (ta, tb) = operands, step.numbers
        order = random.permutation(a.shape[-2 if ta else -1])
        return a.take(order, -2 if ta else -1), b.take(order, -1 if tb else -2)
    if step.op in ("sum", "mean"):
        (x,), (along,) = operands, step.numbers
        return (x.take(random.permutation(x.shape[along]), along),)
    return operands


def evaluate(case, arrays, rounding=None, order=None):
    """The last step's value; arrays: float64, by the inputs' names. rounding(numbers, type): of each result, which is
    computed in float32 then. order: of sums, a random generator."""
    real = np.float32 if rounding else np.float64
    values = {each.name: Value(arrays[each.name].astype(real), each.type, False) for each in case.inputs}
    for step in case.steps:
        operands = [values[name] for name in step.of]
        kinds = {value.type for value in operands}
        kind = "float32" if "float32" in kinds else kinds.pop()
        function = rms_norm if step.op == "rms_norm" else OPERATORS[step.op]
        given = tuple(value.numbers for value in operands)
        made = function(*(shuffled(step, given, order) if order else given), *step.numbers).astype(real)
        made = rounding(made, kind) if rounding else made
        fresh = step.op != "mask" and not np.isfinite(made).all()
        overflowed = any(value.overflowed for value in operands)
        if fresh and not overflowed:
            overflowed = all(np.isfinite(value.numbers).all() for value in operands)
        large = np.isfinite(made) & (np.abs(made) > TYPES[kind].most)
        beyond = bool(large.any()) or any(value.beyond for value in operands)
        values[step.name] = Value(made, kind, overflowed, beyond)
    last = values[case.steps[-1].name]
    return Value(last.numbers.astype(np.float64), last.type, last.overflowed, last.beyond)


def nearest(numbers, kind):
    return TYPES[kind].rounded(numbers)


def at_random(random):
    """Rounds up or down by chance, so that no error is small by luck."""

    def rounded(numbers, kind):
        of = TYPES[kind]
        size = np.maximum(np.abs(numbers.astype(np.float64)), of.least / of.step)
        step = of.step * 2.0 ** np.floor(np.log2(size))
        moved = numbers + (random.random(numbers.shape) - 0.5) * step * (3 if kind == "float32" else 1)
        return of.rounded(np.where(np.isfinite(numbers), moved, numbers))

    return rounded
