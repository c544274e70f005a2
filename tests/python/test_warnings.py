"""A cache that cannot be used says so, once, as a Python warning at the caller's line; and calls go on without it."""

import os
import subprocess
import sys
import warnings

import gqa
import numpy as np
import pytest

from conftest import BUDGET, attention_float64, check, make_qkv, run_python

TEXT = "dear diary\n"


def diary(tmp_path):
    path = tmp_path / "diary.txt"
    path.write_text(TEXT)
    return path


def told(path, call):
    """What `call` returned; it warned once, here, and named the path."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    assert [w.category for w in caught] == [RuntimeWarning], [str(w.message) for w in caught]
    assert str(path) in str(caught[0].message)
    assert caught[0].filename == __file__
    return result, str(caught[0].message)


def test_a_foreign_file(tmp_path):
    path = diary(tmp_path)
    handle, message = told(path, lambda: gqa.Handle("host", cache_path=path, tuning_budget=BUDGET))
    assert "a text file" in message and "the cache is off" in message
    q, k, v = make_qkv()
    with handle, warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        for _ in range(2):
            check(handle.attention(q, k, v), attention_float64(q, k, v)[0])
    assert path.read_text() == TEXT and os.listdir(tmp_path) == ["diary.txt"]


def test_the_default_handle(tmp_path):
    """gqa.attention in a program of its own, as users see it: on stderr, at their line."""
    path = diary(tmp_path)
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, gqa\n"
        "q = np.ones((1, 4, 2, 32), np.float16)\n"
        "print(gqa.attention(q, q, q).sum())\n"
        "print(gqa.attention(q, q, q).sum())\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "GQA_CACHE": str(path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "256.0\n256.0\n"
    assert done.stderr.count("RuntimeWarning") == 1
    assert f"{program}:3: RuntimeWarning: the cache is off" in done.stderr
    assert str(path) in done.stderr and "a text file" in done.stderr
    assert path.read_text() == TEXT


def test_as_an_error_it_is_the_callers(tmp_path):
    path = diary(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="a text file"):
            gqa.Handle("host", cache_path=path)
    assert path.read_text() == TEXT


def test_a_file_that_can_only_be_read(tmp_path):
    path = tmp_path / "cache.db"
    q, k, v = make_qkv()
    with gqa.Handle("host", cache_path=path, tuning_budget=BUDGET) as handle:
        handle.attention(q, k, v)
    path.chmod(0o444)
    before = path.read_bytes()
    handle, message = told(path, lambda: gqa.Handle("host", cache_path=path, tuning="cached-only"))
    assert "read-only" in message
    with handle:
        check(handle.attention(q, k, v), attention_float64(q, k, v)[0])
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["cache.db"]


def test_a_damaged_cache(tmp_path):
    path = tmp_path / "cache.db"
    with gqa.Handle("host", cache_path=path, tuning="guess") as handle:
        handle.attention(*make_qkv())
    with open(path, "r+b") as file:
        file.write(b"\x07" * 60)
    handle, message = told(path, lambda: gqa.Handle("host", cache_path=path))
    handle.close()
    assert "set aside as" in message
    assert len([name for name in os.listdir(tmp_path) if ".damaged-" in name]) == 1


def test_another_users_file(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("test_another_users_file: only root can give files away")
    path = tmp_path / "cache.db"
    with gqa.Handle("host", cache_path=path, tuning="guess") as handle:
        handle.attention(*make_qkv())
    os.chown(path, 12345, 12345)
    before = path.read_bytes()
    handle, message = told(path, lambda: gqa.Handle("host", cache_path=path, tuning="guess"))
    assert "belongs to user 12345" in message
    with handle:
        handle.attention(*make_qkv())
    assert path.read_bytes() == before


def test_a_log_gets_them_instead(tmp_path):
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gqa.Handle("host", cache_path=diary(tmp_path), log=lambda level, text: lines.append((level, text))).close()
    assert [level for level, _ in lines] == ["warning"] and "a text file" in lines[0][1]


def test_a_search_tells_too(tmp_path):
    path = tmp_path / "cache.db"
    graph = gqa.new_kernel_graph()
    x = graph.new_input(dims=(4, 64), dtype=gqa.float32)
    graph.mark_output(graph.exp(x) * 2)
    with gqa.Handle("host", cache_path=path) as handle:
        path.write_text(TEXT)  # over the open file
        optimized, message = told(path, lambda: graph.superoptimize(device=handle, budget=0.5))
        assert "a text file" in message
        data = np.zeros((4, 64), np.float32)
        assert (np.asarray(optimized([data])) == 2).all()
    assert path.read_text() == TEXT


def test_a_failure_is_told_once(tmp_path):
    """What a call raises it does not warn of as well."""
    told_of = run_python(
        "import warnings, numpy as np, gqa\n"
        "warnings.simplefilter('error')\n"
        f"handle = gqa.Handle('host', cache_path={str(tmp_path / 'c.db')!r}, tuning='cached-only')\n"
        "try:\n"
        "    handle.attention(*[np.ones((1, 4, 2, 32), np.float16)] * 3)\n"
        "except gqa.GqaError as error:\n"
        "    print(error.status.name)\n"
    )
    assert told_of == "ERROR_NOT_CACHED\n"
