"""gqa.configure: what calls that name no handle do.

Owns: its arguments, and who is told. Never: tunes. Threads: any; it holds for calls that begin later.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Union

from . import _defaults, _settings
from ._errors import Status, error_for


class _AsItIs:
    def __repr__(self) -> str:
        return "as it is"


_AS_IT_IS: Any = _AsItIs()


def configure(
    *,
    tuning: Optional[str] = _AS_IT_IS,
    budget: Optional[float] = _AS_IT_IS,
    threads: Optional[int] = _AS_IT_IS,
    cache: Union[str, "os.PathLike[str]", None] = _AS_IT_IS,
) -> None:
    """Says what each later call does that names no handle; what is left out stays as it was, None is as by default.

    tuning: where a shape is not ready, of doors (use_as_sdpa, the FlashAttention implementation "gqa", Transformers), too:
    "now" (search and time within the budget), "guess" (the cost model's best, untimed and stored nowhere) or
    "cached-only" (fail; a door falls back). By default doors guess and other functions tune. A call that tunes replaces a
    guess of its shape; gqa.warm tunes whatever is said here.
    budget: seconds that a miss may take. threads: host threads for compiling and for calls on the CPU. cache: the cache
    file, as gqa.Handle's cache_path.

    A device's shared handle is made at its first call and keeps threads and cache: both are refused from then on. Where
    nothing is said here, a shared handle is made as GQA_TUNING, GQA_BUDGET, GQA_THREADS and GQA_CACHE say in the
    environment. A call's own handle= has its own options. Raises GqaValueError, GqaTypeError; all is then as before.
    """
    given = {"tuning": tuning, "budget": budget, "threads": threads, "cache": cache}
    changes: Dict[str, Any] = {
        name: None if value is None else _settings.SETTINGS[name].checked(name, value)
        for name, value in given.items()
        if value is not _AS_IT_IS
    }
    refused = _defaults.change(changes)
    if refused:
        name, device = refused
        raise error_for(
            Status.ERROR_OPTION,
            f"{name} is given, but the shared handle of {device} is made; expected it before the first call: "
            f"call gqa.configure first, or make a gqa.Handle({device!r}, {_settings.SETTINGS[name].option}=...)",
        )
