"""The arguments of PyTorch's operators: one table, from which their schemas and what they refuse come.

Owns: names, types, defaults, order, and which operator has which. Exported programs keep the order: later arguments come
after all of these, with defaults. Never: imports torch. Threads: constants.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, List, NamedTuple, Tuple

ATTENTION, VARLEN, KVCACHE, APPEND, MERGE = "attention", "varlen", "kvcache", "kvcache_append", "merge_states"
_CACHES = (KVCACHE, APPEND)
_ALL = (ATTENTION, VARLEN, *_CACHES)

REQUIRED = object()


class Argument(NamedTuple):
    name: str
    type: str  # as schemas have it; (a!): written
    operators: Tuple[str, ...]
    default: Any = REQUIRED
    reserved: bool = False  # has a place, and is refused by name where it is given

    def schema(self) -> str:
        return f"{self.type} {self.name}" + ("" if self.default is REQUIRED else f"={self.default}")


def _optional(name: str, operators: Tuple[str, ...], **more: Any) -> Argument:
    return Argument(name, "Tensor?", operators, None, **more)


_TABLE: Tuple[Argument, ...] = (
    Argument("q", "Tensor", _ALL),
    Argument("k", "Tensor", (ATTENTION, VARLEN)),
    Argument("v", "Tensor", (ATTENTION, VARLEN)),
    Argument("k_cache", "Tensor", (KVCACHE,)),
    Argument("v_cache", "Tensor", (KVCACHE,)),
    Argument("k_cache", "Tensor(a!)", (APPEND,)),
    Argument("v_cache", "Tensor(b!)", (APPEND,)),
    Argument("k", "Tensor", (APPEND,)),
    Argument("v", "Tensor", (APPEND,)),
    Argument("outs", "Tensor[]", (MERGE,)),
    Argument("lses", "Tensor[]", (MERGE,)),
    # lists, (batch) or (batch + 1) int32
    _optional("cache_seqlens", _CACHES),
    _optional("page_table", _CACHES),
    _optional("cache_batch_idx", _CACHES),
    _optional("cache_leftpad", _CACHES),
    _optional("cu_seqlens_q", (VARLEN, *_CACHES)),
    _optional("cu_seqlens_k", (VARLEN,)),
    _optional("seqused_q", (VARLEN,)),
    _optional("seqused_k", (VARLEN,)),
    _optional("cu_seqlens_k_new", (APPEND,)),
    _optional("rotary_cos", (APPEND,)),
    _optional("rotary_sin", (APPEND,)),
    _optional("rotary_seqlens", (APPEND,)),
    # numbers
    Argument("max_seqlen_q", "SymInt", (VARLEN, *_CACHES), 0),
    Argument("max_seqlen_k", "SymInt", (VARLEN,), 0),
    Argument("scale", "float?", _ALL, None),
    Argument("causal", "bool", _ALL, False),
    Argument("window_left", "SymInt", _ALL, -1),
    Argument("window_right", "SymInt", _ALL, -1),
    Argument("softcap", "float", _ALL, 0.0),
    Argument("rotary_interleaved", "bool", (APPEND,), True),
    Argument("return_lse", "bool", _ALL, False),
    # of scores
    _optional("sink", _ALL),
    _optional("score_scale", _ALL),
    _optional("bias", _ALL),
    _optional("alibi_slopes", _ALL, reserved=True),
    _optional("q_descale", _ALL, reserved=True),
    _optional("k_descale", _ALL, reserved=True),
    _optional("v_descale", _ALL, reserved=True),
    # later arguments
    Argument("door", "str?", _ALL, None),  # whose call it is, for what it does on a miss (_doors.py)
)


def arguments_of(operator: str) -> List[Argument]:
    return [argument for argument in _TABLE if operator in argument.operators]


def schema_of(operator: str) -> str:
    """All give (out, lse); lse has no element where it is not asked for."""
    return f"{operator}({', '.join(argument.schema() for argument in arguments_of(operator))}) -> (Tensor, Tensor)"


def reserved_of(operator: str) -> List[str]:
    return [argument.name for argument in arguments_of(operator) if argument.reserved]


def tuple_of(operator: str) -> Any:
    """A named tuple of what a call gives, by position or name; what it leaves out has its default."""
    arguments = arguments_of(operator)
    defaults = [argument.default for argument in arguments if argument.default is not REQUIRED]
    return namedtuple(operator, [argument.name for argument in arguments], defaults=defaults)
