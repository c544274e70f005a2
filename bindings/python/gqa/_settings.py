"""What the devices' shared handles are made with: what gqa.configure said before what the environment says, which a
handle reads when it is made, before the library's defaults.

Owns: the settings' names, their variables and what each may be. Never: makes a handle. Threads: any; who writes holds
_defaults' lock.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, NamedTuple

from . import _kinds
from ._handle import TUNINGS, one_of


class _Setting(NamedTuple):
    option: str  # gqa.Handle's
    checked: Callable[[str, Any], Any]
    read: Callable[[str], Any] = str  # of a text
    expected: str = ""  # where that fails
    variable: str = ""  # "": the library's own business


def _tuning(name: str, given: Any) -> str:
    one_of(name, given, TUNINGS)
    return str(given)


# What a shared handle does on a miss is said to it later, so that gqa.warm tunes whatever is said.
SETTINGS: Dict[str, _Setting] = {
    "tuning": _Setting("tuning", _tuning, variable="GQA_TUNING"),
    "budget": _Setting("tuning_budget", _kinds.seconds, float, "seconds", "GQA_BUDGET"),
    "threads": _Setting("threads", _kinds.whole(1, 1024), int, "a whole number of threads", "GQA_THREADS"),
    "cache": _Setting("cache_path", _kinds.cache_files),  # GQA_CACHE is read by the library
}
WHEN_MADE = ("threads", "cache")  # a handle that is made keeps them

configured: Dict[str, Any] = {}


def change(settings: Dict[str, Any]) -> None:
    """None: nobody says anything any more."""
    for name, value in settings.items():
        if value is None:
            configured.pop(name, None)
        else:
            configured[name] = value


def said(name: str) -> Any:
    """None: nobody has said anything."""
    if name in configured:
        return configured[name]
    setting = SETTINGS[name]
    text = os.environ.get(setting.variable, "") if setting.variable else ""
    if not text:
        return None
    try:
        value = setting.read(text)
    except ValueError:
        raise _kinds.refuse(setting.variable, text, setting.expected) from None
    return setting.checked(setting.variable, value)


def tuning() -> int:
    """A gqa_call_tuning; 0: nobody has said anything."""
    value = said("tuning")
    return 0 if value is None else 1 + TUNINGS[value]


def options() -> Dict[str, Any]:
    """The options of a gqa.Handle that is made now."""
    values = {setting.option: said(name) for name, setting in SETTINGS.items() if name != "tuning"}
    return {option: value for option, value in values.items() if value is not None}
