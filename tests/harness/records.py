#!/usr/bin/env python3
"""The committed records of stages: the hashes of what each stage of tools/test last passed on.

A stage has parts, and a part depends on units: a folder with all below it, a file, or one of the names below. A part
runs where a unit differs from the stage's record, tests/records/STAGE, whose lines are "UNIT HASH". Hashes are of
contents and paths, never of a commit, so shallow clones and exported trees are like any other.

  build     CMake's files, the presets, tools/setup, tools/test, and the compiler's version
  jit:host  jit/ without device text (*.cuh): release compiles and emulates it, to host code it is bytes
  tests     the loose files of tests/, but for what the stage format runs, and tests/harness
  examples:torch  the pages' examples that import torch, and who runs them: a page's other text installs no PyTorch

Owns: which stage has which parts, and what each depends on. A record with any other line (a conflict's mark) is named
and counts as empty; a unit that stands twice counts for nothing. Pages (*.md) concern what reads
them alone.
Never: runs a test. One thread.

  records.py now                  prints the hashes of all units: what a run began with
  records.py parts STAGE [NOW]    the parts to run, a word a line; all of them, if not told what there is now
  records.py sources NOW          C++ files of the folders that differ from the record of the stage format
  records.py passed STAGE NOW     writes the record of a stage that passed
"""
import functools
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import digests

sys.path.append(str(Path(__file__).parents[1]))
import readme

RECORDS = Path("tests/records")
LEFT_OUT = re.compile(r"(^|/)(build|dist|__pycache__|\.[^/]*|[^/]*\.egg-info)(/|$)|\.(pyc|so)$"
                      r"|^tests/(records/|verdicts\.txt)")
CODE = {".h", ".hpp", ".cc", ".c"}

BASE = ["build", "tests"]
JIT = ["search", "jit"]
LIBRARY = [*JIT, "cache", "runtime"]
PACKAGE = [*LIBRARY, "bindings", "tools"]
HOST = ["search", "jit:host", "cache", "runtime"]  # of the library what a sanitizer, or a CPU's user, can see
HEADERS = ["runtime/api/gqa.h", "runtime/api/gqa_graph.h", "bindings/cpp/gqa.hpp", "bindings/cpp/gqa_graph.hpp",
           "bindings/cpp/gqa_operators.hpp"]
STAGES = {
    "release": {
        "search": [*BASE, "search", "tests/search"],
        "cache": [*BASE, "cache", "tests/cache"],
        "jit": [*BASE, *JIT, "tests/jit", "tests/runtime"],
        "runtime": [*BASE, *LIBRARY, "tests/runtime", "tests/search", "tests/cache"],
        "simt": [*BASE, *JIT, "runtime", "tests/simt", "tests/runtime", "tests/search"],
        "tools": [*BASE, *PACKAGE, "tests/tools", "cmake", "tests/cmake"],
        "docs": ["README.md", "docs"],  # tests that read pages; those of search and of tools are among these parts', too
    },
    "asan": {
        "search": [*BASE, "search", "tests/search"],
        "cache": [*BASE, "cache", "tests/cache"],
        "jit": [*BASE, *JIT, "tests/jit", "tests/runtime"],
        "runtime": [*BASE, *HOST, "tests/runtime", "tests/search", "tests/cache"],
        "tools": [*BASE, *HOST, "bindings", "tools", "tests/tools"],
    },
    "tsan": {"threads": [*BASE, *HOST, "tests/runtime", "tests/cache"]},
    "python": {"python": [*BASE, *HOST, "bindings", "tools", "tests/python", "pyproject.toml"]},
    "doors": {"doors": ["build", "bindings", "runtime/api", "tests/python", "pyproject.toml", "examples:torch"]},
    "package": {"packages": ["build", "cmake", "tools/package", "tools/packaging", "tools/demo", "pyproject.toml",
                             "LICENSES-third-party", *HEADERS, "tests/package"]},
    "readme": {"examples": [*HOST, "bindings", "tools", "build", "pyproject.toml", "README.md", "docs", "tests/readme.py"]},
}


