#!/usr/bin/env python3
"""Compiles files one by one, without code coming of it: what each lacks is seen, though builds compile whole folders.

Owns: the flags that a file's folder is compiled with; a header counts as its code, where that includes it before all else,
or as a file that includes it alone, and a .inc as the files that include it; which files no host compiler reads (CUDA).
Never: decides which files: tools/test names those that changed. One compiler a core.

  syntax.py [--cuda-include FOLDER] [FILE...]    without files, reads their names from standard input, NUL or newline between

Prints what the compiler says of those that fail, then one line that counts. Exit code 0, 1 (some failed) or 2.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPILER = os.environ.get("CXX", "c++")
WARNINGS = "-Wall -Wextra -Wpedantic -Wshadow -Werror".split()
# What CMake defines with values of its own; here any text does.
TEXTS = ("GQA_GOLDEN_DIR", "GQA_FIXTURE_DIR", "GQA_DOCS", "GQA_TOOL_VERSION", "GQA_SIMT_DIR", "GQA_SIMT_COMPILER",
         "GQA_SIMT_HOOKS_OBJECT", "GQA_SIMT_KERNELS", "GQA_SOURCE_DIR")
DEFINES = ["-DNDEBUG", "-DGQA_HOST_AVX512"] + [f'-D{name}=""' for name in TEXTS]
VARIANTS = {"avx2": "-mavx2 -mfma -mf16c", "avx512": "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl"}
VARIANTS["amx"] = VARIANTS["avx512"] + " -mavx512bf16 -mamx-tile -mamx-bf16"
VARIANTS["baseline"] = ""
# Read by the compilers of kernels only, or from within another header only.
DEVICE = re.compile(r"\.cuh?$|^tests/simt/emulator/((include|shim)/|cuda_intrinsics\.h$)|^jit/device/(?!.*\.h$)")


def python_headers():
    """The include flags of the Python extension, or None where pybind11 is not to be had."""
    for python in (ROOT / "build/venv/bin/python", Path(sys.executable)):
        try:
            return subprocess.run([python, "-m", "pybind11", "--includes"], check=True, capture_output=True,
                                  text=True).stdout.split()
        except (OSError, subprocess.CalledProcessError):
            continue
    return None


def flags_of(path, cuda):
    """The flags of a file, or a reason why it cannot be compiled here."""
    flags = ["-I" + str(ROOT / folder) for folder in (".", "jit/device", "runtime/api", "bindings/cpp")]
    flags += ["-isystem" + cuda] + WARNINGS
    if path.suffix == ".c":
        return ["-xc", "-std=c11"] + flags
    flags += DEFINES
    name = path.as_posix()
    if name.startswith("bindings/python/"):
        python = python_headers()
        if not python:
            return "no pybind11 here"
        return ["-std=c++20", "-fvisibility=hidden"] + flags + [flag.replace("-I", "-isystem") for flag in python]
    if name.startswith("bindings/"):
        return ["-std=c++17"] + flags
    variant = re.search(r"^runtime/host/kernels_(\w+)\.cc$", name)
    if variant and VARIANTS.get(variant[1]) is not None:
        flags += ["-isystem/usr/include/eigen3", "-Wno-maybe-uninitialized", "-fopenmp-simd"]
        flags += VARIANTS[variant[1]].split()
    return ["-std=c++20"] + flags


def test_headers():
    """What CMake gives every test before its first line."""
    text = (ROOT / "tests/suites.cmake").read_text()
    return re.findall(r"<[\w/.]+>", re.search(r"target_precompile_headers\(gqa_testing PRIVATE([^)]*)\)", text)[1])


def includers(inc):
    """The .cc files beside a .inc, or above it, that include it."""
    found = [file for folder in (inc.parent, inc.parent.parent) for file in folder.glob("*.cc")
             if re.search(rf'#include "[^"]*\b{re.escape(inc.name)}"', file.read_text())]
    return [file.relative_to(ROOT) for file in sorted(found)]


def stands_for(path):
    """The files to compile so that a file is seen to lack nothing."""
    if path.suffix == ".inc":
        return includers(ROOT / path)
    code = path.with_suffix(".cc")
    if path.suffix == ".h" and (ROOT / code).is_file():
        first = re.search(r'^#include ["<]([^">]+)', (ROOT / code).read_text(), re.MULTILINE)
        if first and path.as_posix().endswith(first[1]):
            return [code]
    return [path]


def check(path, cuda, prefix):
    """What the compiler says of the file; "" if nothing; None with a reason if it was left out."""
    flags = flags_of(path, cuda)
    if isinstance(flags, str):
        return None, flags
    if path.parts[0] == "tests" and path.suffix != ".c":
        flags = flags + ["-include", str(prefix)]
    text = f'#include "{path.as_posix()}"\n' if path.suffix != ".c" and path.suffix != ".cc" else None
    command = [COMPILER, *flags, "-fsyntax-only", *(["-xc++", "-"] if text else [str(path)])]
    done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True)
    return (done.stderr or f"{path}: the compiler failed\n") if done.returncode else "", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cuda-include", default=os.environ.get("GQA_CUDA_INCLUDE", "/usr/local/cuda/include"))
    parser.add_argument("files", nargs="*")
    given = parser.parse_args()
    names = given.files or re.split(r"[\0\n]", sys.stdin.read())
    paths, left_out = set(), []
    for path in (Path(name) for name in names if name):
        path = path.resolve().relative_to(ROOT) if path.is_absolute() else path
        if DEVICE.search(path.as_posix()) or path.suffix not in (".h", ".hpp", ".cc", ".c", ".inc"):
            left_out.append((path, "not for a host's compiler"))
        elif not (ROOT / path).is_file():
            left_out.append((path, "not there any more"))
        else:
            paths.update(stands_for(path))
    failed = 0
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        prefix = Path(scratch) / "testing.h"
        prefix.write_text("".join(f"#include {header}\n" for header in test_headers()))
        if sum(path.parts[0] == "tests" for path in paths) > 2:  # precompiled, it is read at once
            subprocess.run([COMPILER, *flags_of(Path("tests/x.cc"), given.cuda_include), "-xc++-header", str(prefix)], check=True)
        results = pool.map(lambda path: (path, *check(path, given.cuda_include, prefix)), sorted(paths))
        for path, said, reason in results:
            if said is None:
                left_out.append((path, reason))
            elif said:
                failed += 1
                print(said, end="", flush=True)
    for path, reason in left_out:
        print(f"left out: {path}: {reason}")
    print(f"{len(paths)} files compiled, {failed} failed, {len(left_out)} left out")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
