#!/usr/bin/env python3
"""Fails when an include points upward in the house, one name means two types, a family's type is named by others,
or a kernel can be launched that no trial judges.

Owns: the arrows: search <- jit <- runtime <- bindings, tools; cache includes nothing of the others; bindings see the
public headers only. Inside runtime/ a room sees those before it. And that a namespace's type is defined once in all that
libgqa.so is linked of: of two the linker would mix the functions, and say nothing. And that a family's candidate is named
by its folder, by Candidate and by its code only: others ask for what they want to know. And that no kernel's text is
asked for but to be a program of a workload, or to judge. Checks itself first: planted violations in a temporary tree
must be found, and nothing else.
Never: compiles; it reads #include lines. One thread.

  layering.py [ROOT]
"""
import re
import sys
import tempfile
from pathlib import Path

LAYERS = {
    "search": {"search"},
    "cache": {"cache"},
    "jit": {"jit", "search"},
    "runtime": {"runtime", "jit", "cache", "search"},
    "tools": {"tools", "runtime", "jit", "cache", "search"},
    "bindings": {"bindings"},
}
# What search/ never touches: a device, a clock, a file.
FORBIDDEN = {"search": {"cuda.h", "nvrtc.h", "chrono", "ctime", "fstream", "filesystem", "iostream", "dlfcn.h"}}
PUBLIC_HEADERS = {"runtime/api/gqa.h", "runtime/api/gqa_graph.h"}  # what bindings may see of all that stands below them
# The rooms of runtime/, "" for what lies loose in it: each includes itself and those before it. No other includes a
# device's.
ROOMS = ("call", "", "verify", "workload", "host", "cuda", "tuner", "session", "pages", "api")
DEVICES = ("host", "cuda")
CODE = {".h", ".hpp", ".cc", ".cpp", ".c", ".cu", ".cuh", ".inc"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)


def target(root, file, quote, name):
    """The path of an included file from the root, or None if it is not of this tree. As a compiler looks: beside the
    includer, from the root, then where the build adds folders (runtime/api/ for gqa.h, jit/device/ for device headers)."""
    beside = [file.parent] if quote == '"' else []
    for base in beside + [root, root / "runtime" / "api", root / "jit" / "device"]:
        found = (base / name).resolve()
        if found.is_file() and found.is_relative_to(root):
            return found.relative_to(root)
    named = Path(name)  # a file that is not there (yet) still shows where it points
    return named if named.parts[0] in LAYERS else None


def room_of(path):
    return path.parts[1] if len(path.parts) > 2 else ""


def closed_room(file, path):
    """Whether a file of runtime/ includes one of a room that it does not see."""
    if path.parts[0] != "runtime" or path.as_posix() in PUBLIC_HEADERS:
        return False
    room, included = room_of(file), room_of(path)
    return ROOMS.index(included) > ROOMS.index(room) or (included in DEVICES and included != room)


def violations(root):
    root = Path(root).resolve()
    found = []
    for layer, allowed in LAYERS.items():
        for file in sorted((root / layer).rglob("*")):
            if file.suffix not in CODE or not file.is_file():
                continue
            text = file.read_text(errors="replace")
            for match in INCLUDE.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                if match[2] in FORBIDDEN.get(layer, ()):
                    found.append(f"{file.relative_to(root)}:{line}: {layer}/ may not include {match[2]}")
                path = target(root, file, match[1], match[2])
                if path is not None and layer == "runtime" and closed_room(file.relative_to(root), path):
                    found.append(f"{file.relative_to(root)}:{line}: may not include {path}: rooms of runtime/ are, from the "
                                 f"lowest, {', '.join(room or 'runtime/ itself' for room in ROOMS)}, and none sees a "
                                 "device's")
                if path is None or path.parts[0] in allowed or path.parts[0] not in LAYERS:
                    continue
                if layer == "bindings" and path.as_posix() in PUBLIC_HEADERS:
                    continue
                found.append(f"{file.relative_to(root)}:{line}: {layer}/ may not include {path} "
                             f"(allowed: {', '.join(sorted(allowed))})")
    return found


