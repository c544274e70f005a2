"""What passed through each door: a function of another package's shape through which that package's calls come here
(scaled_dot_product_attention, Transformers' attention function, ...).

Owns: the doors' names, their counts, the report of them, and what their calls do on a miss. Never: answers a call;
imports torch. Threads: any.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar

SDPA, FLASH_IMPL, TRANSFORMERS = "use_as_sdpa", "flash_attention_impl", "transformers"


class DoorReport(NamedTuple):
    """One door's counts. Inside torch.compile a call is counted as it is compiled, not as it is run."""

    calls: int  # answered by gqa
    fallbacks: Dict[str, int]  # answered by whoever would have without the door: how often, by reason
    misses: int  # calls whose kernel had to be made or loaded, as they were run
    seconds: float  # that this took


_Function = TypeVar("_Function", bound=Callable[..., Any])

_GUESS = 2  # a gqa_call_tuning, of which 0 is the handle's own

_configured = False  # somebody has said what a miss does: the shared handles know
_calls: Dict[str, int] = {}
_misses: Dict[str, Tuple[int, float]] = {}
_fallbacks: Dict[str, Dict[str, int]] = {}
_lock = threading.Lock()


def while_compiling(function: _Function) -> _Function:
    """Marks what torch.compile calls as it compiles, and of which it leaves nothing but the answer in what it makes.
    torch.compiler.assume_constant_result marks so, too, but imports a compiler."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@while_compiling
def count(door: str, reason: Optional[str] = None) -> None:
    """One call that gqa answers; with a reason, one that it leaves to the door's owner."""
    compilation = _compilation()
    with _lock:
        if compilation is not None:
            _attempt.begin(compilation)
            _attempt.counted.append((door, reason))
        _add(door, reason, 1)


def _add(door: str, reason: Optional[str], number: int) -> None:
    counts, name = (_calls, door) if reason is None else (_fallbacks.setdefault(door, {}), reason)
    counts[name] = max(0, counts.get(name, 0) + number)


class _Attempt(threading.local):
    """What was counted by a compilation so far, which may begin anew halfway."""

    def __init__(self) -> None:
        self.compilation: Any = None
        self.number = 0
        self.counted: List[Tuple[str, Optional[str]]] = []

    def begin(self, compilation: Any) -> None:
        if compilation is not self.compilation:
            self.counted = []
        elif compilation.attempt != self.number:
            while self.counted:
                _add(*self.counted.pop(), -1)
        self.compilation, self.number = compilation, compilation.attempt


_attempt = _Attempt()


def _compilation() -> Any:
    """torch.compile's, if this thread is in one."""
    guards = sys.modules.get("torch._guards")
    return None if guards is None else guards.CompileContext.try_get()


def missed(door: str, seconds: float) -> None:
    with _lock:
        number, before = _misses.get(door, (0, 0.0))
        _misses[door] = (number + 1, before + seconds)


def tuning() -> int:
    """What a door's call does on a miss, as a gqa_call_tuning: nobody who changes a line waits for a race."""
    return 0 if _configured else _GUESS


def configured(is_it: bool) -> None:
    global _configured
    _configured = is_it


def door_report(*, reset: bool = False) -> Dict[str, DoorReport]:
    """By door ("use_as_sdpa", "flash_attention_impl", "transformers"), those that were used: calls answered by gqa,
    calls left to PyTorch or Transformers by reason, misses and the seconds they took. All are of this process, its
    threads together. reset: begins anew. Inside torch.compile a call is counted once a compilation, a miss when it
    happens."""
    with _lock:
        report = {
            door: DoorReport(_calls.get(door, 0), dict(_fallbacks.get(door, {})), *_misses.get(door, (0, 0.0)))
            for door in sorted({*_calls, *_fallbacks, *_misses})
        }
        if reset:
            for counts in (_calls, _fallbacks, _misses):
                counts.clear()
    return report


def _renew_lock() -> None:
    """In a forked child, where the thread that held it does not exist."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
