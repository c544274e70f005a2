"""The handles that gqa.attention uses when none is named: one a device, made at its first call.

Owns: their life, forgotten in a forked child; what they are told of settings that change; what becomes of every handle
at exit. Threads: any; only a device's first call locks.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any, Callable, Dict, Optional, Tuple

from . import _doors, _gqa, _kinds, _settings
from ._errors import GqaError, Status
from ._handle import Handle

_handles: Dict[str, Handle] = {}
_cores: Dict[str, _gqa.Handle] = {}
_lock = threading.Lock()


def core_of(device: str) -> _gqa.Handle:
    """The shared handle of a device ("host", "cuda:0")."""
    core = _cores.get(device)
    return core if core is not None else _handle_of(device)._core


def served_by(handle: Any) -> Callable[[str], _gqa.Handle]:
    """core_of() of a function's argument `handle`."""
    if handle is None:
        return core_of
    if isinstance(handle, Handle):
        return handle._core_of
    raise _kinds.refuse("handle", handle, "a gqa.Handle, or None for the device's shared one")


def best() -> Handle:
    """The first GPU's handle, else the host's."""
    try:
        return _handle_of("cuda:0")
    except GqaError as error:
        if error.status != Status.ERROR_NO_DEVICE:
            raise
        return _handle_of("host")


def of(device: str) -> Handle:
    """The shared handle of a device as a user names it: "auto", "cuda", "cuda:N", "host" or "cpu"."""
    device = _kinds.device("device", device)
    return best() if device == "auto" else _handle_of("cuda:0" if device == "cuda" else device)


def _handle_of(device: str) -> Handle:
    with _lock:
        if device not in _handles:
            tuning = _settings.tuning()
            made = Handle(device, **_settings.options())
            made._core.set_tuning(tuning)
            _doors.configured(tuning != 0)
            _handles[device], _cores[device] = made, made._core
        return _handles[device]


def change(settings: Dict[str, Any]) -> Optional[Tuple[str, str]]:
    """Does what gqa.configure asks; a value of None is the default.

    Returns the first setting that a handle which is made has no use for, with its device; None if there is none.
    """
    with _lock:
        for name in _settings.WHEN_MADE:
            if name in settings and _handles:
                return name, next(iter(_handles))
        _settings.change(settings)
        tuning, budget = _settings.tuning(), _settings.said("budget")
        for core in _cores.values():
            core.set_tuning(tuning)
            core.set_budget(budget or 0.0)
        _doors.configured(tuning != 0)
    return None


def _forget_all() -> None:
    """In a forked child the handles' threads do not exist and a CUDA context does not work: begin anew."""
    global _lock
    _lock = threading.Lock()
    for core in _cores.values():
        core.abandon()
    _cores.clear()
    _handles.clear()


atexit.register(_gqa.leave)  # what is in flight, on whichever handle, must not keep the interpreter
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
