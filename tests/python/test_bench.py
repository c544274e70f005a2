"""python -m gqa.bench: shapes, counts, ratios, and a run on the CPU."""

import argparse
import json
import re
import subprocess
import sys
import time

import pytest
from gqa.bench import graph_cases, shapes

SPEC = "b=1,hq=4,hk=2,sq=32,sk=32,d=64,dtype=bf16,causal"


def test_spec_round_trip():
    for text in (SPEC, "b=2,hq=8,hk=8,sq=1,sk=100,d=192,dv=128,dtype=fp16"):
        assert str(shapes.parse(text)) == text
    assert shapes.parse("b=1,hq=1,hk=1,sq=1,sk=1,d=32") == shapes.Shape(1, 1, 1, 1, 1, 32, 32)


def test_spec_has_the_defaults_of_gqa_cache():
    """As `gqa-cache help spec` says them."""
    assert shapes.parse(" d=64, hq = 4 ,sq=8") == shapes.Shape(1, 4, 4, 8, 8, 64, 64, "bfloat16", False)
    assert shapes.parse("hq=4,sq=8,d=64,dtype=f16,causal=1") == shapes.Shape(1, 4, 4, 8, 8, 64, 64, "float16", True)
    assert not shapes.parse("hq=4,sq=8,d=64,causal=0").causal


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ("", "''"),
        ("b=1", "hq, sq, d"),
        (SPEC + ",window=3", "'window=3'"),
        (SPEC.replace("32", "-1"), "'sq=-1'"),
        (SPEC.replace("bf16", "int8"), "'dtype=int8'"),
        (SPEC + ",d=64", "'d' stands twice"),
        (SPEC + "=", "'causal='"),
    ],
)
def test_bad_spec(bad, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        shapes.parse(bad)


def test_counts():
    """By hand: 2 x 3 pairs, of which bottom-right causal leaves 2 + 3; 4 elements of 2 bytes a head and row."""
    full = shapes.Shape(batch=2, q_heads=4, kv_heads=2, q_len=2, kv_len=3, head_dim=2, head_dim_v=2)
    causal = shapes.Shape(2, 4, 2, 2, 3, 2, 2, causal=True)
    assert (full.pairs(), causal.pairs()) == (6, 5)
    assert full.flops() == 2 * 2 * 4 * 6 * 4
    assert full.bytes() == 2 * (2 * 4 + 3 * 2) * 4 * 2
    assert shapes.Shape(1, 1, 1, 5, 2, 2, 2, causal=True).pairs() == 3


def test_grids():
    prefill, decode = shapes.grid("prefill", "cuda:0"), shapes.grid("decode", "cuda:0")
    assert [s.q_len for s in prefill] == [2048, 4096, 8192, 16384] and all(s.causal for s in prefill)
    assert [(s.batch, s.kv_len) for s in decode] == [(1, 4096), (8, 4096), (32, 4096), (128, 4096), (1, 8192)]
    assert all(s.decode and (s.q_heads, s.kv_heads, s.head_dim) == (32, 8, 128) for s in decode)
    assert shapes.grid("all", "cuda:0") == prefill + decode


def test_a_grid_of_another_dtype():
    pytest.importorskip("torch", reason="test_a_grid_of_another_dtype needs PyTorch")
    from gqa.bench import __main__ as bench

    def cases(*arguments):
        return bench._cases(bench._options().parse_args(arguments), "cuda:0")

    assert cases("--grid", "sweep") == cases("--grid", "sweep", "--dtype", "bf16")
    halves = cases("--grid", "hopper", "--dtype", "fp16")
    assert [str(case).replace("fp16", "bf16") for case in halves] == [str(case) for case in cases("--grid", "hopper")]
    assert {case.dtype for case in halves + cases("--grid", "graph", "--dtype", "fp16")} == {"float16"}
    assert len({case.dtype for case in cases("--grid", "graph")}) == 2
    with pytest.raises(ValueError, match="--dtype is of a grid"):
        cases("--dtype", "fp16", "--shapes", SPEC)


def test_ratio_is_taken_within_rounds():
    """A clock that drifts by 4 between rounds moves every time and no ratio."""
    report = pytest.importorskip("gqa.bench.report")
    times = {"gqa": [1.0, 2.0, 4.0], "slow": [3.0, 6.0, 12.0], "fast": [2.0, 4.0, 8.0]}
    result = report.Result(
        shapes.parse(SPEC), 1, times, {"gqa": 0.0, "slow": 0.0, "fast": 0.0}, {"gone": "no such thing"}
    )
    assert result.ratio("slow") == 3.0 and result.best_peer() == "fast"
    assert "best peer / gqa = 2.000 (fast" in report.summary(result)
    assert "failed: no such thing" in report.table([result])


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_each_contestant_follows_each_other_equally_often(count):
    timing = pytest.importorskip("gqa.bench.timing")
    rounds = count if count % 2 == 0 else 2 * count
    followed = {}
    for turn in range(rounds):
        row = timing.order(count, turn)
        assert sorted(row) == list(range(count))
        for pair in zip(row, row[1:]):
            followed[pair] = followed.get(pair, 0) + 1
    assert len(followed) == count * (count - 1)
    assert len(set(followed.values())) == 1


def test_settling_runs_the_contestant_itself_before_its_sample():
    timing = pytest.importorskip("gqa.bench.timing")
    ran = []
    replays = {name: lambda name=name: ran.append(name) or time.sleep(0.002) or 1.0 for name in ("a", "b")}
    times = timing.rounds(replays, 1, settle=0.01)
    assert times == {"a": [1.0], "b": [1.0]}
    assert ran[:2] == ["a", "b"]
    first = ran[2:].index("b")
    assert first >= 3 and set(ran[2 : 2 + first]) == {"a"} and set(ran[2 + first :]) == {"b"}


def test_resting_comes_before_settling(monkeypatch):
    timing = pytest.importorskip("gqa.bench.timing")
    did = []
    monkeypatch.setattr(timing.time, "sleep", lambda seconds: did.append(seconds))
    monkeypatch.setattr(timing, "_settle", lambda replay, seconds: did.append(("settles", seconds)))
    assert timing.rounds({"a": lambda: did.append("a") or 1.0}, 2, rest=0.3, settle=0.1) == {"a": [1.0, 1.0]}
    assert did == ["a"] + [0.3, ("settles", 0.1), "a"] * 2


def test_a_gpu_rests_where_it_is_not_to_settle():
    pytest.importorskip("torch", reason="test_a_gpu_rests_where_it_is_not_to_settle needs PyTorch")
    from gqa.bench import __main__ as bench

    assert bench._default_rest("cuda:0", settle=0) == bench._REST_MS > 100
    assert bench._default_rest("cuda:0", settle=250) == bench._default_rest("cpu", settle=0) == 0


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "soon"])
def test_times_that_are_none(text):
    pytest.importorskip("torch", reason="test_times_that_are_none needs PyTorch")
    from gqa.bench import __main__ as bench

    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is no number of milliseconds"):
        bench._milliseconds(text)
    assert bench._milliseconds("0") == 0 and bench._milliseconds("2.5") == 2.5


