"""Where the headers and the library of this installation are, for programs in C and C++ and for callers by ctypes.

Owns: get_include, get_library, and the flags that `python -m gqa --cflags --libs` prints. Threads: pure functions.
"""

from __future__ import annotations

import os
import shlex
from typing import List

_HERE = os.path.dirname(os.path.abspath(__file__))


def get_include() -> str:
    """The folder of gqa.h, gqa_graph.h, gqa.hpp and the dlpack/dlpack.h that they include: a compiler's -I."""
    return os.path.join(_HERE, "include")


def get_library() -> str:
    """The path of libgqa.so.0, which this package has loaded: for a linker, or for ctypes.CDLL."""
    return os.path.join(_HERE, "libgqa.so.0")


def flags(asked: List[str]) -> str:
    """What a compiler is told, for --cflags, --libs or both. The program finds the library where it is now."""
    folder, name = os.path.split(get_library())
    told = {
        "--cflags": ["-I" + get_include()],
        "--libs": ["-L" + folder, "-l:" + name, "-Wl,-rpath," + folder],
    }
    return " ".join(shlex.quote(flag) for option in ("--cflags", "--libs") if option in asked for flag in told[option])
