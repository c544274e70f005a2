"""FlashAttention's arguments that gqa takes at their defaults only.

Owns: their refusal, by name, with what to do instead. Never: refuses an argument that is served. Threads: any.
"""

from __future__ import annotations

from typing import Any

from ._kinds import CALL, shown


def refuse_given(function: str, attention_chunk: int, **tensors: Any) -> None:
    """Refuses what is given of FlashAttention-3's arguments that gqa takes at their defaults only."""
    for name, value in tensors.items():
        if value is not None:
            refuse(function, name, value, "None")
    if CALL["attention_chunk"]("attention_chunk", attention_chunk) != 0:
        refuse(function, "attention_chunk", attention_chunk, "0")


def refuse(function: str, name: str, value: Any, default: str, instead: str = "") -> None:
    advice = f": {instead}" if instead else ""
    raise NotImplementedError(f"{function} was given {name}={shown(value)}; gqa computes {name}={default} only{advice}")
