#!/usr/bin/env python3
"""Splits the tests that need a GPU into parts that take alike long, by the seconds of tests/gpu_seconds.txt.

Owns: that file's format ("seconds name" a line, sorted by name; comments begin with #), and which part a test is in: the
longest first, each into the part that has least.
Never: runs a test. One thread.

  gpu_parts.py part PART/OF    of the names on stdin, one a line, prints those of one part, the longest first
  gpu_parts.py took FOLDER     what the tests of a run took, by the *.seconds and pytest's *.xml of its results
  gpu_parts.py merge FILE...   the lines of all files (the parts of one run); the last that names a test counts
"""
import re
import statistics
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

KNOWN = Path(__file__).with_name("gpu_seconds.txt")


def read(path):
    """Seconds by name."""
    seconds = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\d+(?:\.\d+)?) (\S.*)", line)
        if not match:
            raise SystemExit(f"{path}:{number}: '{line}' is no 'seconds name'")
        seconds[match[2]] = float(match[1])
    return seconds


def text_of(seconds):
    return "".join(f"{took:.1f} {name}\n" for name, took in sorted(seconds.items()))


def which(part):
    """(2, 3) of "2/3"."""
    match = re.fullmatch(r"(\d+)/(\d+)", part)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise SystemExit(f"'{part}' is no part: PART/OF, PART of 1 to OF, as 2/3")
    return int(match[1]), int(match[2])


def split(names, count, known):
    """The names of each part, the longest first. A test whose seconds are not known counts as the median of the others."""
    usual = statistics.median([known[name] for name in names if name in known] or [1.0])
    parts, sums = [[] for _ in range(count)], [0.0] * count
    for name in sorted(names, key=lambda name: (-known.get(name, usual), name)):
        least = sums.index(min(sums))
        parts[least].append(name)
        sums[least] += known.get(name, usual)
    return parts


def part_of(names, part, known=None):
    number, count = which(part)
    return split(names, count, read(KNOWN) if known is None else known)[number - 1]


def took(folder):
    """Seconds of tests that passed: others may have ended early."""
    seconds = {}
    for path in folder.glob("*.seconds"):
        seconds.update(read(path))
    for path in folder.glob("*.xml"):
        for case in ElementTree.parse(path).iter("testcase"):
            if all(case.find(kind) is None for kind in ("failure", "error", "skipped")):
                name = case.get("classname").replace(".", "/") + ".py::" + case.get("name")
                seconds[name] = float(case.get("time"))
    return seconds


def main(arguments):
    command, *given = arguments or [""]
    if command == "part" and len(given) == 1:
        sys.stdout.writelines(name + "\n" for name in part_of(sys.stdin.read().splitlines(), given[0]))
    elif command == "took" and len(given) == 1:
        sys.stdout.write(text_of(took(Path(given[0]))))
    elif command == "merge" and given:
        merged = {}
        for path in given:
            merged.update(read(Path(path)))
        sys.stdout.write(text_of(merged))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
