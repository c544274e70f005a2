"""python -m gqa ARGUMENTS: the same command as gqa-cache ARGUMENTS, but for `run`, which runs a Python program (_run.py),
and for --cflags and --libs, which print what a compiler of C or C++ is told (_paths.py).

Owns: finding the gqa-cache that was installed with this package. Never: takes one that happens to be on PATH, or does
a command's work: this process becomes gqa-cache, so that output, exit code and signals are its own. Threads: one.
"""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Iterator, List, NoReturn

from . import _gqa, _paths, _run

NAME = "gqa-cache"


def places(site: Path) -> Iterator[Path]:
    """Where an installer of a package in this folder may have put the command, likeliest first."""
    for installed in metadata.distributions(name="gqa", path=[str(site)]):
        for file in installed.files or ():
            if file.name == NAME:
                yield Path(str(installed.locate_file(file))).resolve()
    for scheme in sysconfig.get_scheme_names():  # a distribution's package may come without a list of its files
        if Path(sysconfig.get_path("platlib", scheme)).resolve() == site:
            yield Path(sysconfig.get_path("scripts", scheme)) / NAME
    yield site / "bin" / NAME  # pip install --target


def find(tried: List[Path]) -> Path:
    site = Path(_gqa.__file__).resolve().parents[1]
    for place in places(site):
        if place.is_file():
            return place
        if place not in tried:
            tried.append(place)
    raise FileNotFoundError


def fail(why: str) -> NoReturn:
    sys.stderr.write(f"python -m gqa: error: {why}; install gqa again: pip install --force-reinstall gqa\n")
    sys.exit(1)


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        _run.run(sys.argv[2:])
    elif sys.argv[1:] and set(sys.argv[1:]) <= {"--cflags", "--libs"}:
        print(_paths.flags(sys.argv[1:]))
    else:
        become_command()


def become_command() -> NoReturn:
    tried: List[Path] = []
    try:
        program = find(tried)
    except FileNotFoundError:
        fail(f"the program {NAME} of this installation is missing (looked for {', '.join(map(str, tried))})")
    # The interpreter ignores these, and what is ignored stays so in the program that takes its place.
    for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execv(program, [NAME, *sys.argv[1:]])
    except OSError as error:
        fail(f"{program} cannot be run: {error.strerror}")


if __name__ == "__main__":
    main()
