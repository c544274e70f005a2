"""Handles: their cache, their log, threads, the GIL, forks and exits."""

import os
import threading
import time

import gqa
import numpy as np
import pytest

from conftest import BUDGET, attention_float64, check, make_qkv, run_python


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def test_the_cache_is_remembered_by_the_next_handle(tmp_path):
    """What one handle tuned, a handle that must not tune can run."""
    path = tmp_path / "cache.db"
    q, k, v = make_qkv(q_len=20, kv_len=20)
    with gqa.Handle("host", cache_path=path, tuning_budget=BUDGET) as first:
        first.attention(q, k, v)
    with gqa.Handle("host", cache_path=path, tuning="cached-only") as second:
        check(second.attention(q, k, v), attention_float64(q, k, v)[0])


def test_cache_off_leaves_no_file(tmp_path):
    path = tmp_path / "cache.db"
    with gqa.Handle("host", cache_path=path, cache_mode="off", tuning="guess") as handle:
        q, k, v = make_qkv()
        check(handle.attention(q, k, v), attention_float64(q, k, v)[0])
    assert not path.exists()


def test_warm_is_what_the_first_call_would_do(tmp_path):
    path = tmp_path / "cache.db"
    with gqa.Handle("host", cache_path=path, tuning_budget=BUDGET) as handle:
        handle.warm(batch=1, q_len=16, kv_len=16, q_heads=2, kv_heads=1, head_dim=32, dtype=np.float16, causal=True)
    with gqa.Handle("host", cache_path=path, tuning="cached-only") as handle:
        q, k, v = make_qkv()
        check(handle.attention(q, k, v, causal=True), attention_float64(q, k, v, True)[0])


def test_warm_for_calls_with_lse(tmp_path):
    path = tmp_path / "cache.db"
    with gqa.Handle("host", cache_path=path, tuning_budget=BUDGET) as handle:
        handle.warm(batch=1, q_len=16, kv_len=16, q_heads=2, kv_heads=1, head_dim=32, dtype="fp16", return_lse=True)
    with gqa.Handle("host", cache_path=path, tuning="cached-only") as handle:
        q, k, v = make_qkv()
        expected, expected_lse = attention_float64(q, k, v)
        out, lse = handle.attention(q, k, v, return_lse=True)
        check(out, expected)
        check(lse, expected_lse)
        with pytest.raises(gqa.GqaError, match="sq=16"):  # tuned apart
            handle.attention(q, k, v)


def test_shared_handles():
    """gqa.attention and gqa.warm without a handle, in the cache that $GQA_CACHE names."""
    gqa.warm(batch=1, q_len=1, kv_len=16, q_heads=2, kv_heads=1, head_dim=32, dtype="fp16", device="host")
    q, k, v = make_qkv(q_len=1)
    check(gqa.attention(q, k, v), attention_float64(q, k, v)[0])
    assert os.path.exists(os.environ["GQA_CACHE"])


def test_shared_handle_is_made_once():
    made = run_python(
        "import threading, gqa\n"
        "from gqa import _defaults\n"
        "barrier, seen = threading.Barrier(8), []\n"
        "def first():\n"
        "    barrier.wait(); seen.append(_defaults.core_of('host'))\n"
        "threads = [threading.Thread(target=first) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(len(seen), len({id(core) for core in seen}))\n"
    )
    assert made.split() == ["8", "1"]


def test_log_tells_of_tuning(tmp_path):
    lines = []
    with gqa.Handle(
        "host", cache_path=tmp_path / "c.db", tuning_budget=BUDGET, log=lambda level, text: lines.append((level, text))
    ) as handle:
        handle.attention(*make_qkv())
    assert lines
    assert all(level in ("info", "warning") and text and "\n" not in text for level, text in lines)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_in_the_log_stays_there(tmp_path, monkeypatch):
    caught = []
    monkeypatch.setattr("sys.unraisablehook", lambda unraisable: caught.append(unraisable.exc_type))

    def log(level, text):
        raise KeyError(text)

    q, k, v = make_qkv()
    with gqa.Handle("host", cache_path=tmp_path / "c.db", tuning_budget=BUDGET, log=log) as handle:
        check(handle.attention(q, k, v), attention_float64(q, k, v)[0])
    assert caught and set(caught) == {KeyError}


def test_the_gil_is_released(tmp_path):
    """While one thread is inside the library another runs Python: it counts on while a long call lasts."""
    q, k, v = make_qkv(q_len=700, kv_len=700, q_heads=8, head_dim=128)
    # One host thread: a call lasts milliseconds on any machine.
    handle = gqa.Handle("host", cache_path=tmp_path / "cache.db", tuning_budget=BUDGET, threads=1)
    handle.attention(q, k, v)  # tuned
    alone = timed(lambda: handle.attention(q, k, v))
    calls = max(1, int(0.5 / alone))
    started, done, ticks = threading.Event(), threading.Event(), []

    def work():
        started.set()
        for _ in range(calls):
            handle.attention(q, k, v)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    while not done.is_set():
        ticks.append(time.perf_counter())
        time.sleep(0)  # no more than a chance to switch
    thread.join()
    handle.close()
    # With the GIL held, Python would run between calls only: about one tick a call.
    assert len(ticks) > 20 * calls, f"{len(ticks)} ticks in {calls} calls"


def test_eight_threads_on_one_new_shape(tmp_path):
    q, k, v = make_qkv(q_len=24, kv_len=50, seed=3)
    expected = attention_float64(q, k, v, True)[0]
    barrier, results, failures = threading.Barrier(8), [], []
    with gqa.Handle("host", cache_path=tmp_path / "cache.db", tuning_budget=BUDGET) as handle:

        def work():
            try:
                barrier.wait()
                for _ in range(20):
                    results.append(handle.attention(q, k, v, causal=True))
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == [] and len(results) == 160
    for out in results:
        check(out, expected)


def test_close_waits_for_calls_under_way(tmp_path):
    q, k, v = make_qkv(q_len=300, kv_len=300, head_dim=64)
    handle = gqa.Handle("host", cache_path=tmp_path / "cache.db", tuning_budget=BUDGET)
    handle.attention(q, k, v)
    stop, answers = threading.Event(), []

    def work():
        while not stop.is_set():
            try:
                answers.append(handle.attention(q, k, v))
            except gqa.GqaValueError:
                return

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(answers) < 5:
        time.sleep(0.01)
    handle.close()
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()
    stop.set()
    expected = attention_float64(q, k, v)[0]
    for out in answers:
        check(out, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="test_a_forked_child_begins_anew needs fork")
def test_a_forked_child_begins_anew():
    told = run_python(
        "import os, sys, numpy as np, gqa\n"
        "q = np.ones((1, 4, 2, 32), np.float16)\n"
        "gqa.attention(q, q, q)\n"
        "child = os.fork()\n"
        "ok = bool((gqa.attention(q, q, q) == 1).all())\n"
        "if child:\n"
        "    print(ok, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "else:\n"
        "    sys.exit(0 if ok else 1)\n"
    )
    assert told.split() == ["True", "0"]


def test_exit_with_an_open_handle_is_quiet(tmp_path):
    told = run_python(
        "import numpy as np, gqa\n"
        "q = np.ones((1, 4, 2, 32), np.float16)\n"
        f"handle = gqa.Handle('host', cache_path={str(tmp_path / 'c.db')!r}, tuning_budget={BUDGET}, "
        "log=lambda level, text: None)\n"
        "handle.attention(q, q, q)\n"
        "gqa.attention(q, q, q)\n"
        "print('end')\n"
    )
    assert told == "end\n"
