"""python -m gqa.bench --grid serving: lengths, counts, tables, who is left out and why, and a run on the CPU."""

import json
import math
import re
import statistics
import subprocess
import sys

import pytest
from gqa.bench import serving_cases
from gqa.bench.serving_cases import SEED, ServingCase

SPEC = "serving:b=3,hq=4,hk=2,sq=2,sk=40,d=32,page=8,seed=7,sigma=0.8,dtype=fp16"
RAGGED = ServingCase(batch=64, mean_len=4096, sigma=0.8)


@pytest.fixture
def peers():
    return pytest.importorskip("gqa.bench.serving_peers", reason="serving_peers needs PyTorch")


@pytest.fixture
def bench():
    pytest.importorskip("torch", reason="gqa.bench needs PyTorch")
    from gqa.bench import __main__ as bench

    return bench


def test_spec_round_trip():
    assert str(serving_cases.parse(SPEC)) == SPEC
    assert serving_cases.parse("serving:b=64,sk=4096,sigma=0.8") == RAGGED
    packed = "serving:b=3,hq=4,hk=2,sk=40,d=32,seed=7,sigma=0.8,dtype=fp16,packed"
    assert str(serving_cases.parse(packed)) == packed and serving_cases.parse(packed).packed
    assert serving_cases.is_serving(SPEC) and not serving_cases.is_serving("lora:m=1")


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ("serving:b=2", "lacks sk"),
        ("serving:sk=2", "lacks b"),
        ("serving:", "''"),
        (SPEC + ",page=0", "'page=0'"),
        (SPEC + ",sigma=-1", "'sigma=-1'"),
        (SPEC + ",dtype=int8", "'dtype=int8'"),
        (SPEC + ",causal", "'causal'"),
    ],
)
def test_bad_spec(bad, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        serving_cases.parse(bad)


def test_grid_is_what_serving_asks_for():
    """8 key heads, d128, bfloat16, one seed."""
    cases = serving_cases.grid("cuda:0")
    caches = [(c.batch, c.mean_len, c.q_heads, c.sigma, c.q_len, c.page) for c in cases if not c.packed]
    assert caches == [
        (16, 8192, 32, 0, 1, 16),
        (256, 1024, 32, 0, 1, 16),
        (1, 32768, 32, 0, 1, 16),
        (128, 8192, 32, 0, 1, 64),
        (64, 4096, 64, 0, 1, 64),
        (64, 4096, 32, 0.8, 1, 16),
        (8, 32768, 64, 0.8, 1, 16),
        (32, 8192, 32, 0, 4, 16),
        (4, 8192, 32, 0, 512, 16),
    ]
    packed = [(c.batch, c.mean_len, c.q_heads, c.sigma) for c in cases if c.packed]
    assert packed == [(16, 1024, 32, 0.8), (64, 256, 32, 0.8), (4, 8192, 64, 0.8)]
    for case in cases:
        assert (case.kv_heads, case.head_dim, case.seed, case.dtype) == (8, 128, SEED, "bfloat16")
        assert case.decode == (not case.packed and case.q_len < 512)
        assert serving_cases.parse(str(case)) == case
    assert serving_cases.grid("cpu") != cases


def test_lengths_come_from_the_seed():
    """The same in every process and version of Python: the benchmark's lengths are part of its result."""
    lengths = RAGGED.lengths()
    assert lengths == RAGGED.lengths() and lengths[:4] == (2913, 1107, 8507, 2443)
    assert lengths != ServingCase(64, 4096, 0.8, seed=SEED + 1).lengths()
    assert f"seed {SEED}" in RAGGED.told() and f"{min(lengths)} to {max(lengths)}" in RAGGED.told()


def test_lengths_are_lognormal_of_the_mean():
    lengths = ServingCase(batch=4096, mean_len=4096, sigma=0.8).lengths()
    assert abs(statistics.mean(lengths) - 4096) < 1
    assert statistics.stdev(math.log(length) for length in lengths) == pytest.approx(0.8, abs=0.03)
    assert set(ServingCase(16, 8192).lengths()) == {8192}
    assert min(ServingCase(batch=64, mean_len=4, sigma=2.0, q_len=3).lengths()) == 3


def test_counts():
    """By hand: 3 queries see 8, 9 and 10 keys; a key and its value are 2 x 4 elements of 2 bytes a head."""
    case = ServingCase(batch=2, mean_len=10, q_heads=4, kv_heads=2, q_len=3, head_dim=4, page=4)
    assert case.pages() == (3, 3) and ServingCase(batch=1, mean_len=8, page=4).pages() == (2,)
    assert case.flops() == 2 * 4 * (8 + 9 + 10) * 2 * (4 + 4)
    assert case.bytes() == 2 * 10 * 2 * (4 + 4) * 2
    assert RAGGED.bytes() == sum(RAGGED.lengths()) * 4096
    packed = ServingCase(batch=2, mean_len=3, q_heads=4, kv_heads=2, head_dim=4, packed=True)
    assert packed.queries() == packed.lengths() == (3, 3)
    assert packed.flops() == 2 * 4 * (1 + 2 + 3) * 2 * (4 + 4)


def test_every_page_has_one_place(peers):
    """Out of order, and none shared: what a contestant reads is what the rate counts."""
    case = serving_cases.parse(SPEC)
    inputs, again = (peers.make_inputs(case, "cpu", seed) for seed in (0, 1))
    assert inputs.lengths.tolist() == list(case.lengths())
    assert tuple(inputs.table.shape) == (case.batch, max(case.pages()))
    used = [page for row, count in zip(inputs.table.tolist(), case.pages()) for page in row[:count]]
    assert sorted(used) == list(range(inputs.k.shape[0])) and used != sorted(used)
    assert used == peers.page_order(case).tolist()
    assert (inputs.table == again.table).all() and not (inputs.k == again.k).all()
    assert inputs.k.shape == inputs.v.shape == (sum(case.pages()), case.page, case.kv_heads, case.head_dim)


def test_the_answer(peers):
    """PyTorch's own attention agrees: causal, grouped heads, several queries, lengths that end within a page."""
    case = serving_cases.parse(SPEC)
    assert peers.seen(2, 3, "cpu").tolist() == [[True, True, False], [True, True, True]]
    inputs = peers.make_inputs(case, "cpu", 0)
    assert 0 < peers.worst_error(case, inputs, peers._sdpa(case, inputs)()) < 3e-3


PACKED = ServingCase(batch=5, mean_len=60, sigma=0.8, q_heads=4, kv_heads=2, head_dim=32, packed=True, dtype="float16")


def test_packed_prompts(peers, monkeypatch):
    inputs = peers.make_inputs(PACKED, "cpu", 0)
    total = sum(PACKED.lengths())
    assert inputs.q.shape == (total, 4, 32) and inputs.k.shape == inputs.v.shape == (total, 2, 32)
    assert inputs.starts.tolist() == [sum(PACKED.lengths()[:b]) for b in range(6)]
    out = peers._sdpa(PACKED, inputs)()
    assert 0 < peers.worst_error(PACKED, inputs, out) < 3e-3
    monkeypatch.setattr("gqa.bench.serving_inputs._SCORES", 700)  # a few queries at a time
    assert 0 < peers.worst_error(PACKED, inputs, out) < 3e-3
    out[PACKED.lengths()[0]] += 0.5  # the second sequence's first
    with pytest.raises(ArithmeticError, match="wrong answer: sequence 1 "):
        peers.worst_error(PACKED, inputs, out)


def test_equal_lengths_without_pages(peers):
    case = ServingCase(batch=3, mean_len=40, q_heads=4, kv_heads=2, q_len=2, head_dim=32, page=16)
    inputs = peers.make_inputs(case, "cpu", 0)
    assert 0 < peers.worst_error(case, inputs, peers._sdpa_dense(case, inputs)()) < 2e-2
    for other in (serving_cases.parse(SPEC), PACKED):
        with pytest.raises(ValueError, match="whose lengths are equal"):
            peers._sdpa_dense(other, peers.make_inputs(other, "cpu", 0))


@pytest.mark.parametrize("fault", ["a neighbour's page", "a page too few", "a key too many", "nothing written"])
def test_a_wrong_answer_is_found(peers, fault):
    case = ServingCase(batch=4, mean_len=1500, sigma=0.8)
    inputs = peers.make_inputs(case, "cpu", 0)
    longest = max(range(case.batch), key=case.lengths().__getitem__)  # where a page weighs least
    count = case.pages()[longest]
    out = peers._sdpa(case, inputs)()
    broken = inputs._replace(table=inputs.table.clone())
    if fault == "a neighbour's page":
        broken.table[longest, count // 2] = inputs.table[(longest + 1) % case.batch, 0]
        out = peers._sdpa(case, broken)()
    elif fault == "a page too few":
        out[longest] = one_sequence(peers, case, inputs, longest, -case.page)
    elif fault == "a key too many":
        shortest = min(range(case.batch), key=case.lengths().__getitem__)
        out[shortest] = one_sequence(peers, case, inputs, shortest, 1)
    else:
        out[longest] = float("nan")
    with pytest.raises(ArithmeticError, match="wrong answer: sequence "):
        peers.worst_error(case, inputs, out)


def one_sequence(peers, case, inputs, sequence, more):
    """A sequence's answer if it had so many keys more."""

    class Other(ServingCase):
        def lengths(self):
            return (case.lengths()[sequence] + more,)

        def pages(self):
            return (-(-self.lengths()[0] // self.page),)

    one = Other(1, case.mean_len)
    alone = inputs._replace(q=inputs.q[sequence : sequence + 1], table=inputs.table[sequence : sequence + 1])
    return peers._sdpa(one, alone)()[0]


def test_who_is_missing_is_named(peers, monkeypatch):
    """With what a GPU machine would say: nobody looks at a device before a call is prepared."""
    for module in ("flashinfer", "flashinfer.decode", "cudnn", "flash_attn_3", "flash_attn.cute"):
        monkeypatch.setitem(sys.modules, module, None)
    here, left_out = peers.contestants("cuda:0", None)
    assert [name for name, _ in here] == ["gqa", "gqa-contiguous"]
    assert list(left_out) == peers.names("cuda:0") == ["flashinfer", "xqa", "cudnn", "fa3", "fa3-planned", "fa4"]
    for why in left_out.values():
        assert why.startswith("ModuleNotFoundError: import of ")
    here, left_out = peers.contestants("cuda:0", None, ["fa3"])
    assert left_out["fa3"] == "--without" and left_out["fa3-planned"] != "--without"


def test_the_answer_checked_is_a_second_one(peers):
    """As a plan that serves one call, or a counter that nobody sets back, would have it."""
    case = serving_cases.parse(SPEC)
    inputs = peers.make_inputs(case, "cpu", 0)
    out = peers._sdpa(case, inputs)()
    writes = [True]

    def once(case, inputs):
        kept = out.clone()
        return lambda: kept.copy_(out) if writes and writes.pop() else kept

    with pytest.raises(ArithmeticError, match="off by nan"):
        peers.worst_error(case, inputs, peers._settled(once)(case, inputs)())
    assert not writes


def test_a_wrong_contestant_is_reported_and_not_timed(bench, peers, tmp_path, monkeypatch, capsys):
    def answer(case, inputs):
        return peers._sdpa(case, inputs)

    def wrong(case, inputs):
        return lambda: answer(case, inputs)() * 1.1

    monkeypatch.setattr(peers, "_gqa", lambda handle: answer)
    monkeypatch.setattr(peers, "_others", lambda device: {"good": lambda: answer, "off": lambda: wrong})
    file = tmp_path / "result.json"
    arguments = ["--device", "cpu", "--rounds", "2", "--cache", str(tmp_path / "cache.db"), "--json", str(file)]
    assert bench.main([*arguments, "--shapes", SPEC]) == 0
    printed = capsys.readouterr().out
    assert "best peer / gqa = " in printed and "(good " in printed and "lengths by seed 7: " in printed
    assert "failed: ArithmeticError: wrong answer: sequence 0" in printed
    (result,) = json.loads(file.read_text())["results"]
    assert set(result["us"]) == {"gqa", "good"} and set(result["failures"]) == {"gqa-contiguous", "off"}
    assert "failed: ValueError: it takes caches whose lengths are equal" in printed
    assert result["lengths"] == list(serving_cases.parse(SPEC).lengths())
    monkeypatch.setattr(peers, "_gqa", lambda handle: wrong)
    assert bench.main([*arguments, "--shapes", SPEC, "--without", "good"]) == 1
    assert "left out: good (--without)" in capsys.readouterr().out
    assert json.loads(file.read_text())["left_out"] == {"good": "--without"}


def test_command_line(bench):
    def cases(*arguments):
        return bench._cases(bench._options().parse_args(arguments), "cuda:0")

    assert cases("--grid", "serving") == serving_cases.grid("cuda:0")
    assert {case.dtype for case in cases("--grid", "serving", "--dtype", "fp16")} == {"float16"}
    assert cases("--shapes", SPEC) == [serving_cases.parse(SPEC)]


def test_terabytes_are_told_as_such(bench):
    times = {"gqa": [RAGGED.bytes() / 4e6], "slow": [RAGGED.bytes() / 999e3]}  # us at 4 TB/s and at 999 GB/s
    table = bench.report.table([bench.report.Result(RAGGED, 1, times, {"gqa": 0.0, "slow": 0.0})])
    assert "4.00 TB/s" in table and "999 GB/s" in table


def run_bench(tmp_path, *arguments):
    command = [sys.executable, "-m", "gqa.bench", "--grid", "serving", "--cache", tmp_path / "cache.db", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_on_the_cpu(bench, tmp_path):
    done = run_bench(tmp_path, "--device", "cpu", "--rounds", "2", "--budget", "0.2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("best peer / gqa = ") == 4 and f"lengths by seed {SEED}: " in done.stdout


@pytest.mark.gpu
def test_on_the_gpu(tmp_path):
    sizes = ["b=16,sk=1024,sigma=0.8", "b=8,sk=2048,sq=4,page=64", "b=2,sk=2048,sq=256", "b=8,sk=256,sigma=0.8,packed"]
    shapes = [f"serving:{size}" for size in sizes]
    done = run_bench(tmp_path, "--rounds", "3", "--budget", "2", "--shapes", *shapes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"lengths by seed {SEED}: ") == 4
