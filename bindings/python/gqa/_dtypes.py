"""gqa.float16, gqa.bfloat16, gqa.float32: the dtypes of tensors, and what else may stand for them.

Owns: the names. Never: imports a framework. Threads: constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

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


def name_of(given: Any) -> str:
    """The name of a dtype, or of what stands for one; "" where it has none.

    torch.float16, numpy.float16, numpy.dtype("float16") and "float16" are all named "float16".
    """
    name = given if isinstance(given, str) else getattr(given, "name", None) or getattr(given, "__name__", None)
    if not isinstance(name, str):
        name = str(given) if type(given).__module__ == "torch" and type(given).__name__ == "dtype" else ""
    return name.replace("torch.", "")[:60]


def known(given: Any) -> Optional[DType]:
    """gqa.float16, torch.float16, numpy.float16, numpy.dtype("float16"), "float16", ...; None: none of the three."""
    return given if isinstance(given, DType) else _BY_NAME.get(name_of(given))


def dtype_of(given: Any) -> DType:
    """The same, which refuses what is none."""
    found = known(given)
    if found is not None:
        return found
    raise error_for(
        Status.ERROR_DTYPE,
        f"dtype is {name_of(given) or 'a ' + type(given).__name__}; expected gqa.float16, gqa.bfloat16 or gqa.float32, or a name "
        "of one",
    )


def from_code(code: int, bits: int) -> DType:
    """What the library says a dtype is."""
    return _BY_CODE[code, bits]
