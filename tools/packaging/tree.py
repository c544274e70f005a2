#!/usr/bin/env python3
"""Prints what state of the repository this tree is: its commit, with a "+" and a digest where files differ from it.

Owns: that name. tools/package writes it to build/packages/TREE, and tools/demo takes a package only where it is the
same. Never: looks into build/. One thread. Where there is no repository it says nothing and exits 1.
"""
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def git(*arguments):
    return subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), *arguments], capture_output=True,
                          check=True).stdout


def state():
    commit = git("rev-parse", "HEAD").decode().strip()
    changed = git("diff", "--binary", "HEAD")
    for name in filter(None, git("ls-files", "-z", "--others", "--exclude-standard").split(b"\0")):
        changed += b"\0" + name + b"\0" + (ROOT / name.decode()).read_bytes()
    return commit + ("+" + hashlib.sha256(changed).hexdigest()[:12] if changed else "")


if __name__ == "__main__":
    try:
        print(state())
    except (OSError, subprocess.CalledProcessError):
        sys.exit(1)
