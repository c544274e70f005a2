#!/usr/bin/env python3
"""The committed list of verdicts: which planted faults, emulated kernels and compiled kernels were judged, and as what.

  verdicts 1, full 2026-11-27
  Mutants.AMissingTranspose 0123456789abcdef0123456789abcdef

The first line has the day of the last full run; merges may leave several such lines, of which the oldest day counts.
Every other line is a name, a space and the digest of all that decided that verdict. Lines are sorted by name.

Owns: reading and writing the list. A list that holds any other line (a conflict's mark, another version) is named and
counts as empty; a name that stands twice counts for nothing.
Never: judges, nor knows what a digest is made of: verdicts.h does. One thread.

  verdicts.py known LIST              prints what is believed of the list, for GQA_VERDICTS; says on stderr what is not
  verdicts.py merge LIST SEEN [DAY]   takes in what the tests left in the folder SEEN; after a full run, of that DAY,
                                      drops what no test asked for
"""
import re
import sys
from pathlib import Path

import digests

HEAD = re.compile(r"verdicts 1, full (\d{4}-\d{2}-\d{2})")
NEVER = "0000-00-00"  # the day of the full run of a list that is not believed


def parse(text):
    """The day, the digests by name, and why the list is not believed ("" where it is)."""
    lines = text.splitlines()
    if not lines or not HEAD.fullmatch(lines[0]):
        return NEVER, {}, f"it begins with {''.join(lines[:1])[:60]!r}, expected 'verdicts 1, full YEAR-MONTH-DAY'"
    days = [head[1] for head in map(HEAD.fullmatch, lines) if head]
    listed, other = digests.parse(line for line in lines if not HEAD.fullmatch(line))
    if other:
        return NEVER, {}, f"it holds {other[:60]!r}, expected a name and 32 hexadecimal digits"
    return min(days), listed, ""


def read(path):
    day, listed, wrong = parse(path.read_text() if path.exists() else "")
    if wrong:
        print(f"verdicts: {path} is not believed, all is judged: {wrong}", file=sys.stderr)
    return day, listed


def left_by_tests(folder):
    seen = {}
    for path in sorted(folder.glob("*")):
        seen.update(line.split() for line in path.read_text().splitlines())
    return seen


def merge(path, folder, full_day):
    day, listed = read(path)
    seen = left_by_tests(folder)
    new = sum(listed.get(name) != digest for name, digest in seen.items())
    kept = seen if full_day else {**listed, **seen}
    lines = [f"verdicts 1, full {full_day or day}"] + [f"{name} {kept[name]}" for name in sorted(kept)]
    path.write_text("\n".join(lines) + "\n")
    print(f"verdicts: {len(seen) - new} as listed, {new} judged and added to {path}, "
          f"{len(set(listed) - set(kept))} dropped; last full run {full_day or day}")


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "known":
        for name, digest in sorted(read(Path(arguments[1]))[1].items()):
            print(name, digest)
    elif len(arguments) in (3, 4) and arguments[0] == "merge":
        merge(Path(arguments[1]), Path(arguments[2]), arguments[3] if len(arguments) == 4 else None)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
