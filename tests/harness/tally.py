#!/usr/bin/env python3
"""Counts what the tests of a run came to and prints it as one line: N passed, N failed, N skipped.

Owns: reading what ctest (--output-junit), GoogleTest (--gtest_output=json) and pytest (--junitxml) write.
Never: runs a test. One thread.

  tally.py FOLDER...    reads of each folder ctest.xml and the counts of its suites beside it (SUITE.json, also without
                        a ctest.xml), all other *.xml, of pytest, and *.stage: "passed", "failed" or "skipped", of
                        what is one test itself

A GoogleTest suite counts as its tests; any other ctest, and a suite that left no counts (it crashed), counts as one.
"""
import collections
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

Counts = collections.Counter  # of "passed", "failed", "skipped"


def of_suite(path):
    """The counts of one GoogleTest process."""
    counts = Counts()
    for suite in json.loads(path.read_text())["testsuites"]:
        for test in suite["testsuite"]:
            skipped = test["result"] == "SKIPPED" or test["status"] == "NOTRUN"
            counts["failed" if test.get("failures") else "skipped" if skipped else "passed"] += 1
    return counts


def of_case(case):
    """The counts of one <testcase>, whose status ctest gives and whose children pytest."""
    status = case.get("status", "run")
    failed = status == "fail" or any(case.find(kind) is not None for kind in ("failure", "error"))
    skipped = status in ("notrun", "disabled") or case.find("skipped") is not None
    return Counts({"failed" if failed else "skipped" if skipped else "passed": 1})


def of_ctest(path):
    counts = Counts()
    for case in ElementTree.parse(path).iter("testcase"):
        suite = path.parent / (case.get("name") + ".json")
        whole = of_suite(suite) if suite.exists() else Counts()
        if case.get("status") == "fail" and not whole["failed"]:
            whole = Counts(failed=1)
        counts += whole or of_case(case)
    return counts


def of_folder(folder):
    counts = Counts()
    for path in sorted(folder.glob("*.xml")):
        if path.name == "ctest.xml":
            counts += of_ctest(path)
            continue
        for case in ElementTree.parse(path).iter("testcase"):
            counts += of_case(case)
    if not (folder / "ctest.xml").exists():  # suites that no ctest ran
        for path in sorted(folder.glob("*.json")):
            counts += of_suite(path)
    for path in sorted(folder.glob("*.stage")):
        counts[path.read_text().strip()] += 1
    return counts


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    total = sum(map(of_folder, map(Path, sys.argv[1:])), Counts())
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
