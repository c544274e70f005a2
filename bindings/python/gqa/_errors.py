"""Exceptions: one class a family of gqa_status, each with .status and the library's message.

Owns: which Python class a status becomes. Never: words a message; the library does.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Dict, Optional, Type


class Status(IntEnum):
    """gqa_status of gqa.h, without its GQA_ prefix."""

    OK = 0
    ERROR_NULL_ARGUMENT = 1
    ERROR_STRUCT_SIZE = 2
    ERROR_RANK = 3
    ERROR_DTYPE = 4
    ERROR_DEVICE = 5
    ERROR_SHAPE = 6
    ERROR_SIZE = 7
    ERROR_HEAD_DIM = 8
    ERROR_HEADS = 9
    ERROR_STRIDE = 10
    ERROR_ALIGNMENT = 11
    ERROR_ALIAS = 12
    ERROR_OPTION = 13
    ERROR_NO_DEVICE = 20
    ERROR_NO_COMPILER = 21
    ERROR_NOT_CACHED = 22
    ERROR_CAPTURING = 23
    ERROR_NO_CANDIDATE = 24
    ERROR_OUT_OF_MEMORY = 25
    ERROR_DEVICE_FAILED = 26
    ERROR_INTERNAL = 27
    ERROR_CANCELLED = 28


class GqaError(Exception):
    """A call that failed. str() says what was given, what was expected and what to do."""

    def __init__(self, message: str, status: Status) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple:
        return (type(self), (str(self), self.status))


class GqaValueError(GqaError, ValueError):
    """Arguments of the right type whose values do not fit: shapes, strides, heads, options."""


class GqaTypeError(GqaError, TypeError):
    """An argument of the wrong type: not a tensor, or a dtype that is not supported."""


class GqaMemoryError(GqaError, MemoryError):
    """Host or device memory ran out."""


class CancelledError(GqaError):
    """Handle.cancel ended the call before its kernel was ready."""


_CLASSES: Dict[Status, Type[GqaError]] = {
    Status.ERROR_DTYPE: GqaTypeError,
    Status.ERROR_OUT_OF_MEMORY: GqaMemoryError,
    Status.ERROR_CANCELLED: CancelledError,
}


def error_for(status: int, message: str, cause: Optional[BaseException] = None) -> GqaError:
    """The exception of a status: argument errors (below 20) are ValueErrors, but for a dtype, a TypeError."""
    known = Status(status)
    fallback = GqaValueError if known < Status.ERROR_NO_DEVICE else GqaError
    error = _CLASSES.get(known, fallback)(message, known)
    error.__cause__ = cause
    return error
