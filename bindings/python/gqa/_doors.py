"""What passed through each door: a function of another package's shape through which that package's calls come here
(scaled_dot_product_attention, Transformers' attention function, ...).

Owns: the doors' names, their counts, and the report of them. Never: answers a call; imports torch. Threads: any.
"""

from __future__ import annotations

import os
import threading
from typing import Dict, NamedTuple, Optional

SDPA, FLASH_IMPL, TRANSFORMERS = "use_as_sdpa", "flash_attention_impl", "transformers"


class DoorReport(NamedTuple):
    """One door's counts. Inside torch.compile a call is counted as it is compiled, not as it is run."""

    calls: int  # answered by gqa
    fallbacks: Dict[str, int]  # answered by whoever would have without the door: how often, by reason


_calls: Dict[str, int] = {}
_fallbacks: Dict[str, Dict[str, int]] = {}
_lock = threading.Lock()


def count(door: str, reason: Optional[str] = None) -> None:
    """One call that gqa answers; with a reason, one that it leaves to the door's owner."""
    with _lock:
        if reason is None:
            _calls[door] = _calls.get(door, 0) + 1
        else:
            of_door = _fallbacks.setdefault(door, {})
            of_door[reason] = of_door.get(reason, 0) + 1


# What torch.compiler.assume_constant_result does, without importing torch: a compiler counts as it compiles, and leaves
# no counting in what it makes.
count._dynamo_marked_constant = True  # type: ignore[attr-defined]


def door_report(*, reset: bool = False) -> Dict[str, DoorReport]:
    """By door ("use_as_sdpa", "flash_attention_impl", "transformers"), those that were used: calls answered by gqa, and
    calls left to PyTorch or Transformers, by reason. Of this process, all threads together. reset: begins anew.
    Inside torch.compile a call is counted once a compilation."""
    with _lock:
        doors = sorted({*_calls, *_fallbacks})
        report = {door: DoorReport(_calls.get(door, 0), dict(_fallbacks.get(door, {}))) for door in doors}
        if reset:
            _calls.clear()
            _fallbacks.clear()
    return report


def _renew_lock() -> None:
    """In a forked child, where the thread that held it does not exist."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
