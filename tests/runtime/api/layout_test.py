#!/usr/bin/env python3
"""Fails when a field of a public struct is not where a released header had it, or a struct has become smaller.

Owns: what a compiler says of every field in the headers of released/VERSION/ and in those of the tree; the comparison.
Never: links with the library. One thread.

  layout_test.py COMPILER DLPACK_INCLUDE
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADERS = ("gqa.h", "gqa_graph.h")
STRUCT = re.compile(r"^typedef struct (\w+) \{\n(.*?)^\} \1;", re.MULTILINE | re.DOTALL)
SIZED = {"gqa_options", "gqa_call", "gqa_shape", "gqa_serving", "gqa_search_options"}
PLAIN = {"gqa_value", "gqa_serving_progress", "gqa_search_progress"}


def fields(body):
    """The names that a struct's body declares: the last word of each declarator."""
    for declaration in re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL).split(";"):
        for declarator in declaration.split(","):
            if declarator.strip():
                yield re.search(r"(\w+)\s*$", declarator)[1]


def layout(folder, compiler, dlpack):
    """{"gqa_call.causal": (offset, size), "gqa_call": (0, size)}, as the compiler lays the headers of a folder out."""
    structs = {}
    for header in HEADERS:
        structs.update((name, list(fields(body))) for name, body in STRUCT.findall((folder / header).read_text()))
    assert SIZED | PLAIN <= set(structs), f"{folder}: of its structs only {sorted(structs)} were read"
    lines = [f'  printf("{name} 0 %zu\\n", sizeof({name}));' for name in structs]
    lines += [f'  printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name}*)0)->{field}));'
              for name, names in structs.items() for field in names]
    with tempfile.TemporaryDirectory() as made:
        source, program = Path(made, "layout.c"), Path(made, "layout")
        source.write_text("\n".join(['#include <stdio.h>', *(f'#include "{header}"' for header in HEADERS),
                                     "int main(void) {", *lines, "}", ""]))
        subprocess.run([compiler, "-std=c11", f"-I{folder}", f"-I{dlpack}", source, "-o", program], check=True)
        told = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {name: (int(offset), int(size)) for name, offset, size in map(str.split, told.splitlines())}


def moved(released, now):
    """What a program of the released header would find elsewhere than it looks."""
    for name, (offset, size) in released.items():
        if name not in now:
            yield f"{name} is gone"
        elif "." in name and now[name] != (offset, size):
            yield f"{name} was {size} bytes at {offset}, is {now[name][1]} at {now[name][0]}"
        elif "." not in name and (now[name][1] < size or (name not in SIZED and now[name][1] != size)):
            yield f"{name} had {size} bytes, has {now[name][1]}"


def main(compiler, dlpack):
    assert list(moved({"s": (0, 16), "s.a": (8, 4)}, {"s": (0, 16), "s.a": (4, 4)})), "a field that moved is not seen"
    now = layout(HERE.parents[2] / "runtime" / "api", compiler, dlpack)
    versions = sorted((HERE / "released").iterdir())
    assert versions, "no released header is kept"
    wrong = [f"{version.name}: {line}" for version in versions
             for line in moved(layout(version, compiler, dlpack), now)]
    assert not wrong, "programs of released headers would break:\n" + "\n".join(wrong)
    print(f"{len(now)} structs and fields are where {', '.join(version.name for version in versions)} had them")


if __name__ == "__main__":
    main(*sys.argv[1:])
