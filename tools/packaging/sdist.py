"""The source distribution: what `pip install` builds from, given pyproject.toml's requirements and the libraries that
tools/setup --demo installs.

Owns: making it. Never: chooses its files: pyproject.toml and what git ignores do. One thread.
"""
import shutil

import machine


def make(tools):
    machine.say("the source distribution")
    made = machine.WORK / "made-sdist"
    shutil.rmtree(made, ignore_errors=True)
    # cuda.h is no requirement of an archive.
    machine.run("the source distribution", tools, "-m", "build", "--sdist", "--no-isolation", "--skip-dependency-check",
                "--outdir", made, machine.ROOT)
    [archive] = made.glob("*.tar.gz")
    return shutil.move(str(archive), machine.PACKAGES)
