"""What an argument that is no tensor may be, by its name: before the library, or the binding's converters, see it.

Owns: the kinds (a flag, a whole number, a factor, a window, ...), each with its refusal, and which argument is of which.
A kind is called with the argument's name and what was given, and returns what the library takes. Never: prints a tensor,
or judges what the library judges better. Threads: pure functions.
"""

from __future__ import annotations

import operator
import os
from numbers import Number, Real
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._errors import Status, error_for

Kind = Callable[[str, Any], Any]
Window = Optional[Tuple[int, int]]

MOST_INT32, MOST_INT64 = 2**31 - 1, 2**63 - 1
LEAST_FLOAT, MOST_FLOAT = 2.0**-126, (2 - 2.0**-23) * 2.0**127  # of float32's numbers that kernels do not take for 0
HEAD_DIMS = (16, 32, 64, 80, 96, 112, 128, 192, 256)  # that there are kernels of
_SHOWN = 60  # characters of what was given


def shown(given: Any) -> str:
    """For messages: a number, a text or a few of them as they are, anything else by its type."""
    if isinstance(given, int) and abs(given) > 10**_SHOWN:
        return f"a number of {given.bit_length()} bits"
    parts = given[:_SHOWN] if isinstance(given, (tuple, list)) else [given]
    if not all(part is None or isinstance(part, (str, bytes, Number)) for part in parts):
        return f"a {type(given).__name__}"
    said = repr(given[:_SHOWN] if isinstance(given, (str, bytes, tuple, list)) else given)
    return said if len(said) <= _SHOWN else said[: _SHOWN - 3] + "..."


def refuse(name: str, given: Any, expected: str, status: Status = Status.ERROR_DTYPE) -> BaseException:
    return error_for(status, f"{name} is {shown(given)}; expected {expected}")


# ---- the kinds


def flag(name: str, given: Any) -> bool:
    if isinstance(given, bool):
        return given
    if type(given).__name__ in ("bool", "bool_") or (isinstance(given, int) and given in (0, 1)):  # NumPy's, C's
        return bool(given)
    raise refuse(name, given, "True or False")


def whole(least: int, most: int, status: Status = Status.ERROR_SIZE) -> Kind:
    def kind(name: str, given: Any) -> int:
        try:
            number = operator.index(given)
        except (TypeError, ValueError, RuntimeError):  # of tensors that are no number, too
            number = None
        if number is None or isinstance(given, bool):
            raise refuse(name, given, "a whole number")
        if least <= number <= most:
            return number
        raise refuse(name, number, f"{least} to {most}", status)

    return kind


def several(of: Kind, example: str) -> Kind:
    def kind(name: str, given: Any) -> "List[Any]":
        try:
            items = list(given)
        except TypeError:
            raise refuse(name, given, f"several, as in {example}") from None
        return [of(f"{name}[{at}]", item) for at, item in enumerate(items)]

    return kind


def number(name: str, given: Any) -> float:
    """As a float: a real number, or a tensor of one number."""
    single = isinstance(given, Real) or (hasattr(given, "__float__") and getattr(given, "shape", None) in ((), None))
    if not single or isinstance(given, bool):
        raise refuse(name, given, "a number")
    try:
        return float(given)
    except OverflowError:
        raise refuse(name, given, "a number that fits a float", Status.ERROR_OPTION) from None


def seconds(name: str, given: Any) -> float:
    value = number(name, given)
    if value == 0:
        raise refuse(name, given, "more than 0, or None for the default", Status.ERROR_OPTION)
    return value


def _float32(name: str, given: Any, otherwise: str) -> float:
    value = number(name, given)
    if LEAST_FLOAT <= value <= MOST_FLOAT:
        return value
    expected = f"a number above 0 that float32 holds (1.2e-38 to 3.4e38), or {otherwise}"
    raise refuse(name, given, expected, Status.ERROR_OPTION)


def factor(name: str, given: Any) -> float:
    return _float32(name, given, "None for 1/sqrt(head_dim)")


def cap(name: str, given: Any) -> float:
    value = number(name, given)
    return value and _float32(name, given, "0.0 or None for none")


def alignment(name: str, given: Any) -> int:
    if whole(-MOST_INT32, MOST_INT32, Status.ERROR_OPTION)(name, given) in (2, 16):
        return int(given)
    raise refuse(name, given, "16 or 2 bytes", Status.ERROR_OPTION)


