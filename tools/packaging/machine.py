"""What every part of tools/package stands on: where things are, running commands, telling how far it is.

Owns: the folders, what is printed, the environment that tools/setup wrote. Never: makes a package. One thread.
"""
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
RELEASE = BUILD / "release"  # the objects that all is relinked from
WORK = BUILD / "packaging"  # what is kept from run to run: sources, virtual environments, builds of the extension
PACKAGES = BUILD / "packages"
EVERY = 15  # seconds between two signs of life


class Failure(Exception):
    """What was given, what was expected, what to do."""


def say(text):
    print(f"package: {text}", flush=True)


def version():
    header = (ROOT / "runtime/api/gqa.h").read_text()
    return ".".join(re.findall(r"^#define GQA_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE))


def told(*command, cwd=ROOT, **environment):
    """What a command prints on standard output."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    if done.returncode:
        raise Failure(f"{shlex.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def run(what, *command, cwd=ROOT, **environment):
    """Runs a command, tells every few seconds that it still does, and shows what it printed only if it fails."""
    WORK.mkdir(parents=True, exist_ok=True)
    log = WORK / (re.sub(r"\W+", "-", what) + ".log")
    began = shown = time.monotonic()
    with log.open("w") as out:
        with subprocess.Popen([str(word) for word in command], cwd=cwd, stdout=out, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, env={**os.environ, **environment}) as process:
            while process.poll() is None:
                try:
                    process.wait(1)
                except subprocess.TimeoutExpired:
                    if time.monotonic() - shown >= EVERY:
                        shown = time.monotonic()
                        say(f"  {what}: {shown - began:.0f} s so far")
    if process.returncode:
        sys.stderr.write(log.read_text())
        raise Failure(f"{what}: {shlex.join(map(str, command))} ended with {process.returncode}")
    return time.monotonic() - began


def environment():
    """What tools/setup wrote for its callers, into this process's environment."""
    script = f'set -a; . {shlex.quote(str(BUILD / "environment"))}; env -0'
    for line in told("bash", "-c", script).split("\0"):
        name, _, value = line.partition("=")
        if name:
            os.environ[name] = value


def venv(name, python, *requirements):
    """The Python of a virtual environment with these packages, made once."""
    folder = WORK / name
    mark = folder / "requirements"
    wanted = "\n".join([told(python, "-VV"), *requirements])
    if not (mark.is_file() and mark.read_text() == wanted):
        run(f"virtual environment {name}", python, "-m", "venv", "--clear", folder)
        run(f"packages of {name}", folder / "bin/python", "-m", "pip", "--disable-pip-version-check", "install",
            *requirements)
        mark.write_text(wanted)
    return folder / "bin/python"