def run_bench(tmp_path, *arguments):
    command = [sys.executable, "-m", "gqa.bench", "--cache", tmp_path / "cache.db", "--budget", "0.2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_on_the_cpu(tmp_path):
    pytest.importorskip("torch", reason="test_on_the_cpu needs PyTorch")
    file = tmp_path / "result.json"
    decode = "b=2,hq=4,hk=1,sq=1,sk=64,d=64"
    done = run_bench(tmp_path, "--device", "cpu", "--rounds", "3", "--shapes", SPEC, decode, "--json", file)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("best peer / gqa = ") == 2 and "GB/s" in done.stdout and "TFLOP/s" in done.stdout
    results = json.loads(file.read_text())["results"]
    for result in results:
        assert len(result["samples_us"]["gqa"]) == 3
        assert result["ratio"]["gqa"] == 1.0 and result["ratio"][result["best_peer"]] > 0
        assert result["max_abs_error"]["gqa"] < 3e-2


def test_a_peer_that_ends_the_device_ends_the_run(tmp_path, monkeypatch, capsys):
    """Not the shapes measured before: they are printed and written."""
    pytest.importorskip("torch", reason="test_a_peer_that_ends_the_device_ends_the_run needs PyTorch")
    from gqa.bench import __main__ as bench

    def faulty(shape, inputs):
        if shape.kv_len > 32:
            raise RuntimeError("an illegal memory access")
        return lambda: inputs[0]

    peer = bench.peers.Peer("faulty", faulty)
    monkeypatch.setattr(bench.peers, "contestants", lambda device: ([peer], []))
    monkeypatch.setattr(bench.timing, "alive", lambda device: False)
    file = tmp_path / "result.json"
    shapes_run = (SPEC, SPEC.replace("sk=32", "sk=64"), SPEC.replace("sk=32", "sk=96"))
    arguments = ["--device", "cpu", "--rounds", "2", "--cache", str(tmp_path / "cache.db"), "--budget", "0.2"]
    assert bench.main([*arguments, "--json", str(file), "--shapes", *shapes_run]) == 3
    printed = capsys.readouterr()
    assert "faulty left cpu unusable on " + shapes_run[1] in printed.err and "--without faulty" in printed.err
    assert [result["shape"] for result in json.loads(file.read_text())["results"]] == [SPEC]
    assert bench.main([*arguments, "--without", "faulty", "--shapes", shapes_run[1]]) == 0
    with pytest.raises(SystemExit, match="2"):
        bench.main([*arguments, "--without", "faulti", "--shapes", SPEC])
    assert "--without faulti: no such library; known here: faulty" in capsys.readouterr().err


def test_a_peer_that_fails_is_named(tmp_path):
    """PyTorch's causal is aligned top-left: for unequal lengths it is no peer, and no time of it is shown."""
    pytest.importorskip("torch", reason="test_a_peer_that_fails_is_named needs PyTorch")
    done = run_bench(tmp_path, "--device", "cpu", "--rounds", "1", "--shapes", "b=1,hq=2,hk=1,sq=3,sk=40,d=32,causal")
    assert done.returncode == 0, done.stderr
    assert "no ratio" in done.stdout and "failed: ValueError: is_causal" in done.stdout


@pytest.mark.parametrize("arguments", [("--shapes", "b=0"), ("--rounds", "0"), ("--grid", "other")])
def test_bad_command_line(tmp_path, arguments):
    pytest.importorskip("torch", reason="test_bad_command_line needs PyTorch")
    done = run_bench(tmp_path, "--device", "cpu", *arguments)
    assert done.returncode == 2 and "error" in done.stderr


@pytest.mark.gpu
def test_on_the_gpu(tmp_path):
    done = run_bench(tmp_path, "--rounds", "3", "--shapes", "b=1,hq=8,hk=2,sq=256,sk=256,d=128,causal")
    assert done.returncode == 0, done.stderr
    assert "best peer / gqa = " in done.stdout


# ---- graphs

GRAPHS = (
    "attention:b=2,sq=16,sk=48,d=32,dtype=fp16",
    "rms_norm_linear:m=2,k=64,n=48,dtype=bf16",
    "gated_mlp:m=2,k=64,n=96,dtype=bf16",
    "lora:m=2,k=64,n=64,r=8,dtype=bf16",
)


@pytest.mark.parametrize("text", GRAPHS)
def test_graph_spec_round_trip(text):
    assert graph_cases.is_graph(text) and str(graph_cases.parse(text)) == text


@pytest.mark.parametrize("bad", ["lora:m=1", "lora:m=1,k=2,n=3,r=4,q=5", "mlp:m=1", "gated_mlp:m=0,k=2,n=3", "lora"])
def test_bad_graph_spec(bad):
    with pytest.raises(ValueError):
        graph_cases.parse(bad)


def test_graph_counts():
    """By hand: products of (2,3) with (3,5), twice 2 * 2 * 3 * 5; 6 + 2 * 15 + 10 elements of 2 bytes."""
    mlp = graph_cases.parse("gated_mlp:m=2,k=3,n=5")
    assert (mlp.flops(), mlp.bytes(), mlp.output()) == (120, 92, (2, 5))
    lora = graph_cases.parse("lora:m=2,k=3,n=5,r=1")
    assert (lora.flops(), lora.bytes()) == (2 * 2 * (15 + 3 + 5), 2 * (6 + 15 + 3 + 5 + 10))
    norm = graph_cases.parse("rms_norm_linear:m=2,k=3,n=5")
    assert (norm.flops(), norm.bytes()) == (60, 2 * (6 + 3 + 15 + 10))
    attention = graph_cases.parse("attention:b=2,sq=3,sk=5,d=4")
    assert (attention.flops(), attention.bytes()) == (2 * 2 * 3 * 5 * 8, 2 * 2 * (2 * 12 + 2 * 20))


def test_graph_grid():
    cases = graph_cases.grid("cuda:0")
    assert str(cases[0]) == "attention:b=2,sq=256,sk=4096,d=64,dtype=fp16"
    for kind, n in (("rms_norm_linear", 4096), ("gated_mlp", 11008), ("lora", 4096)):
        assert [(c["m"], c["k"], c["n"]) for c in cases if c.kind == kind] == [(m, 4096, n) for m in (1, 4, 16)]


def test_graphs_in_both_words():
    """gqa's graph takes PyTorch's inputs and gives its output's sizes."""
    graph_peers = pytest.importorskip("gqa.bench.graph_peers", reason="test_graphs_in_both_words needs PyTorch")
    for text in GRAPHS:
        case = graph_cases.parse(text)
        inputs = graph_peers.make_inputs(case, "cpu", 0)
        assert [tuple(x.shape) for x in inputs] == case.inputs()
        out = graph_peers._eager(case, inputs)()
        assert tuple(out.shape) == case.output()
        assert graph_peers.worst_error(case, inputs, out) < 5e-2
        assert graph_peers.graph_of(case).to_text().count("input") == len(inputs)


def test_errors_beside_operator_by_operator():
    """That of the graph as it is written is the measure itself; with twice its error an answer stands at 2."""
    graph_peers = pytest.importorskip("gqa.bench.graph_peers", reason="the measure of errors needs PyTorch")
    for text in GRAPHS:
        case = graph_cases.parse(text)
        inputs = graph_peers.make_inputs(case, "cpu", 0)
        words = graph_peers._op_by_op_attention if case.kind == "attention" else graph_peers._WORDS[case.kind][1]
        out, exact = words(*inputs).double(), words(*(tensor.double() for tensor in inputs))
        assert graph_peers.error_ratio(case, inputs, out) == pytest.approx(1)
        assert graph_peers.error_ratio(case, inputs, exact + 2 * (out - exact)) == pytest.approx(2)


def test_graphs_on_the_cpu(tmp_path):
    pytest.importorskip("torch", reason="test_graphs_on_the_cpu needs PyTorch")
    file = tmp_path / "result.json"
    arguments = ("--device", "cpu", "--rounds", "2", "--no-compile", "--shapes", *GRAPHS, "--json", file)
    done = run_bench(tmp_path, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(file.read_text())["results"]
    assert [result["shape"] for result in results] == list(GRAPHS)
    assert set(results[0]["us"]) == {"gqa", "torch", "gqa.attention", "torch sdpa"}
    for result in results:
        assert result["failures"] == {} and not result["best_peer"].startswith("gqa")
        assert result["max_abs_error"]["gqa"] < 5e-2
        assert result["error_norm_ratio"]["gqa"] <= 1.5
    assert "error / op by op" in done.stdout


@pytest.mark.gpu
def test_graphs_on_the_gpu(tmp_path):
    done = run_bench(tmp_path, "--rounds", "3", "--shapes", *GRAPHS)
    assert done.returncode == 0, done.stdout + done.stderr
