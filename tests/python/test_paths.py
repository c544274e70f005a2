"""gqa.get_include(), gqa.get_library() and `python -m gqa --cflags --libs`: a C program of this package's files alone."""

import ctypes
import os
import shlex
import shutil
import subprocess
import sys

import gqa
import pytest

PROGRAM = """
#include <stdio.h>
#include "gqa_graph.h"
int main(void) {
  printf("%d %d\\n", GQA_VERSION, gqa_version());
  return 0;
}
"""


def told(*options):
    done = subprocess.run([sys.executable, "-m", "gqa", *options], capture_output=True, text=True, cwd="/", timeout=60)
    assert done.returncode == 0, done.stderr
    return shlex.split(done.stdout)


def test_flags():
    assert told("--cflags") == ["-I" + gqa.get_include()]
    assert told("--libs", "--cflags") == told("--cflags") + told("--libs")
    assert set(os.listdir(gqa.get_include())) >= {"gqa.h", "gqa_graph.h", "gqa.hpp", "dlpack"}


def test_an_option_more_is_for_the_command():
    done = subprocess.run([sys.executable, "-m", "gqa", "--cflags", "--polish"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "gqa-cache" in done.stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler here")
def test_a_program_is_compiled_and_finds_the_library(tmp_path):
    (tmp_path / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", "program.c", *told("--cflags", "--libs"), "-o", "program"], check=True, cwd=tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run([tmp_path / "program"], check=True, capture_output=True, text=True, env=environment)
    header, library = map(int, done.stdout.split())
    assert header == library == ctypes.CDLL(gqa.get_library()).gqa_version()
    assert gqa.version() == f"{library // 10000}.{library // 100 % 100}.{library % 100}"


def test_the_library_is_the_one_that_is_loaded():
    with open("/proc/self/maps") as maps:
        assert {os.path.realpath(line.split()[-1]) for line in maps if "libgqa" in line} == {
            os.path.realpath(gqa.get_library())
        }
