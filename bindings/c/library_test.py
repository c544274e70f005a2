#!/usr/bin/env python3
"""Fails when libgqa.so exports a symbol other than its headers' functions, misses one, or has grown too large.

  library_test.py exports LIBRARY HEADER... | size LIBRARY BYTES
"""
import re
import subprocess
import sys
from pathlib import Path


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in lines.splitlines() if line.strip()}


def promised(header):
    names = set(re.findall(r"^GQA_API [^(]*?\b(gqa_\w+)\(", Path(header).read_text(), re.MULTILINE))
    assert len(names) >= 8, f"only {sorted(names)} were read from {header}"
    return names


def check_exports(library, *headers):
    expected = set().union(*map(promised, headers))
    found = exported(library)
    assert expected <= found, f"{library} does not export {sorted(expected - found)}"
    assert found <= expected, f"{library} exports {sorted(found - expected)}, which no header names"


def check_size(library, most):
    size = Path(library).resolve().stat().st_size
    print(f"{library}: {size:,} bytes")
    assert size < int(most), f"{library} has {size:,} bytes, expected under {int(most):,}"


if __name__ == "__main__":
    {"exports": check_exports, "size": check_size}[sys.argv[1]](*sys.argv[2:])
