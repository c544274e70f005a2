#!/usr/bin/env python3
"""Fails when libgqa.so exports a symbol other than its headers' functions, misses one, has grown too large, or when
its SONAME and the version of its symbols are not those of all of 0.x.

  library_test.py exports LIBRARY HEADER... | keeps LIBRARY HEADER... | size LIBRARY BYTES |
                  soname LIBRARY SONAME SYMBOL_VERSION
  keeps: of released headers; the library may export more
"""
import re
import subprocess
import sys
from pathlib import Path


def told(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(library):
    """(name, version) of what the library exports; the version itself is a symbol, too, and is left out."""
    lines = [line.split() for line in told("nm", "-D", "--defined-only", library).splitlines() if line.strip()]
    return {(name, version) for _, kind, symbol in lines if kind != "A"
            for name, _, version in [symbol.replace("@@", "@").partition("@")]}


def exported(library):
    return {name for name, _ in symbols(library)}


def promised(header):
    names = set(re.findall(r"^GQA_API [^(]*?\b(gqa_\w+)\(", Path(header).read_text(), re.MULTILINE))
    assert len(names) >= 8, f"only {sorted(names)} were read from {header}"
    return names


def check_keeps(library, *headers):
    expected = set().union(*map(promised, headers))
    found = exported(library)
    assert expected <= found, f"{library} does not export {sorted(expected - found)}"
    return expected, found


def check_exports(library, *headers):
    expected, found = check_keeps(library, *headers)
    assert found <= expected, f"{library} exports {sorted(found - expected)}, which no header names"


def check_size(library, most):
    size = Path(library).resolve().stat().st_size
    print(f"{library}: {size:,} bytes")
    assert size < int(most), f"{library} has {size:,} bytes, expected under {int(most):,}"


def check_soname(library, soname, version):
    dynamic = told("readelf", "-dW", library)
    assert f"Library soname: [{soname}]" in dynamic, f"{library} is not {soname}:\n{dynamic}"
    others = {f"{name}@{given}" for name, given in symbols(library) if given != version}
    assert not others, f"{library} exports {sorted(others)}, expected the symbol version {version}"


if __name__ == "__main__":
    {"exports": check_exports, "keeps": check_keeps, "size": check_size, "soname": check_soname}[sys.argv[1]](*sys.argv[2:])