# Types at a namespace's level, but for those of no name to the linker.
NO_NAME = re.compile(r"^namespace \{\n.*?^\}  // namespace\n", re.MULTILINE | re.DOTALL)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)
TYPE = re.compile(r"^(?:struct|class|enum class|enum|union) (\w+)(?: final)?(?: : [^{;]*)? \{", re.MULTILINE)
LINKED = ("search", "cache", "jit", "runtime")


def twins(root):
    root, first, found = Path(root).resolve(), {}, []
    for file in sorted(file for layer in LINKED for file in (root / layer).rglob("*") if file.suffix in (".h", ".cc")):
        text = NO_NAME.sub(lambda match: "\n" * match[0].count("\n"), file.read_text(errors="replace"))
        namespace = NAMESPACE.search(text)
        for match in TYPE.finditer(text):
            name = f"{namespace[1] if namespace else ''}::{match[1]}"
            line = f"{file.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}"
            if name in first:
                found.append(f"{line}: {name} is defined in {first[name]} too")
            first.setdefault(name, line)
    return found


# The families' candidates, and who may name them.
FAMILY = re.compile(r"\b(MmaFlash|SplitKv|WgmmaFlash)\b")
FAMILIES = ("search/families/", "jit/families/")


def strangers(root):
    root, found = Path(root).resolve(), []
    for file in sorted(file for layer in LAYERS for file in (root / layer).rglob("*") if file.suffix in CODE):
        name = file.relative_to(root).as_posix()
        if name.startswith(FAMILIES):
            continue
        text = file.read_text(errors="replace")
        found += [f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[1]} is named outside {', '.join(FAMILIES)}"
                  for match in FAMILY.finditer(text)]
    return found


# Who asks jit/ for a kernel's text: what makes programs, which workloads offer and trials judge (whatever a workload can
# be held against has a trial: operation_case_test.cc). The kernels that judge are asked for by the device.
SOURCE = re.compile(r"^(?!\s*//)[^\n]*?\b(\w+_source)\(", re.MULTILINE)
TEXTS = {"runtime/workload/programs.cc": None, "runtime/cuda/cuda_device.cc": "check_source"}


def unjudged(root):
    root, found = Path(root).resolve(), []
    for file in sorted(file for layer in ("runtime", "tools") for file in (root / layer).rglob("*") if file.suffix in CODE):
        name = file.relative_to(root).as_posix()
        text = file.read_text(errors="replace")
        found += [f"{name}:{text.count(chr(10), 0, match.start(1)) + 1}: {match[1]}() is asked for outside "
                  f"{next(iter(TEXTS))}, so that no trial judges the kernel" for match in SOURCE.finditer(text)
                  if TEXTS.get(name, "") not in (None, match[1])]
    return found


