"""Looks at the packages that were made: what they hold, ask for and say of themselves.

Owns: what must be so of every package; tests/package asks more of how this judges. Never: installs or changes one.
One thread.
"""
import os
import re
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

import elf
import machine

WHEEL_BYTES = 6_000_000
IN_WHEEL = ("gqa/__init__.py", "gqa/libgqa.so.0", "gqa/include/gqa.h", "gqa/include/gqa_graph.h", "gqa/include/gqa.hpp",
            "gqa/include/dlpack/dlpack.h", "gqa/py.typed", "/scripts/gqa-cache", "/licenses/LICENSE",
            "/licenses/LICENSES-third-party")
IN_SDIST = ("CMakeLists.txt", "pyproject.toml", "LICENSE", "LICENSES-third-party", "README.md", "runtime/api/gqa.h",
            "bindings/python/gqa/__init__.py", "cmake/install.cmake", "tools/package", "PKG-INFO")
LIBDIR = "usr/lib/*/"
IN_DEBS = {  # every file of each, but for its documents
    "libgqa0": {LIBDIR + "libgqa.so.0"},
    "libgqa-dev": {LIBDIR + name for name in (
        "libgqa.so", "pkgconfig/gqa.pc", "cmake/gqa/gqa-config.cmake", "cmake/gqa/gqa-config-version.cmake",
        "cmake/gqa/gqa-targets.cmake", "cmake/gqa/gqa-targets-release.cmake")}
    | {"usr/include/" + name for name in ("gqa.h", "gqa_graph.h", "gqa.hpp", "gqa_graph.hpp", "gqa_operators.hpp")},
    "gqa-cache": {"usr/bin/gqa-cache", "usr/share/man/man1/gqa-cache.1.gz",
                  "usr/share/bash-completion/completions/gqa-cache", "usr/share/zsh/site-functions/_gqa-cache",
                  "usr/share/fish/vendor_completions.d/gqa-cache.fish"},
}
PRIVATE = {("GQA_PRIVATE", "gqa_cache_main"), ("GQA_PRIVATE", "gqa_demo_main")}


def missing(what, names, wanted):
    return [f"{what}: holds no {name}" for name in wanted if not any(found.endswith(name) for found in names)]


def names_of_this_machine(folder):
    """Files that name this repository's folder: nothing that is shipped may."""
    place = str(machine.ROOT).encode()
    return [f"{path}: names {machine.ROOT}, a folder of this machine" for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.is_symlink() and place in path.read_bytes()]


def library(path):
    found = elf.exported(path)
    wrong = [f"{path}: exports {name} of version {version or 'none'}, expected gqa_* of GQA_0 alone"
             for version, name in sorted(found - PRIVATE) if version != "GQA_0" or not name.startswith("gqa_")]
    return wrong + [f"{path}: does not export {name} of {version}, which gqa-cache and tools/demo call"
                    for version, name in sorted(PRIVATE - found)]


def metadata(text):
    wrong = []
    for line in (f"Version: {machine.version()}", "License-Expression: Apache-2.0", "Provides-Extra: cuda12",
                 "Provides-Extra: cuda13", "License-File: LICENSES-third-party"):
        if line not in text.splitlines():
            wrong.append(f"the metadata has no line {line!r}")
    return wrong


def wheel(path):
    path = Path(path)
    wrong = []
    if path.stat().st_size >= WHEEL_BYTES:
        wrong.append(f"{path}: has {path.stat().st_size:,} bytes, expected under {WHEEL_BYTES:,}")
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(path) as archive:
        archive.extractall(scratch)
        names = archive.namelist()
        wrong += missing(path, names, IN_WHEEL)
        for name in names:
            file = Path(scratch, name)
            if file.is_file() and elf.is_elf(file):
                wrong += elf.complaints(file, {"libgqa.so.0"})
        wrong += library(Path(scratch, "gqa/libgqa.so.0"))
        wrong += names_of_this_machine(Path(scratch))
        [about] = [name for name in names if name.endswith(".dist-info/METADATA")]
        wrong += [f"{path}: {line}" for line in metadata(archive.read(about).decode())]
    return wrong


def audited(path, tools):
    """What auditwheel, which knows the platforms' lists, says of a wheel."""
    told = subprocess.run([str(tools), "-m", "auditwheel", "show", str(path)], capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": f"{Path(tools).parent}:{os.environ['PATH']}"})
    text = " ".join((told.stdout + told.stderr).split())
    platform = re.search(r'platform tag: "manylinux_2_(\d+)_x86_64"', text)
    if told.returncode or not platform or int(platform[1]) > 28 or "external shared libraries are required" in text:
        return [f"{path}: auditwheel show says, where manylinux_2_28 and no external libraries are expected:\n{told.stdout}"
                f"{told.stderr}"]
    return []


def matches(name, patterns):
    return any(Path(name).match(pattern) for pattern in patterns)


def deb(path):
    path = Path(path)
    name = machine.told("dpkg-deb", "--field", path, "Package").strip()
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        machine.told("dpkg-deb", "--extract", path, scratch)
        files = {file.relative_to(scratch).as_posix() for file in Path(scratch).rglob("*")
                 if file.is_symlink() or file.is_file()}
        documents = {f"usr/share/doc/{name}/{file}" for file in ("copyright", "changelog.gz")}
        wrong += [f"{path}: holds no {pattern}" for pattern in sorted(IN_DEBS[name] | documents)
                  if not any(matches(file, [pattern]) for file in files)]
        wrong += [f"{path}: holds {file}, which is no file of {name}" for file in sorted(files)
                  if not matches(file, IN_DEBS[name] | documents)]
        wrong += names_of_this_machine(Path(scratch))
        notice = Path(scratch, f"usr/share/doc/{name}/copyright")
        if notice.is_file() and "Mozilla Public License" not in notice.read_text():
            wrong.append(f"{path}: its copyright does not name what is compiled in")
    asks = machine.told("dpkg-deb", "--field", path, "Depends").strip()
    for other in {"libgqa0": ("libsqlite3-0", "libzstd1", "libxxhash0", "libc6"), "gqa-cache": ("libsqlite3-0", "libc6"),
                  "libgqa-dev": (f"libgqa0 (= {machine.version()})", "libdlpack-dev")}[name]:
        if other not in asks:
            wrong.append(f"{path}: depends on {asks!r}, expected {other} among them")
    return wrong


def sdist(path):
    with tarfile.open(path) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    return [f"{path}: holds no {name}" for name in IN_SDIST if name not in names] + \
        [f"{path}: holds {name}, which is built" for name in names if name.startswith("build/")]


def all_of(folder, tools):
    """Complaints about all packages of a folder; nothing where they are as they must be."""
    found = {kind: sorted(Path(folder).glob(f"*{kind}")) for kind in (".whl", ".deb", ".tar.gz")}
    wrong = [f"{folder}: holds no {kind}" for kind, paths in found.items() if not paths]
    for path in found[".whl"]:
        wrong += wheel(path) + audited(path, tools)
    return wrong + [line for path in found[".deb"] for line in deb(path)] + \
        [line for path in found[".tar.gz"] for line in sdist(path)]
