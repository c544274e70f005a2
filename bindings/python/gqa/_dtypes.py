"""gqa.float16, gqa.bfloat16, gqa.float32: the dtypes of a graph's tensors, and what else may stand for them.

Owns: the names. Never: imports a framework. Threads: constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Tuple

from ._errors import Status, error_for


@dataclass(frozen=True)
class DType:
    """A dtype as DLPack has it. Where a function takes one, a torch or NumPy dtype or its name will do as well."""

    name: str
    code: int  # DLDataTypeCode
    bits: int

    def __repr__(self) -> str:
        return f"gqa.{self.name}"

    def __str__(self) -> str:
        return self.name


float16 = DType("float16", 2, 16)
bfloat16 = DType("bfloat16", 4, 16)
float32 = DType("float32", 2, 32)

_BY_NAME: Dict[str, DType] = {
    **{dtype.name: dtype for dtype in (float16, bfloat16, float32)},
    **{"fp16": float16, "half": float16, "bf16": bfloat16, "fp32": float32, "float": float32},
}
_BY_CODE: Dict[Tuple[int, int], DType] = {(dtype.code, dtype.bits): dtype for dtype in (float16, bfloat16, float32)}


def dtype_of(given: Any) -> DType:
    """gqa.float16, torch.float16, numpy.float16, numpy.dtype("float16"), "float16", ..."""
    if isinstance(given, DType):
        return given
    name = given if isinstance(given, str) else getattr(given, "name", None) or getattr(given, "__name__", None)
    known = _BY_NAME.get(str(name or given).replace("torch.", ""))
    if known is None:
        raise error_for(
            Status.ERROR_DTYPE,
            f"dtype is {given!r}; expected gqa.float16, gqa.bfloat16 or gqa.float32, or a name of one",
        )
    return known


def from_code(code: int, bits: int) -> DType:
    """What the library says a dtype is."""
    return _BY_CODE[code, bits]