def contained(unit):
    """The files of a unit, pages included."""
    if unit == "build":
        found = [path for pattern in ("**/CMakeLists.txt", "**/*.cmake") for path in Path().glob(pattern)]
        return found + [Path(name) for name in ("CMakePresets.json", "tools/setup", "tools/test")]
    if unit == "tests":
        loose = [path for path in Path("tests").glob("*") if path.name not in ("syntax.py", "layering.py")]
        return [path for path in [*loose, *Path("tests/harness").rglob("*")] if path.is_file()]
    if unit == "jit:host":
        return [file for file in contained("jit") if file.suffix != ".cuh"]
    path = Path(unit)
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def hash_of(files, more=""):
    whole = hashlib.sha256(more.encode())
    for path in sorted({path.as_posix(): path for path in files}.items()):
        whole.update(f"{path[0]}\0{hashlib.sha256(path[1].read_bytes()).hexdigest()}\0".encode())
    return whole.hexdigest()[:32]


@functools.lru_cache
def compiler():
    done = subprocess.run(["c++", "-dumpfullversion", "-dumpmachine"], capture_output=True, text=True, check=False)
    return done.stdout


def unit_hash(unit):
    if unit == "examples:torch":
        pages = [page.read_text() for page in map(Path, readme.PAGES) if page.is_file()]
        return hash_of([Path("tests/readme.py")], repr([code for page in pages for _, code in readme.blocks(page, "torch")]))
    pages = unit in ("README.md", "docs")
    files = [path for path in contained(unit)
             if not LEFT_OUT.search(path.as_posix()) and (pages or path.suffix != ".md")]
    return hash_of(files, compiler() if unit == "build" else "")


def source_folders():
    """Folders that hold C++ files themselves, with these."""
    folders = {}
    for top in ("search", "jit", "cache", "runtime", "bindings", "tools", "tests"):
        for path in sorted(Path(top).rglob("*")):
            if path.suffix in CODE and not LEFT_OUT.search(path.as_posix()):
                folders.setdefault(path.parent.as_posix(), []).append(path)
    return folders


def now():
    units = sorted({unit for parts in STAGES.values() for needs in parts.values() for unit in needs})
    return {**{unit: unit_hash(unit) for unit in units},
            **{"format:" + folder: hash_of(files) for folder, files in source_folders().items()}}


def recorded(stage):
    path = RECORDS / stage
    hashes, wrong = digests.parse(path.read_text().splitlines() if path.exists() else [])
    if wrong:
        print(f"records: {path} is not believed, all of the stage runs: it holds {wrong[:60]!r}, expected a unit and 32 "
              "hexadecimal digits", file=sys.stderr)
    return hashes


def units_of(stage, hashes):
    if stage == "format":
        return {unit for unit in hashes if unit.startswith("format:")}
    return {unit for needs in STAGES[stage].values() for unit in needs}


def parts(stage, hashes):
    known = recorded(stage)
    return [part for part, needs in STAGES[stage].items() if any(known.get(unit) != hashes[unit] for unit in needs)]


def sources(hashes):
    """Where nothing is recorded there is nothing to differ from: a full run compiles all files."""
    if not (RECORDS / "format").exists():
        return []
    known = recorded("format")
    return [file for folder, files in source_folders().items()
            if known.get("format:" + folder) != hashes["format:" + folder] for file in files]


def passed(stage, hashes):
    RECORDS.mkdir(exist_ok=True)
    lines = [f"{unit} {hashes[unit]}" for unit in sorted(units_of(stage, hashes))]
    (RECORDS / stage).write_text("\n".join(lines) + "\n")


def read(now_file):
    return digests.parse(Path(now_file).read_text().splitlines())[0]


def print_lines(lines):
    for line in lines:
        print(line)


def main(arguments):
    command, *rest = arguments or [""]
    if command == "now" and not rest:
        print("\n".join(f"{unit} {digest}" for unit, digest in now().items()))
    elif command == "parts" and len(rest) == 1 and rest[0] in STAGES:
        print(*STAGES[rest[0]], sep="\n")
    elif command == "parts" and len(rest) == 2 and rest[0] in STAGES:
        print_lines(parts(rest[0], read(rest[1])))
    elif command == "sources" and len(rest) == 1:
        print_lines(sources(read(rest[0])))
    elif command == "passed" and len(rest) == 2 and rest[0] in {*STAGES, "format"}:
        passed(rest[0], read(rest[1]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
