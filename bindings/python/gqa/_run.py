"""python -m gqa run --as NAME SCRIPT: a Python program as it is, which finds gqa where it imports NAME.

Owns: the command line of `run`, and starting the program as the interpreter would. Never: installs beyond this process.
Threads: one.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import List, NoReturn, Tuple

from ._errors import GqaError
from ._install import PACKAGES, install_as

_USAGE = f"""\
usage: python -m gqa run --as NAME [--as NAME] [--metadata] [--replace] (SCRIPT | -m MODULE) [ARGUMENTS]

Runs a Python program in which `import NAME` finds gqa's functions, as after gqa.install_as(NAME).

  --as NAME    {" or ".join(PACKAGES)}
  --metadata   importlib.metadata answers for the package, too: libraries take it for installed
  --replace    also where a package of that name is installed
  -m MODULE    a module instead of a script, as python -m MODULE

All other commands of python -m gqa are gqa-cache's: python -m gqa help
"""


def run(arguments: List[str]) -> None:
    """Runs `python -m gqa run`. Returns once the program has ended; its exceptions and exit code are its own."""
    names, switches, rest = _parsed(arguments)
    module = rest[0] == "-m"
    if module and len(rest) < 2:
        _wrong("-m is given without a module")
    if not module and not os.path.exists(rest[0]):
        _wrong(f"there is no script {rest[0]}")
    # As python -m MODULE and python SCRIPT have it; python -m gqa has begun it with the current folder.
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.abspath(rest[0]))
    try:
        for name in names:
            install_as(name, "--metadata" in switches, replace="--replace" in switches)
    except GqaError as error:
        _wrong(str(error))
    sys.argv = rest[1:] if module else rest
    if module:
        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(rest[0], run_name="__main__")


def _parsed(arguments: List[str]) -> Tuple[List[str], List[str], List[str]]:
    """Names, switches, and the program with its arguments."""
    names: List[str] = []
    switches: List[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        option = rest.pop(0)
        if option in ("-h", "--help"):
            sys.stdout.write(_USAGE)
            sys.exit(0)
        if option in ("--metadata", "--replace"):
            switches.append(option)
        elif option == "--as" and rest:
            names.append(rest.pop(0))
        elif option.startswith("--as="):
            names.append(option[len("--as=") :])
        else:
            _wrong("--as is given without a name" if option == "--as" else f"unknown option {option}")
    if not names or not rest:
        _wrong("expected --as NAME" if not names else "expected a script, or -m MODULE")
    return names, switches, rest


def _wrong(why: str) -> NoReturn:
    sys.stderr.write(f"python -m gqa run: error: {why}\n{_USAGE}")
    sys.exit(2)