PLANTED = {  # file: (text, how many violations)
    "search/a.h": ("#pragma once\n", 0),
    "search/up.cc": ('#include "search/a.h"\n#include "jit/b.h"\n', 1),
    "search/relative.cc": ('#include <vector>\n  #  include "../runtime/c.h"\n', 1),
    "search/clock.cc": ("#include <chrono>\n#include <string>\n", 1),
    "cache/side.cc": ('#include "search/a.h"\n', 1),
    "jit/b.h": ('#include "search/a.h"\n', 0),
    "jit/up.cc": ('#include "jit/b.h"\n#include <runtime/missing.h>\n#include "cache/d.h"\n', 2),
    "jit/device/k.cuh": ('#include "k2.cuh"\n', 0),
    "jit/device/k2.cuh": ("", 0),
    "runtime/c.h": ('#include "jit/b.h"\n#include "cache/d.h"\n', 0),
    "runtime/api/gqa.h": ("", 0),
    "runtime/api/gqa_graph.h": ('#include "gqa.h"\n', 0),
    "runtime/api/gqa_graph_internal.h": ('#include "search/a.h"\n', 0),
    "runtime/call/call.h": ('#include "runtime/api/gqa.h"\n', 0),
    "runtime/call/out.cc": ('#include "runtime/c.h"\n', 1),
    "runtime/verify/v.cc": ('#include "runtime/c.h"\n#include "runtime/session/s.h"\n', 1),
    "runtime/session/s.h": ('#include "runtime/verify/v.h"\n#include "runtime/host/h.h"\n', 1),
    "runtime/host/h.h": ('#include "runtime/host/other.h"\n', 0),
    "runtime/cuda/launch/g.cc": ('#include "runtime/host/h.h"\n#include "runtime/call/call.h"\n', 1),
    "runtime/up.cc": ('#include "tools/t.h"\n', 1),
    "cache/d.h": ('// #include "search/a.h"\n#include <sqlite3.h>\n', 0),
    "tools/t.h": ('#include "runtime/c.h"\n#include "cache/d.h"\n', 0),
    "bindings/c/good.c": ('#include "gqa.h"\n#include <runtime/api/gqa.h>\n', 0),
    "bindings/c/graph.c": ('#include "gqa_graph.h"\n', 0),
    "bindings/cpp/gqa.hpp": ('#include <gqa_graph.h>\n', 0),
    "bindings/cpp/bad.hpp": ('#include "gqa_graph_internal.h"\n', 1),
    "bindings/c/bad.c": ('#include "runtime/c.h"\n', 1),
    "runtime/one.h": ("namespace gqa {\n\nstruct Value : Base {\n};\nclass Value2 {\n};\n\n}\n", 0),
    "search/two.h": ("namespace gqa {\n\nenum class Value {\n};\n\n}\n", 1),
    "search/unnamed.cc": ("namespace gqa {\nnamespace {\n\nstruct Value {\n};\n\n}  // namespace\n}\n", 0),
    "search/apart.cc": ("namespace gqa::avx2 {\n\nstruct Value {\n};\n\n}\n", 0),
    "search/families/mma_flash/mma_flash.h": ("struct MmaFlash;\n", 0),
    "jit/families/mma_flash.cc": ("int code_of(const MmaFlash& c);\n", 0),
    "jit/stranger.cc": ("int code_of(const MmaFlash& c);\nint NoMmaFlash;\n", 1),
    "runtime/stranger.cc": ("auto c = std::get<WgmmaFlash>(x);\n", 1),
    "runtime/workload/programs.cc": ("auto text = attention_source(p) + gradient_source(p);\n", 0),
    "runtime/cuda/cuda_device.cc": ("auto text = check_source();\nauto more = merge_source();\n", 1),
    "runtime/cuda/launch/unjudged.cc": ("// of append_source()\nauto text = append_source();\n", 1),
    "tests/any.cc": ('#include "tools/t.h"\n', 0),
}


def self_check():
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, _) in PLANTED.items():
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        found = violations(folder) + twins(folder) + strangers(folder) + unjudged(folder)
        for name, (_, expected) in PLANTED.items():
            count = sum(line.startswith(name + ":") for line in found)
            if count != expected:
                sys.exit(f"self-check: {name} has {expected} planted violations, found {count}:\n" + "\n".join(found))


def main():
    self_check()
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    missing = [layer for layer in LAYERS if not (root / layer).is_dir()]
    if missing:
        sys.exit(f"{root} has no {', '.join(missing)}: expected the root of the source tree")
    found = violations(root) + twins(root) + strangers(root) + unjudged(root)
    if found:
        sys.exit("\n".join(found))
    print("every include points down, every type has a name of its own, families keep theirs to themselves, and every "
          "kernel's text is a program's")


if __name__ == "__main__":
    main()
