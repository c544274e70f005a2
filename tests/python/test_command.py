"""`python -m gqa` is gqa-cache: the same words, exit codes and signals, and this installation's own program."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import gqa
import pytest

PROGRAM = Path(sysconfig.get_path("scripts")) / "gqa-cache"
MODULE = [sys.executable, "-m", "gqa"]
SHAPE = "b=1,hq=4,hk=2,sq=64,sk=64,d=64,dtype=bf16,causal"


def run(command, *arguments, **environment):
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=120, cwd="/", env={**os.environ, **environment}
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0),
        (["-V"], 0),
        (["help"], 0),
        (["help", "spec"], 0),
        (["warm", "--help"], 0),
        (["stats", "--json", "--db", "/nonexistent/cache.db"], 0),
        (["--json", "stats", "--db", "/nonexistent/cache.db"], 0),
        (["list", "--db", "/nonexistent/cache.db"], 1),
        (["forget", "3f9a2c", "--db", "/nonexistent/cache.db"], 1),
        (["verify", "--db", "/nonexistent/cache.db"], 1),
        (["lsit"], 2),
        ([], 2),
        (["help", "polish"], 2),
        (["warm", "--shape", "hq=4,sq=bad word,d=64"], 2),
        (["warm", "--shape", ""], 2),
    ],
)
def test_the_same_words_and_exit_code(arguments, code):
    expected = run([str(PROGRAM)], *arguments)
    assert expected[0] == code
    assert run(MODULE, *arguments) == expected


def test_what_it_writes_is_the_same_cache(tmp_path):
    tmp_path.chmod(0o700)
    db = str(tmp_path / "cache.db")
    code, _, errors = run(MODULE, "--db", db, "warm", "--device", "host", "--budget", "0.2", "--shape", SHAPE)
    assert code == 0, errors
    listed = run([str(PROGRAM)], "--db", db, "list")
    assert "hq=4,hk=2" in listed[1] and listed == run(MODULE, "--db", db, "list")


@pytest.mark.parametrize("command", [[str(PROGRAM)], MODULE], ids=["gqa-cache", "python -m gqa"])
def test_a_reader_that_leaves_ends_it(command):
    """As for any program of a shell's pipeline: SIGPIPE, not an error message."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*command, "help", "spec"], stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


def test_signals_reach_it(tmp_path):
    """The process is gqa-cache itself, under the number that the shell knows, so a signal ends it as it ends gqa-cache."""
    tmp_path.chmod(0o700)
    shapes = [word for length in range(1000, 4000, 500) for word in ("--shape", f"hq=8,sq={length},d=64")]
    command = [*MODULE, "--db", str(tmp_path / "cache.db"), "warm", "--device", "host", *shapes]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        running = Path(f"/proc/{process.pid}/exe")
        end = time.monotonic() + 30
        while os.readlink(running) != str(PROGRAM.resolve()):
            assert process.poll() is None and time.monotonic() < end, "it never became gqa-cache"
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
    assert process.returncode == -signal.SIGTERM


def test_not_any_program_on_the_path(tmp_path):
    decoy = tmp_path / "gqa-cache"
    decoy.write_text("#!/bin/sh\necho decoy\n")
    decoy.chmod(0o755)
    assert run(MODULE, "--version", PATH=f"{tmp_path}:{os.environ['PATH']}") == run([str(PROGRAM)], "--version")


def copied_package(folder):
    """The package in a folder of its own, with the record of its files, and without its program."""
    site = Path(gqa.__file__).parents[1]
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(site / "gqa", folder / "gqa", ignore=ignored)
    (record,) = site.glob("gqa-*.dist-info")
    shutil.copytree(record, folder / record.name, ignore=ignored)


def test_a_program_that_is_missing_or_broken(tmp_path):
    folder = tmp_path / "a" / "b" / "site"  # as deep as what the record's "../../../bin" climbs
    copied_package(folder)
    code, out, errors = run(MODULE, "list", PYTHONPATH=str(folder))
    assert (code, out) == (1, "") and "Traceback" not in errors
    assert str(tmp_path) in errors and "gqa-cache" in errors and "pip install" in errors

    broken = folder / "bin" / "gqa-cache"  # where pip install --target puts it
    broken.parent.mkdir()
    broken.write_text("")
    code, out, errors = run(MODULE, "list", PYTHONPATH=str(folder))
    assert (code, out) == (1, "") and "Traceback" not in errors
    assert str(broken) in errors and "Permission denied" in errors

    broken.unlink()
    broken.symlink_to(PROGRAM.resolve())
    assert run(MODULE, "--version", PYTHONPATH=str(folder)) == run([str(PROGRAM)], "--version")
