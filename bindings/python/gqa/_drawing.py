"""Drawings by Graphviz's `dot`, where it is installed. Never: needed. Threads: pure functions."""

import shutil
import subprocess


def possible() -> bool:
    return shutil.which("dot") is not None


def svg_of(dot: str) -> str:
    """A drawing made by Graphviz."""
    program = shutil.which("dot")
    if program is None:
        raise FileNotFoundError(
            "to_svg needs Graphviz's program `dot`, which is not on PATH; install Graphviz, or draw to_dot() elsewhere"
        )
    return subprocess.run([program, "-Tsvg"], input=dot, capture_output=True, text=True, check=True).stdout
