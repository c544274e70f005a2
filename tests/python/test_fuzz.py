"""tools/fuzz: a few seconds of a fixed seed find nothing; planted faults are found, made smaller and printed as tests.

Owns: the judgement of the fuzz. Never: judges gqa itself by it for longer than a few seconds; tools/test --full does.
"""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import gqa
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from gqa._errors import Status, error_for  # noqa: E402

from fuzzing import calls, judgement, types  # noqa: E402
from fuzzing.calls import reference, source  # noqa: E402
from fuzzing.calls.case import Case, Lists  # noqa: E402
from fuzzing.shrinking import shrink  # noqa: E402
from fuzzing.worker import Worker, guarded  # noqa: E402

from conftest import BUDGET, attention_float64, make_qkv  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def shared_handles():
    """The fuzz puts handles of its own in the place of the shared ones."""
    handles, cores = dict(gqa._defaults._handles), dict(gqa._defaults._cores)
    calls.setup("cpu", BUDGET / 10)
    yield
    for kept, now in ((handles, gqa._defaults._handles), (cores, gqa._defaults._cores)):
        now.clear()
        now.update(kept)


def run_test(text):
    """Runs the test function of a finding, as pytest would."""
    names = {}
    exec(text, names)
    (function,) = (value for name, value in names.items() if name.startswith("test_"))
    function()


def planted(monkeypatch, name, wrong):
    """The function with its result, (out, lse or None), changed."""
    right = getattr(gqa, name)

    def function(*args, **kwargs):
        result = right(*args, **kwargs)
        out = result[0] if isinstance(result, tuple) else result
        wrong(out, kwargs, *args)
        return result

    monkeypatch.setattr(gqa, name, function)


def scaled_head(out, kwargs, q, *rest):
    """The last head of a group of two and more is off by 3 %."""
    if out.ndim == 4 and out.shape[2] > rest[0].shape[2] and out.size:
        out[:, :, -1] *= 1.03


def fewer_bits(out, kwargs, q, *rest):
    """A float32 answer is as exact as one of tensor cores that keep 10 bits."""
    if isinstance(out, np.ndarray) and out.dtype == np.float32:
        bits = out.view(np.uint32)
        bits &= np.uint32(0xFFFFE000)


def lost_window(out, kwargs, q, k, v):
    """A window's left side hides nothing."""
    window = kwargs.get("window_size", (-1, -1))
    if (window[0] or -1) >= 0 and isinstance(out, np.ndarray):
        rest = {name: value for name, value in kwargs.items() if name != "window_size"}
        out[...] = np.asarray(
            lost_window.right(
                q,
                k,
                v,
                window_size=(-1, window[1]),
                **{**rest, "return_softmax_lse": False, "return_attn_probs": False},
            )
        )


def hidden_read(out, kwargs, q, k, v):
    """What lies behind the last key of sequence 0 is read."""
    if (
        out.size
        and out.ndim == 4
        and kwargs.get("page_table") is None
        and isinstance(kwargs.get("cache_seqlens"), np.ndarray)
    ):
        out[0, 0] += 0 * k[0, -1, 0, 0]


def finding(case):
    """The failure of a case that must fail, made small, as a test."""
    failure = guarded(calls, case)
    assert failure is not None
    small, found = shrink(case, failure, calls.simpler, lambda smaller: guarded(calls, smaller), seconds=60)
    return small, calls.test(small, found, "test_it")


def first_failing(kind, count=400):
    for number in range(count):
        case = calls.draw(7, number, "cpu")
        if case is not None and case.function == kind and case.frame == "numpy":
            failure = guarded(calls, case)
            if failure is not None and failure.known is None:
                return case
    raise AssertionError(f"{count} cases, and none fails")


def test_a_few_cases_are_right():
    told = io.StringIO()
    worker = Worker(calls, 3, "cpu", print_to=told)
    assert worker.run(0, cases=40) == 0
    assert worker.tally.failed == 0, told.getvalue()
    assert worker.tally.cases == 40


def test_a_planted_factor_is_found_shrunk_and_printed(monkeypatch):
    case = first_failing_with(monkeypatch, "flash_attn_func", scaled_head)
    small, text = finding(case)
    assert small.group == 2 and small.kv_heads == 1 and small.batch == 1 and small.dim == 16
    assert "np.testing.assert_allclose(float(out[0, 0, 1, " in text
    with pytest.raises(AssertionError):
        run_test(text)
    monkeypatch.undo()
    run_test(text)


def first_failing_with(monkeypatch, name, wrong):
    planted(monkeypatch, name, wrong)
    return first_failing(name)


def test_lost_bits_of_float32_are_found(monkeypatch):
    small, text = finding(first_failing_with(monkeypatch, "attention", fewer_bits))
    assert small.type == "float32"
    with pytest.raises(AssertionError):
        run_test(text)
    monkeypatch.undo()
    run_test(text)


def test_a_lost_window_is_found(monkeypatch):
    lost_window.right = gqa.flash_attn_func
    case = first_failing_with(monkeypatch, "flash_attn_func", lost_window)
    small, text = finding(case)
    assert small.window is not None and small.kv_len < 20
    with pytest.raises(AssertionError):
        run_test(text)


def test_a_read_of_a_hidden_slot_is_found(monkeypatch):
    case = first_failing_with(monkeypatch, "flash_attn_with_kvcache", hidden_read)
    small, text = finding(case)
    assert small.lengths is not None and small.kv_len <= 2
    assert "k[unseen] = v[unseen] = np.nan" in text or "np.inf" in text
    with pytest.raises(AssertionError):
        run_test(text)


