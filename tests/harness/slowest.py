#!/usr/bin/env python3
"""Where a run's time went: its fifteen slowest suites and its fifteen slowest translation units, with seconds.

Owns: reading what ctest and pytest (*.xml) and Ninja (.ninja_log) wrote of this run.
Never: runs or builds. One thread.

  slowest.py SINCE FOLDER...    what was built after SINCE, in seconds since 1970; of each folder: *.xml, and the
                                .ninja_log of a build beside it
"""
import collections
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SHOWN = 15


def suites(folder):
    """Seconds by suite: a ctest, or a file of pytest's tests."""
    seconds = collections.Counter()
    for path in folder.glob("*.xml"):
        for case in ElementTree.parse(path).iter("testcase"):
            name = case.get("name") if path.name == "ctest.xml" else case.get("classname", "").rpartition("tests.")[2]
            seconds[f"{folder.parent.name if path.name == 'ctest.xml' else path.stem}: {name}"] += float(case.get("time", 0))
    return seconds


def units(folder, since):
    """Seconds by object file that Ninja made since then."""
    seconds = collections.Counter()
    log = folder.parent / ".ninja_log"
    for line in log.read_text().splitlines() if log.exists() else []:
        fields = line.split("\t")
        if len(fields) != 5 or not fields[3].endswith(".o") or int(fields[2]) < since * 1e9:
            continue
        name = fields[3].replace("CMakeFiles/", "").replace(".dir/", "/").removesuffix(".o")
        seconds[f"{folder.parent.name}: {name}"] = (int(fields[1]) - int(fields[0])) / 1e3
    return seconds


def main(since, folders):
    for title, found in (("slowest suites", [suites(folder) for folder in folders]),
                         ("slowest translation units", [units(folder, since) for folder in folders])):
        ranked = sum(found, collections.Counter()).most_common(SHOWN)
        if ranked:
            print(f"{title}, seconds by the clock:")
        for name, seconds in ranked:
            print(f"  {seconds:7.1f}  {name}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(float(sys.argv[1]), [folder for folder in map(Path, sys.argv[2:]) if folder.is_dir()])
