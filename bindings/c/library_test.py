#!/usr/bin/env python3
"""Fails when libgqa.so exports a symbol other than the gqa.h functions, misses one, or has grown too large.

  library_test.py exports LIBRARY GQA_H | size LIBRARY BYTES
"""
import re
import subprocess
import sys
from pathlib import Path


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in lines.splitlines() if line.strip()}


def check_exports(library, header):
    promised = set(re.findall(r"^GQA_API [^(]*?\b(gqa_\w+)\(", Path(header).read_text(), re.MULTILINE))
    found = exported(library)
    assert len(promised) >= 8, f"only {sorted(promised)} were read from {header}"
    assert promised <= found, f"{library} does not export {sorted(promised - found)}"
    assert found <= promised, f"{library} exports {sorted(found - promised)}, which gqa.h does not name"


def check_size(library, most):
    size = Path(library).resolve().stat().st_size
    print(f"{library}: {size:,} bytes")
    assert size < int(most), f"{library} has {size:,} bytes, expected under {int(most):,}"


if __name__ == "__main__":
    {"exports": check_exports, "size": check_size}[sys.argv[1]](*sys.argv[2:])