def test_a_write_that_nobody_asked_for_is_found(monkeypatch):
    def wrong(out, kwargs, q, *rest):
        q[..., 0] = 0

    planted(monkeypatch, "attention", wrong)
    small, text = finding(Case(function="attention", q_len=3, kv_len=20, kv_heads=2, seed=5))
    assert small.q_len == 1 and "np.testing.assert_equal(float(q[0, 0, 0, 0])" in text
    with pytest.raises(AssertionError):
        run_test(text)


def test_a_wrong_merge_is_found(monkeypatch):
    right = gqa.merge_states

    def function(outs, lses, **more):
        out, lse = right(outs, lses, **more)
        if len(outs) > 2:
            out *= 1.02
        return out, lse

    monkeypatch.setattr(gqa, "merge_states", function)
    numbers = (n for n in range(400) if getattr(calls.draw(7, n, "cpu"), "parts", 0) > 2)
    cases = (calls.draw(7, n, "cpu") for n in numbers)
    case = next(c for c in cases if np.prod(c.shape) and not c.infinite and c.frame == "numpy")
    small, text = finding(case)
    assert small.parts == 3
    with pytest.raises(AssertionError):
        run_test(text)


def test_a_refusal_is_told(monkeypatch):
    def refuse(*args, **kwargs):
        raise error_for(Status.ERROR_OPTION, "no such day")

    monkeypatch.setattr(gqa, "attention", refuse)
    failure = guarded(calls, Case(function="attention"))
    assert failure.kind == "refused" and "no such day" in failure.words


def test_a_seeds_case_is_always_the_same():
    for number in (0, 5, 77, 300):
        assert calls.draw(4, number, "cpu") == calls.draw(4, number, "cpu")
    assert len({calls.draw(4, number, "cpu") for number in range(40)}) > 30


def test_all_that_it_says_it_covers_is_drawn():
    numbers = range(0, 6000, 7)  # of almost as many shapes
    drawn = [case for number in numbers if (case := calls.draw(1, number, "cpu")) is not None]
    attention = [case for case in drawn if isinstance(case, Case)]
    assert {case.dim for case in attention} == {16, 32, 64, 80, 96, 112, 128, 192, 256}
    assert {case.type for case in attention} == {"float16", "bfloat16", "float32"}
    for name in "window softcap sink bias score_scale page rows pads new rotary positions queries keys used".split():
        assert any(getattr(case, name) for case in attention), name
    assert any(case.dim != case.dim_v for case in attention) and any(0 in (case.queries or ()) for case in attention)
    assert {case.function for case in drawn} == {
        "attention", "flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache", "merge_states"
    }  # fmt: skip


@pytest.mark.parametrize(
    "options", [{}, {"causal": True, "softcap": 3.0}, {"window": (3, 1)}, {"sink": np.array([0.5, -1.0])}]
)
def test_the_reference_is_the_tests_own(options):
    q, k, v = make_qkv(q_len=9, kv_len=13, q_heads=2, kv_heads=1)
    expected, lse = attention_float64(q, k, v, **options)
    s = reference.Sequence(
        *(x[0].astype(np.float64) for x in (q, k, v)), 2, 32**-0.5, types.TYPES["float16"], **options
    )
    rows, got, naive, doubt = reference.attend(s)
    np.testing.assert_allclose(rows.want, expected[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(got, lse[0], rtol=1e-12)
    assert judgement.judge_rows(rows.naive, rows, s.kind) is None
    assert np.abs(naive - got).max() < 1e-5 and (doubt < 1e-4).all()


def test_bfloat16_is_rounded_to_the_nearest_even():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    x[:4] = 1 + 2.0**-8, 1 + 3 * 2.0**-8, np.inf, np.nan
    expected = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(types.TYPES["bfloat16"].rounded(x), expected)


def test_slots_of_a_paged_case_are_where_its_table_says():
    case = Case(function="flash_attn_with_kvcache", batch=2, kv_len=10, page=4, lengths=(5, 12), seed=3)
    lists = Lists(case)
    assert lists.kv_len == 12 and list(lists.lengths) == [5, 12]
    page, slot = lists.at(0, lists.seen(0))
    assert list(slot) == [0, 1, 2, 3, 0] and list(page) == [lists.table[0, 0]] * 4 + [lists.table[0, 1]]
    text, _ = source.write(case, "cpu")
    assert text.body[-1].startswith("out = gqa.flash_attn_with_kvcache(q, k, v, cache_seqlens=")


def tool(*arguments, code=0):
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [ROOT / "tools" / "fuzz", *arguments], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_the_command_says_how_many():
    assert re.search(r"calls, seed 2, cpu: 3 cases in \d+ s", tool("calls", "--cases", "3", "--seed", "2"))
    assert "example: tools/fuzz calls" in tool("--help")
    tool("cells", code=2)
    tool("calls", "--seed", "-1", code=2)


def test_a_crash_costs_a_case_and_is_a_finding(tmp_path):
    """A function that ends its process, where it is given more than one part."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal\n"
        "def plant():\n"
        "    import gqa\n"
        "    right = gqa.merge_states\n"
        "    def wrong(outs, lses, **more):\n"
        "        if len(outs) > 1: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "        return right(outs, lses, **more)\n"
        "    gqa.merge_states = wrong\n"
        "plant()\n"
    )
    merges = ((n, case) for n in range(600) if getattr(case := calls.draw(7, n, "cpu"), "parts", 0) > 1)
    number = next(n for n, case in merges if case.parts < 4 and not case.stacked)
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [ROOT / "tools" / "fuzz", "calls", "--seed", "7", "--case", str(number)],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, **environment, "PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"FAILED case {number}: crash: signal 11" in done.stdout and "gqa.merge_states([out0, out1]" in done.stdout