def text(name: str, given: Any) -> str:
    if isinstance(given, str):
        return given
    raise refuse(name, given, "a text")


def path(name: str, given: Any) -> str:
    try:
        return os.fsdecode(given)
    except TypeError:
        raise refuse(name, given, "a path") from None


def cache_files(name: str, given: Any) -> str:
    """A text may name several files, a ":" between them; a path object is one, whatever is in its name."""
    files = path(name, given)
    return files if isinstance(given, str) else files.replace(":", "\\:")


def device(name: str, given: Any) -> str:
    return "host" if given == "cpu" else text(name, given)


def window(name: str, given: Any) -> Window:
    try:
        sides = tuple(given)
    except TypeError:
        sides = ()
    if len(sides) != 2:
        asked = f"({given}, {given}) or ({given}, 0)?" if isinstance(given, int) else "as in (128, 0), or None"
        raise refuse(name, given, f"two numbers, (left, right): {asked}")
    left, right = (
        -1 if side is None else min(_side(f"{name}[{at}]", side), MOST_INT32) for at, side in enumerate(sides)
    )
    return None if left == right == -1 else (left, right)


size, count, whole_number = whole(1, MOST_INT32), whole(0, MOST_INT32), whole(-MOST_INT64 - 1, MOST_INT64)
int32 = whole(-MOST_INT32 - 1, MOST_INT32)  # which the library judges
dim = whole(-MOST_INT32 - 1, MOST_INT32, Status.ERROR_RANK)
whole_numbers = several(whole_number, "(2, 256, 64)")
_side = whole(-1, MOST_INT64, Status.ERROR_OPTION)


def optional(kind: Kind, none: Any) -> Kind:
    """`none`: what the library takes for None."""
    return lambda name, given: none if given is None else kind(name, given)


# ---- which argument is of which kind

_LAYER: Dict[str, Kind] = {
    **dict.fromkeys(("q_heads", "kv_heads", "head_dim"), size),
    "head_dim_v": optional(size, 0),
    "window_size": optional(window, None),
    **dict.fromkeys(("softcap", "sink"), flag),
}
SHAPE: Dict[str, Kind] = {
    **_LAYER,
    **dict.fromkeys(("batch", "q_len", "kv_len"), size),
    **dict.fromkeys(("causal", "return_lse", "cache_seqlens", "cu_seqlens_q", "cu_seqlens_k", "tma"), flag),
    "page": optional(size, 0),
    "align": alignment,
}
SERVING: Dict[str, Kind] = {**_LAYER, "range": text, "plan_only": flag}
HANDLE: Dict[str, Kind] = {
    "device": optional(device, None),
    "cache_path": optional(cache_files, None),
    "tuning_budget": optional(seconds, 0.0),
    "threads": optional(int32, 0),
    "nvrtc_path": optional(path, None),
    "checked": flag,
}
SEARCH: Dict[str, Kind] = {
    "config": optional(text, None),
    "budget": optional(seconds, 0.0),
    "seed": optional(whole(0, 2**64 - 1), 0),
}
CALL: Dict[str, Kind] = {
    **dict.fromkeys(("causal", "rotary_interleaved", "return_lse", "return_softmax_lse", "return_attn_probs"), flag),
    **dict.fromkeys(("scale", "softmax_scale"), optional(factor, 0.0)),
    "softcap": optional(cap, 0.0),
    "window_size": optional(window, None),
    **dict.fromkeys(("max_seqlen_q", "max_seqlen_k"), count),
    "cache_seqlens": whole_number,
    "attention_chunk": count,
    "dropout_p": number,
}
AITER: Dict[str, Kind] = {**dict.fromkeys(("block_size", "num_groups"), size), "max_seq_len": count}
PAGES: Dict[str, Kind] = {
    "tokens": int32,
    "sequence": whole_number,
    "sequences": several(whole_number, "[sequence]"),
    "columns": int32,
}


def read(kinds: Dict[str, Kind], **given: Any) -> Dict[str, Any]:
    """All of them as the library takes them; the first that is of another kind is refused by its name."""
    return {name: kinds[name](name, value) for name, value in given.items()}
