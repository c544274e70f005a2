"""Python's numbers as what the library takes: a float, 64 bits, a dimension.

Never: judges a value of the library. Threads: pure functions.
"""

from __future__ import annotations

import operator
from numbers import Real
from typing import Any

from ._errors import Status, error_for

_INT32, _INT64 = 1 << 31, 1 << 63


def real(given: Any) -> float:
    if isinstance(given, Real):
        return float(given)
    raise error_for(Status.ERROR_DTYPE, f"{given!r} is a {type(given).__name__}; expected a number")


def whole_number(name: str, given: Any) -> int:
    try:
        number = operator.index(given)
    except TypeError as cause:
        raise error_for(
            Status.ERROR_DTYPE, f"{name} is {given!r}, a {type(given).__name__}; expected a whole number", cause
        )
    if not -_INT64 <= number < _INT64:
        raise error_for(Status.ERROR_SIZE, f"{name} is {number}; expected a number of 64 bits")
    return number


def whole_numbers(name: str, given: Any) -> "list[int]":
    try:
        items = list(given)
    except TypeError as cause:
        raise error_for(
            Status.ERROR_DTYPE, f"{name} is {given!r}; expected several whole numbers, as in (2, 256, 64)", cause
        )
    return [whole_number(f"{name}[{at}]", item) for at, item in enumerate(items)]


def dim(given: Any) -> int:
    number = whole_number("dim", given)
    if not -_INT32 <= number < _INT32:
        raise error_for(Status.ERROR_RANK, f"dim is {number}; expected one of the value's dimensions")
    return number
