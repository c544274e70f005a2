"""The extension module, and with it the libgqa.so.0 that this process has: the package's, or one that was there before.

A process has one library of a name: whoever loads it first decides which. Owns: the refusal of an older one.
Never: loads another. It is imported before all else of the package, once.
"""

from __future__ import annotations

import os
from typing import List

_OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libgqa.so.0")


def _others() -> List[str]:
    """Files of that name which this process has loaded, but for the package's."""
    with open("/proc/self/maps") as maps:
        files = {line.split(maxsplit=5)[-1].strip() for line in maps if "/" in line}
    return sorted(file for file in files if os.path.basename(file).startswith("libgqa.so") and not _is_own(file))


def _is_own(file: str) -> bool:
    try:
        return os.path.samefile(file, _OWN)
    except OSError:
        return False


def _refusal(found: str) -> str:
    return (
        f"this process had loaded {_others()[0]} before gqa, {found}; expected the library of this package, {_OWN}, or "
        "a newer one: import gqa before what loads the other, or install both in one version"
    )


try:
    from . import _gqa
except ImportError as error:
    if not _others():
        raise
    raise ImportError(_refusal(f"which lacks what the package needs ({error})")) from None

if _gqa.version() < _gqa.built_with():
    raise ImportError(_refusal(f"whose version is {_gqa.version()} where the package's is {_gqa.built_with()}"))
