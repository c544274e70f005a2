"""Cancelling: Ctrl-C and Handle.cancel end what is being tuned at once; later calls work."""

import os
import signal
import threading
import time

import gqa
import numpy as np
import pytest

from conftest import attention_float64, check, make_qkv

SOON = 0.5  # seconds: the promise
SLOW = dict(batch=1, q_len=4096, kv_len=16384, q_heads=32, kv_heads=32, head_dim=128)  # a run alone takes seconds


def slow_graph():
    graph = gqa.new_kernel_graph()
    x = graph.new_input(dims=(4096, 4096), dtype=gqa.bfloat16)
    w = graph.new_input(dims=(4096, 8192), dtype=gqa.bfloat16)
    graph.mark_output(graph.silu(x @ w))
    return graph


@pytest.fixture(autouse=True)
def ctrl_c_interrupts():
    """A shell starts what it runs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def handle(tmp_path):
    with gqa.Handle("host", cache_path=tmp_path / "cache.db", tuning_budget=60) as made:
        yield made


def slow_call(handle):
    zeros = [np.zeros((1, n, 32, 128), np.float16) for n in (4096, 16384, 16384)]
    handle.attention(*zeros)


CALLS = {
    "warm": lambda handle: handle.warm(**SLOW),
    "attention": slow_call,
    "superoptimize": lambda handle: slow_graph().superoptimize(device=handle, budget=60),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_ctrl_c_ends_a_call_that_tunes(handle, call):
    told = []

    def interrupt():
        time.sleep(0.7)
        told.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        call(handle)
    ended = time.perf_counter()
    thread.join()
    assert ended - told[0] < SOON
    q, k, v = make_qkv()
    check(handle.attention(q, k, v), attention_float64(q, k, v)[0])


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_cancel_ends_a_call_in_another_thread(handle, call):
    ended = []

    def tune():
        with pytest.raises(gqa.CancelledError, match=r"cancel\(\)") as caught:
            call(handle)
        assert caught.value.status == gqa.Status.ERROR_CANCELLED
        ended.append(time.perf_counter())

    thread = threading.Thread(target=tune)
    thread.start()
    time.sleep(0.7)
    told = time.perf_counter()
    handle.cancel()
    thread.join()
    assert ended and ended[0] - told < SOON


def test_a_handler_that_does_not_raise_ends_nothing(handle):
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        graph = gqa.new_kernel_graph()
        x = graph.new_input(dims=(16, 256), dtype=gqa.float16)
        w = graph.new_input(dims=(256, 64), dtype=gqa.float16)
        graph.mark_output(x @ w)
        assert graph.superoptimize(device=handle, budget=0.5) is not None
        time.sleep(0.1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [1]


def test_an_exception_of_the_callback_ends_the_search(handle):
    def enough(told):
        raise ValueError("enough")

    begun = time.perf_counter()
    with pytest.raises(ValueError, match="enough"):
        slow_graph().superoptimize(device=handle, budget=60, verbose=enough)
    assert time.perf_counter() - begun < 2


def test_cancel_of_an_idle_or_closed_handle(handle):
    handle.cancel()
    q, k, v = make_qkv()
    check(handle.attention(q, k, v), attention_float64(q, k, v)[0])
    handle.close()
    with pytest.raises(gqa.GqaValueError, match="closed"):
        handle.cancel()
