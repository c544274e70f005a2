"""Exceptions: one class a family of gqa_status, each with .status and the library's message.

Owns: which Python class a status becomes, and what the names of C in the library's messages are here. Never: words a
message; the library does.
"""

from __future__ import annotations

import re
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


FATAL = (Status.ERROR_DEVICE_FAILED, Status.ERROR_INTERNAL, Status.ERROR_CANCELLED)  # what no other library mends


class GqaError(Exception):
    """A call that failed, made of (message, status). str() says what was given, what was expected and what to do. There
    is no __init__: no way of calling the one above is compiled by both PyTorch 2.11 and 2.15."""

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def status(self) -> Status:
        return Status(self.args[1])


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


# The library's functions as this package has them, and a field of its structs, which is an argument here.
_NAMES: Dict[str, str] = {
    "gqa_cancel": "cancel()",
    "gqa_create": "gqa.Handle",
    "gqa_graph_create": "gqa.new_kernel_graph",
    "gqa_graph_input": "new_input",
    "gqa_graph_superoptimize": "superoptimize",
    "gqa_graph_text": "to_text()",
    "gqa_page_pool_create": "gqa.PagePool",
    "gqa_prepare": "the call",
    "gqa_warm": "gqa.warm",
}
_FIELD = re.compile(r"\bgqa_(?:call|options|search_options|serving|shape)\.(?=\w)")
_NAME = re.compile(r"\bgqa_\w+")


def in_python(message: str) -> str:
    """A message of the library's without a name of C."""
    message = _FIELD.sub("", message).replace("gqa_call has ", "the call has ")
    return _NAME.sub(lambda found: _NAMES.get(found[0], found[0]), message)


def renamed(error: GqaError, names: Dict[str, str]) -> GqaError:
    """The same, with arguments called as the function that was called has them."""
    if not names:
        return error
    words = re.compile(r"\b(?:" + "|".join(names) + r")\b")
    return type(error)(words.sub(lambda found: names[found[0]], str(error)), error.status)


def error_for(status: int, message: str, cause: Optional[BaseException] = None) -> GqaError:
    """The exception of a status: argument errors (below 20) are ValueErrors, but for a dtype, a TypeError."""
    known = status if isinstance(status, Status) else Status(status)  # of one, PyTorch 2.11 compiles no such call
    fallback = GqaValueError if known < Status.ERROR_NO_DEVICE else GqaError
    error = _CLASSES.get(known, fallback)(in_python(message), known)
    error.__cause__ = cause
    return error
