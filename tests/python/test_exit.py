"""The interpreter's exit: whatever is in progress on a handle, it comes at once and with the program's own status."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOON = 1.5  # seconds from the program's end to the process's: half a second is the promise, the rest the interpreter's

# What the program does before it ends, and the status that it ends with.
BEGIN = """
import os, sys, threading, time
import numpy as np
import gqa
handle = gqa.Handle("host", cache_path=os.environ["EXIT_CACHE"], tuning_budget=60)
def slow():
    handle.warm(batch=1, q_len=4096, kv_len=16384, q_heads=32, kv_heads=32, head_dim=128)
def slow_graph():
    graph = gqa.new_kernel_graph()
    x = graph.new_input(dims=(4096, 4096), dtype=gqa.bfloat16)
    w = graph.new_input(dims=(4096, 8192), dtype=gqa.bfloat16)
    graph.mark_output(graph.silu(x @ w))
    graph.superoptimize(device=handle, budget=60, verbose=lambda told: None)
def again_and_again():
    zeros = [np.zeros((1, 16, 2, 32), np.float16)] * 3
    while True:
        handle.attention(*zeros)
def end(status):
    print("ending", time.time(), flush=True)
    sys.exit(status)
"""
IN_A_DAEMON = "threading.Thread(target={}, daemon=True).start(); time.sleep(0.7); end({})"


def run(code, path, **variables):
    return subprocess.run(
        [sys.executable, "-c", BEGIN + code],
        env={**os.environ, "EXIT_CACHE": str(path), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def ended(code, path, status):
    done = run(code, path)
    now = time.time()
    assert done.returncode == status, done.stderr
    assert done.stderr == ""
    assert now - float(done.stdout.split()[-1]) < SOON


@pytest.mark.parametrize("work", ["slow", "slow_graph", "again_and_again"])
@pytest.mark.parametrize("status", [0, 3])
def test_a_daemon_thread_in_the_library(tmp_path, work, status):
    ended(IN_A_DAEMON.format(work, status), tmp_path / "cache.db", status)


def test_several_daemon_threads(tmp_path):
    many = "[threading.Thread(target=each, daemon=True).start() for each in (slow, slow_graph, again_and_again) * 2]"
    ended(many + "; time.sleep(0.7); end(5)", tmp_path / "cache.db", 5)


def test_an_exception_ends_the_program_with_its_own_status(tmp_path):
    done = run(IN_A_DAEMON.format("slow", 0).replace("end(0)", "raise ValueError('mine')"), tmp_path / "cache.db")
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: mine\n")


def test_an_idle_handle_is_closed(tmp_path):
    path = tmp_path / "cache.db"
    ended("handle.warm(batch=1, q_len=16, kv_len=16, q_heads=2, kv_heads=1, head_dim=32); end(0)", path, 0)
    assert sorted(each.name for each in tmp_path.iterdir() if each.name.endswith(("-wal", "-journal"))) == []


def test_a_hook_that_runs_later_is_told(tmp_path):
    code = """
import atexit
def late():
    try:
        handle.warm(batch=1, q_len=16, kv_len=16, q_heads=2, kv_heads=1, head_dim=32)
    except gqa.CancelledError as error:
        assert "exits" in str(error)
        print("told", time.time(), flush=True)
import gqa._defaults
atexit.unregister(gqa._gqa.leave)
atexit.register(late)
atexit.register(gqa._gqa.leave)
end(0)
"""
    done = run(code, tmp_path / "cache.db")
    assert done.returncode == 0 and "told" in done.stdout, done.stderr


@pytest.fixture(scope="module")
def quiet_cuda(tmp_path_factory):
    """A folder with a driver that runs nothing."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).with_name("quiet_cuda.c")
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-fno-builtin", "-w", str(source), "-o", str(library)], check=True)
    return folder


# The call outlasts what is waited for at exit, ends while the interpreter is taken down, and leaves compilers behind.
# abort() stands for the destructors of their library, which must not run under them.
COMPILERS_LEFT = """
import ctypes
def later():
    time.sleep(2)
    libc = ctypes.CDLL(None)
    libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
import atexit
atexit.register(later)
atexit.unregister(gqa._gqa.leave)
atexit.register(gqa._gqa.leave)
handle = gqa.Handle("cuda:0", cache_path=os.environ["EXIT_CACHE"], tuning_budget=60)
threading.Thread(target=slow, daemon=True).start(); time.sleep(0.7); end(3)
"""


def test_compilers_that_outlive_their_call(tmp_path, quiet_cuda):
    stats = [sys.executable, "-m", "gqa", "--db", str(tmp_path / "none.db"), "stats"]
    if not re.search(r"NVRTC \d", subprocess.run(stats, capture_output=True, text=True).stdout):
        pytest.skip("needs NVRTC")
    done = run(COMPILERS_LEFT, tmp_path / "cache.db", LD_LIBRARY_PATH=str(quiet_cuda))
    assert done.returncode == 3, done.stderr


GPU = """
import torch
handle = gqa.Handle("cuda:0", cache_path=os.environ["EXIT_CACHE"], tuning_budget=60)
q, k, v = (torch.zeros(1, 64, heads, 64, dtype=torch.float16, device="cuda") for heads in (8, 2, 2))
"""


@pytest.mark.gpu
@pytest.mark.times_cpu
@pytest.mark.parametrize("status", [0, 3])
def test_a_daemon_thread_that_tunes_on_a_gpu(tmp_path, status):
    ended(GPU + IN_A_DAEMON.format("slow", status), tmp_path / "cache.db", status)


@pytest.mark.gpu
@pytest.mark.times_cpu
def test_work_in_flight_on_a_gpu(tmp_path):
    flight = "handle.attention(q, k, v); torch.cuda._sleep(20_000_000_000); handle.attention(q, k, v); end(4)"
    ended(GPU + flight, tmp_path / "cache.db", 4)
