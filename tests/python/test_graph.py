"""gqa.new_kernel_graph(): building graphs, their errors, and the programs found for them, held against float64."""

import io
import sys
import threading

import gqa
import numpy as np
import pytest
from gqa import Status
from gqa._progress import ProgressLine, SearchProgress

from conftest import check, run_python
from test_errors import refused

BUDGET = 0.5  # seconds a graph may be tuned; the graphs here are small


def attention_graph(queries=256, keys=4096, dim=64, dtype=gqa.float16):
    """The graph as its users write it."""
    graph = gqa.new_kernel_graph()
    Q = graph.new_input(dims=(2, queries, dim), dtype=dtype)
    K = graph.new_input(dims=(2, dim, keys), dtype=dtype)
    V = graph.new_input(dims=(2, keys, dim), dtype=dtype)
    A = graph.matmul(Q, K)
    E = graph.exp(A)
    S = graph.reduction(E, 2)
    D = graph.div(E, S)
    graph.matmul(D, V)
    return graph


def normal(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float16)


def attention_inputs(queries=256, keys=4096, dim=64, scale=0.3):
    return [
        normal(2, queries, dim, seed=1, scale=scale),
        normal(2, dim, keys, seed=2),
        normal(2, keys, dim, seed=3),
    ]


def attention_of(q, k, v):
    q, k, v = (np.asarray(x).astype(np.float64) for x in (q, k, v))
    scores = q @ k
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def last_line(graph):
    return graph.to_text().splitlines()[-1].split(" = ", 1)[1]


# ---------------------------------------------------------------- building


def test_the_graph_as_text():
    assert attention_graph().to_text() == (
        "graph 1\n"
        "t0 = input f16[2,256,64]\n"
        "t1 = input f16[2,64,4096]\n"
        "t2 = input f16[2,4096,64]\n"
        "t3 = matmul(t0, t1)\n"
        "t4 = exp(t3)\n"
        "t5 = sum(t4) dim=2\n"
        "t6 = div(t4, t5)\n"
        "t7 = matmul(t6, t2)\n"
    )


OPERATORS = {
    "matmul(t0, t1) tb=1": lambda g, x, y: g.matmul(x, y, transpose_b=True),
    "matmul(t0, t1) ta=1": lambda g, x, y: g.matmul(x, y, transpose_a=True),
    "matmul(t0, t2)": lambda g, x, y: x @ g.new_input((6, 3), gqa.float16),
    "add(t0, t1)": lambda g, x, y: x + y,
    "sub(t0, t1)": lambda g, x, y: x - y,
    "mul(t0, t1)": lambda g, x, y: x * y,
    "div(t0, t1)": lambda g, x, y: x / y,
    "add_constant(t0) c=2": lambda g, x, y: x + 2,
    "add_constant(t0) c=3": lambda g, x, y: 3 + x,
    "add_constant(t0) c=-2": lambda g, x, y: x - 2,
    "add_constant(t2) c=2": lambda g, x, y: 2 - x,
    "scale(t0) c=0.5": lambda g, x, y: x * 0.5,
    "scale(t0) c=0.25": lambda g, x, y: np.float32(0.25) * x,
    "scale(t0) c=0.125": lambda g, x, y: x / 8,
    "scale(t0) c=-1": lambda g, x, y: -x,
    "reciprocal(t0)": lambda g, x, y: 1 / x,
    "scale(t2) c=3": lambda g, x, y: 3 / x,
    "exp(t0)": lambda g, x, y: g.exp(x),
    "sqrt(t0)": lambda g, x, y: g.sqrt(x),
    "square(t0)": lambda g, x, y: g.square(x),
    "relu(t0)": lambda g, x, y: g.relu(x),
    "silu(t0)": lambda g, x, y: g.silu(x),
    "gelu(t0)": lambda g, x, y: g.gelu(x),
    "tanh(t0)": lambda g, x, y: g.tanh(x),
    "clamp(t0) lo=-1 hi=1": lambda g, x, y: g.clamp(x, -1, 1),
    "clamp(t0) hi=6": lambda g, x, y: g.clamp(x, high=6),
    "sum(t0) dim=1": lambda g, x, y: g.reduction(x, -1),
    "sum(t0) dim=0": lambda g, x, y: g.sum(x, 0),
    "max(t0) dim=0": lambda g, x, y: g.reduction(x, 0, op="max"),
    "max(t0) dim=1": lambda g, x, y: g.max(x, 1),
    "mean(t0) dim=0": lambda g, x, y: g.mean(x, 0),
    "softmax(t0) dim=1": lambda g, x, y: g.softmax(x),
    "rms_norm(t0) eps=1e-06": lambda g, x, y: g.rms_norm(x),
    "rms_norm(t0, t1) eps=0.5": lambda g, x, y: g.rms_norm(x, y, epsilon=0.5),
    "mask(t0) left=3 right=1": lambda g, x, y: g.mask(x, 3, 1),
    "mask(t0) right=0": lambda g, x, y: g.causal_mask(x),
    "mask(t0) left=7 right=0": lambda g, x, y: g.window(x, 7),
    "broadcast(t0) dims=[2,4,6]": lambda g, x, y: g.broadcast(x, (2, 4, 6)),
    "transpose(t0) dims=[1,0]": lambda g, x, y: g.transpose(x),
    "transpose(t0) dims=[0,1]": lambda g, x, y: g.transpose(x, np.array([0, 1])),
}


@pytest.mark.parametrize("line", OPERATORS)
def test_each_operator_is_itself(line):
    graph = gqa.new_kernel_graph()
    x, y = (graph.new_input((4, 6), gqa.float16) for _ in range(2))
    result = OPERATORS[line](graph, x, y)
    assert isinstance(result, gqa.Value) and result.graph is graph
    assert last_line(graph) == line


def test_a_value_knows_what_it_is():
    graph = gqa.new_kernel_graph()
    x = graph.new_input(dims=[3, 5], dtype="bf16", strides=(1, 3), name="x")
    y = x * graph.new_input((1, 5), gqa.float32)
    assert (x.dims, x.dtype) == ((3, 5), gqa.bfloat16)
    assert (y.dims, y.dtype) == ((3, 5), gqa.float32)
    assert repr(x) == "gqa.Value(dims=(3, 5), dtype=bfloat16)"
    assert "x = input bf16[3,5] strides=[1,3]" in graph.to_text()
    assert graph.find("x").dims == x.dims


@pytest.mark.parametrize("dtype", [gqa.float16, "float16", "fp16", np.float16, np.dtype("float16")], ids=str)
def test_dtypes_of_many_names(dtype):
    assert gqa.new_kernel_graph().new_input((2,), dtype).dtype is gqa.float16


def test_dtypes_of_torch():
    torch = pytest.importorskip("torch", reason="test_dtypes_of_torch needs PyTorch")
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        assert repr(gqa.new_kernel_graph().new_input((2,), dtype).dtype) == str(dtype).replace("torch", "gqa")


def test_names_and_order_do_not_count():
    graph = gqa.new_kernel_graph()
    v = graph.new_input((2, 4096, 64), gqa.float16, name="values")
    q, k = graph.new_input((2, 256, 64), gqa.float16), graph.new_input((2, 64, 4096), gqa.float16)
    weights = graph.exp(q @ k)
    weights / graph.sum(weights, -1) @ v
    assert graph.hash == attention_graph().hash
    assert graph.hash != attention_graph(keys=4095).hash
    assert len(graph.hash) == 32 and graph.hash[:8] in repr(graph)


def test_forms_read_back():
    graph = attention_graph()
    graph.mark_output(graph.find("t7"), graph.find("t5"))
    for form, read in ((graph.to_text(), gqa.graph_from_text), (graph.to_json(), gqa.graph_from_json)):
        again = read(form)
        assert again.to_text() == str(graph) and again.hash == graph.hash
        assert again.exp(again.find("t3")).dims == (2, 256, 4096)


def test_drawing(monkeypatch, tmp_path):
    graph = attention_graph()
    assert graph.to_dot().startswith("digraph") and "matmul" in graph.to_dot()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert graph._repr_svg_() is None
    with pytest.raises(FileNotFoundError, match="Graphviz"):
        graph.to_svg()
    program = tmp_path / "dot"  # stands for Graphviz's: answers with what it was given
    program.write_text(
        f"#!{sys.executable}\nimport sys\nassert sys.argv[1:] == ['-Tsvg']\n"
        "print('<svg>' + sys.stdin.read().splitlines()[0])\n"
    )
    program.chmod(0o700)
    assert graph.to_svg() == "<svg>" + graph.to_dot().splitlines()[0] + "\n"
    assert graph._repr_svg_() == graph.to_svg()


# ---------------------------------------------------------------- errors


def two_inputs():
    graph = gqa.new_kernel_graph()
    return graph, graph.new_input((4, 6), gqa.float16), graph.new_input((5, 6), gqa.float16)


BAD = {
    "rank 9": (lambda g, x, y: g.new_input((1,) * 9, "float16"), Status.ERROR_RANK, ["9", "8"]),
    "no dims": (lambda g, x, y: g.new_input((), "float16"), Status.ERROR_RANK, ["0"]),
    "a size of 0": (lambda g, x, y: g.new_input((4, 0), "float16"), Status.ERROR_SIZE, ["[4,0]"]),
    "a vast size": (lambda g, x, y: g.new_input((1 << 70,), "float16"), Status.ERROR_SIZE, [1 << 70]),
    "float64": (lambda g, x, y: g.new_input((4,), np.float64), Status.ERROR_DTYPE, ["float64", "bfloat16"]),
    "int8": (lambda g, x, y: g.new_input((4,), "int8"), Status.ERROR_DTYPE, ["int8"]),
    "dims of text": (lambda g, x, y: g.new_input("ab", "float16"), Status.ERROR_DTYPE, ["dims[0]", "whole"]),
    "dims that are a number": (lambda g, x, y: g.new_input(4, "float16"), Status.ERROR_DTYPE, ["dims"]),
    "dims of fractions": (lambda g, x, y: g.new_input((4.5,), "float16"), Status.ERROR_DTYPE, ["4.5"]),
    "strides that go back": (lambda g, x, y: g.new_input((4, 6), "float16", (6, -1)), Status.ERROR_STRIDE, ["[6,-1]"]),
    "one stride": (lambda g, x, y: g.new_input((4, 6), "float16", (6,)), Status.ERROR_STRIDE, ["1 strides"]),
    "a taken name": (lambda g, x, y: g.new_input((4,), "float16", name="t0"), Status.ERROR_OPTION, ["t0", "taken"]),
    "a bad name": (lambda g, x, y: g.new_input((4,), "float16", name="a b"), Status.ERROR_OPTION, ["a b", "letter"]),
    "sizes that do not meet": (lambda g, x, y: x + y, Status.ERROR_SHAPE, ["[4,6]", "[5,6]", 4, 5]),
    "products that do not meet": (lambda g, x, y: x @ y, Status.ERROR_SHAPE, ["inner", 6, 5]),
    "a dimension too many": (lambda g, x, y: g.sum(x, 2), Status.ERROR_RANK, ["from -2 to 1"]),
    "a vast dimension": (lambda g, x, y: g.sum(x, 1 << 40), Status.ERROR_RANK, [1 << 40]),
    "an unknown reduction": (lambda g, x, y: g.reduction(x, 0, "median"), Status.ERROR_OPTION, ["median", "mean"]),
    "a tensor": (lambda g, x, y: g.exp(np.zeros((2, 2))), Status.ERROR_DTYPE, ["ndarray", "new_input"]),
    "no value": (lambda g, x, y: g.add(x, None), Status.ERROR_DTYPE, ["NoneType"]),
    "two numbers": (lambda g, x, y: g.add(1, 2), Status.ERROR_DTYPE, ["int"]),
    "a factor of text": (lambda g, x, y: g.scale(x, "2"), Status.ERROR_DTYPE, ["'2'", "number"]),
    "no number": (lambda g, x, y: x * float("nan"), Status.ERROR_OPTION, ["finite"]),
    "a division by 0": (lambda g, x, y: x / 0, Status.ERROR_OPTION, ["divided by 0"]),
    "bounds crossed": (lambda g, x, y: g.clamp(x, 1, -1), Status.ERROR_OPTION, ["lo <= hi"]),
    "an order of three": (lambda g, x, y: g.transpose(x, (0, 1, 2)), Status.ERROR_RANK, ["2 dimensions", "3"]),
    "an order twice": (lambda g, x, y: g.transpose(x, (0, 0)), Status.ERROR_SHAPE, ["[0,0]"]),
    "another's value": (
        lambda g, x, y: x + two_inputs()[1],
        Status.ERROR_OPTION,
        ["operand 2 of add", "this is graph"],
    ),
    "an input as output": (lambda g, x, y: g.mark_output(x), Status.ERROR_OPTION, ["t0"]),
    "an unknown name": (lambda g, x, y: g.find("gone"), Status.ERROR_OPTION, ["gone"]),
}


@pytest.mark.parametrize("what", BAD)
def test_a_mistake_is_told_and_changes_nothing(what):
    step, status, words = BAD[what]
    graph, x, y = two_inputs()
    before = graph.to_text()
    kind = gqa.GqaTypeError if status == Status.ERROR_DTYPE else gqa.GqaValueError
    refused(lambda: step(graph, x, y), kind, status, *words)
    assert graph.to_text() == before


def test_operators_with_strangers_are_type_errors():
    graph, x, _ = two_inputs()
    for step in (lambda: x + "1", lambda: x @ 2, lambda: [] * x, lambda: np.zeros(3) * x, lambda: x**2):
        with pytest.raises(TypeError):
            step()


@pytest.mark.parametrize("text", ["", "graph 9", "graph 1\ny = exp(x)\n", '{"version": 7}', "{"])
def test_texts_that_are_no_graph(text):
    with pytest.raises(gqa.GqaError) as caught:
        gqa.graph_from_text(text)
    assert str(caught.value)


# ---------------------------------------------------------------- progress


def progress(phase, seconds, **fields):
    known = dict.fromkeys(SearchProgress._fields, 0)
    return SearchProgress(**{**known, **fields, "phase": phase, "seconds": seconds})


def test_progress_is_a_line_a_phase():
    stream = io.StringIO()
    line = ProgressLine(stream)
    for told in (
        progress("search", 0.1, explored=10),
        progress("search", 0.4, explored=1234, pruned=1000, proved=24),
        progress("compile", 0.5, compiled=1, kernels=3),
        progress("compile", 7.5, compiled=2, kernels=3),
        progress("time", 8.0, timed=2, programs=5, best_us=12.34),
    ):
        line(told)
    line.close()
    assert stream.getvalue() == (
        "gqa: search: 1,234 explored, 1,000 pruned, 24 proved, 0.4 s\n"
        "gqa: compile: 2 of 3 kernels, 7.5 s\n"
        "gqa: time: 2 of 5 programs, best 12.3 us, 8.0 s\n"
    )


def test_progress_on_a_terminal_is_one_line():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    line = ProgressLine(stream)
    line(progress("search", 0.1, explored=10))
    line(progress("time", 0.2, timed=1, programs=2))
    line.close()
    text = stream.getvalue()
    assert text.count("\n") == 1 and text.endswith("\n") and text.count("\r\x1b[K") == 2


# ---------------------------------------------------------------- programs


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with gqa.Handle("host", cache_path=tmp_path_factory.mktemp("graphs") / "cache.db", tuning_budget=BUDGET) as made:
        yield made


@pytest.fixture(scope="module")
def small(host):
    """The graph, small, and its program."""
    return attention_graph(24, 100, 32).superoptimize(config="attention", device=host)


def test_the_example_as_written_numpy():
    optimized = attention_graph().superoptimize(config="attention", budget=BUDGET, device="host")
    q, k, v = attention_inputs()
    out = optimized([q, k, v])
    assert type(out) is np.ndarray and out.dtype == np.float16
    check(out, attention_of(q, k, v))
    told = optimized.explain()
    for word in ("explored", "proved", "kernel"):
        assert word in told, told


def test_the_example_as_written_torch():
    torch = pytest.importorskip("torch", reason="test_the_example_as_written_torch needs PyTorch")
    optimized = attention_graph().superoptimize(config="attention")  # on a GPU too, where there is one
    given = attention_inputs()
    out = optimized([torch.from_numpy(x) for x in given])
    assert type(out) is torch.Tensor and out.dtype == torch.float16 and tuple(out.shape) == (2, 256, 64)
    check(out.numpy(), attention_of(*given))


def test_tensors_one_by_one_and_out(small):
    q, k, v = attention_inputs(24, 100, 32)
    out = np.full((2, 24, 32), np.nan, np.float16)
    assert small(q, k, v, out=out) is out
    check(out, attention_of(q, k, v))
    assert np.array_equal(small((q, k, v)), out)


def test_large_scores_do_not_overflow(small):
    """Scores near 300, whose exponentials no float holds: the user wrote no maximum."""
    q, k, v = attention_inputs(24, 100, 32, scale=10)
    scores = q.astype(np.float64) @ k.astype(np.float64)
    assert scores.max() > 120
    check(small([q, k, v]), attention_of(q, k, v), 6e-3)


def test_a_second_search_is_a_look_up(host, small):
    told = []
    again = attention_graph(24, 100, 32).superoptimize(config="attention", device=host, verbose=told.append)
    assert again.from_cache and told == []
    given = attention_inputs(24, 100, 32)
    assert np.array_equal(again(given), small(given))


def test_a_second_process_does_not_search(tmp_path):
    code = (
        "import gqa, numpy as np\n"
        "g = gqa.new_kernel_graph()\n"
        "x = g.new_input((8, 32), gqa.float32); w = g.new_input((32, 48), gqa.float32)\n"
        "y = g.silu(x @ w)\n"
        "p = g.superoptimize(budget=0.2, device='host')\n"
        "x = np.arange(8 * 32, dtype=np.float32).reshape(8, 32) / 256; w = np.ones((32, 48), np.float32) / 32\n"
        "print(p.from_cache, float(p(x, w).sum()))\n"
    )
    cache = str(tmp_path / "cache.db")
    first, second = (run_python(code, GQA_CACHE=cache).split() for _ in range(2))
    assert (first[0], second[0]) == ("False", "True")
    assert first[1] == second[1]


def test_two_outputs(host):
    graph = gqa.new_kernel_graph()
    x, w = graph.new_input((8, 64), gqa.float32), graph.new_input((64, 32), gqa.float32)
    y = x @ w
    top = graph.max(y, -1)
    graph.mark_output(top, graph.silu(y))
    program = graph.superoptimize(device=host)
    given = [normal(8, 64).astype(np.float32), normal(64, 32, seed=1).astype(np.float32)]
    product = given[0].astype(np.float64) @ given[1]
    expected = (product.max(-1, keepdims=True), product / (1 + np.exp(-product)))
    results = program(given)
    assert isinstance(results, tuple) and len(results) == 2
    for result, right in zip(results, expected):
        check(result, right, 0.05)
    outs = [np.empty((8, 1), np.float32), np.empty((8, 32), np.float32)]
    assert program(given, out=outs) is outs and np.array_equal(outs[1], results[1])


def test_rms_norm_and_linear_of_bfloat16(host):
    torch = pytest.importorskip("torch", reason="test_rms_norm_and_linear_of_bfloat16 needs PyTorch")
    graph = gqa.new_kernel_graph()
    x, g = graph.new_input((4, 128), gqa.bfloat16), graph.new_input((128,), gqa.bfloat16)
    w = graph.new_input((128, 96), gqa.bfloat16)
    graph.mark_output(graph.rms_norm(x, g, 1e-5) @ w)
    program = graph.superoptimize(device=host)
    given = [torch.from_numpy(normal(*v.dims, seed=s).astype(np.float32)).bfloat16() for s, v in enumerate((x, g, w))]
    out = program(given)
    assert out.dtype == torch.bfloat16
    a, b, c = (t.double() for t in given)
    right = a / (a.square().mean(-1, keepdim=True) + 1e-5).sqrt() * b @ c
    check(out.float().numpy(), right.numpy(), 0.25)


def test_foreign_tensors(host, small):
    """A framework the package does not know: DLPack in, gqa.Array out."""

    class Foreign:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **keywords):
            return self.array.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return (1, 0)

    given = attention_inputs(24, 100, 32)
    out = small([Foreign(x) for x in given])
    assert isinstance(out, gqa.Array)
    check(np.from_dlpack(out), attention_of(*given))


def test_many_threads_run_one_program(small):
    given = attention_inputs(24, 100, 32)
    right, wrong = small(given), []

    def work():
        for _ in range(10):
            if not np.array_equal(small(given), right):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_program_outlives_its_graph_and_its_handles_closing(tmp_path):
    handle = gqa.Handle("host", cache_path=tmp_path / "cache.db", tuning_budget=BUDGET)
    graph = gqa.new_kernel_graph()
    graph.exp(graph.new_input((4, 8), gqa.float32))
    program = graph.superoptimize(device=handle)
    del graph
    handle.close()
    check(program(np.zeros((4, 8), np.float32)), np.ones((4, 8)))


def test_the_program_itself(small):
    again = gqa.graph_from_text(small.to_text())
    assert "custom" in again.to_text() or "matmul" in again.to_text()
    assert small.to_dot().startswith("digraph")
    assert repr(small) == (
        "<gqa.Optimized (float16[2, 24, 32], float16[2, 32, 100], float16[2, 100, 32]) -> (float16[2, 24, 32])>"
    )


def test_progress_is_told(host):
    told = []
    graph = attention_graph(20, 90, 32)
    graph.superoptimize(config="attention", device=host, verbose=told.append)
    assert told and all(isinstance(each, SearchProgress) for each in told)
    assert {"search", "compile"} <= {each.phase for each in told}
    assert told[-1].proved > 0 and told[-1].explored >= told[-1].pruned
    assert [each.seconds for each in told] == sorted(each.seconds for each in told)


def test_verbose_prints_to_stderr(host, capfd):
    graph = attention_graph(20, 91, 32)
    graph.superoptimize(config="attention", device=host, verbose=True)
    printed = capfd.readouterr()
    assert printed.out == "" and printed.err.startswith("gqa: search: ")
    attention_graph(20, 91, 32).superoptimize(config="attention", device=host)
    assert capfd.readouterr().err == ""


def test_an_exception_of_the_callback_arrives(host):
    def stop(told):
        raise KeyboardInterrupt("enough")

    with pytest.raises(KeyboardInterrupt, match="enough"):
        attention_graph(20, 92, 32).superoptimize(device=host, verbose=stop)


# ---------------------------------------------------------------- errors of programs


def test_wrong_tensors(small):
    q, k, v = attention_inputs(24, 100, 32)
    refused(lambda: small([q, k]), gqa.GqaValueError, Status.ERROR_OPTION, "2 tensors", "expected 3")
    refused(lambda: small([q, k, v[:, :99]]), gqa.GqaValueError, Status.ERROR_SHAPE, 99, 100)
    refused(lambda: small([q, k, v[0]]), gqa.GqaValueError, Status.ERROR_RANK, 3)
    refused(lambda: small([q, k, v.astype(np.float32)]), gqa.GqaTypeError, Status.ERROR_DTYPE, "float32", "float16")
    refused(lambda: small([q, k, "v"]), gqa.GqaTypeError, Status.ERROR_DTYPE, "str", "DLPack")
    strided = np.ascontiguousarray(k.transpose(0, 2, 1)).transpose(0, 2, 1)
    refused(lambda: small([q, strided, v]), gqa.GqaValueError, Status.ERROR_STRIDE)
    refused(lambda: small([q, k, v], out=q), gqa.GqaValueError, Status.ERROR_ALIAS)
    two = [np.empty_like(q), np.empty_like(q)]
    refused(lambda: small([q, k, v], out=two), gqa.GqaValueError, Status.ERROR_OPTION, "2 tensors", "expected 1")


def test_gradients_are_refused_not_dropped(small):
    torch = pytest.importorskip("torch", reason="test_gradients_are_refused_not_dropped needs PyTorch")
    given = [torch.from_numpy(x) for x in attention_inputs(24, 100, 32)]
    given[1].requires_grad_()
    with pytest.raises(gqa.GqaValueError, match="no_grad"):
        small(given)
    with torch.no_grad():
        small(given)


def test_wrong_options(host):
    graph = attention_graph(24, 100, 32)
    refused(
        lambda: graph.superoptimize(config="attnetion", device=host),
        gqa.GqaValueError,
        Status.ERROR_OPTION,
        "attnetion",
        "attention",
    )
    for budget in (-1.0, float("nan")):
        refused(lambda: graph.superoptimize(budget=budget, device=host), gqa.GqaValueError, Status.ERROR_OPTION)
    refused(lambda: graph.superoptimize(device="tpu"), gqa.GqaValueError, Status.ERROR_OPTION, "tpu")
    with pytest.raises(TypeError, match="verbose is a str"):
        graph.superoptimize(verbose="yes", device=host)
    with pytest.raises(TypeError, match="device is a int"):
        graph.superoptimize(device=1)
    with pytest.raises(gqa.GqaError):
        gqa.new_kernel_graph().superoptimize(device=host)


def test_closed_handle(tmp_path):
    handle = gqa.Handle("host", cache_path=tmp_path / "cache.db")
    handle.close()
    refused(
        lambda: attention_graph(24, 100, 32).superoptimize(device=handle),
        gqa.GqaValueError,
        Status.ERROR_NULL_ARGUMENT,
        "closed",
    )


def test_nothing_cached(tmp_path):
    with gqa.Handle("host", cache_path=tmp_path / "cache.db", tuning="cached-only") as handle:
        with pytest.raises(gqa.GqaError) as caught:
            attention_graph(24, 100, 32).superoptimize(device=handle)
    assert caught.value.status == Status.ERROR_NOT_CACHED


# ---------------------------------------------------------------- on a GPU


@pytest.mark.gpu
def test_the_example_on_a_gpu():
    import torch

    optimized = attention_graph().superoptimize(config="attention")
    given = attention_inputs()
    tensors = [torch.from_numpy(x).cuda() for x in given]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        out = optimized(tensors)
    stream.synchronize()
    assert out.device == tensors[0].device
    check(out.cpu().numpy(), attention_of(*given))
    check(optimized(given), attention_of(*given))  # the host's tensors get a program of their own


@pytest.mark.gpu
def test_cupy_arrays_give_cupy_arrays():
    cupy = pytest.importorskip("cupy", reason="test_cupy_arrays_give_cupy_arrays needs CuPy")
    optimized = attention_graph().superoptimize(config="attention", device="cuda:0")
    given = attention_inputs()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        out = optimized([cupy.asarray(x) for x in given])
        stream.synchronize()
    assert isinstance(out, cupy.ndarray)
    check(cupy.asnumpy(out), attention_of(*given))


# A decoder's linear layers for few rows: thread blocks that share a loop meet in memory of the call's stream.
@pytest.mark.gpu
def test_few_rows_times_wide_weights():
    import torch

    graph = gqa.new_kernel_graph()
    x, w1, w3 = (graph.new_input(dims, gqa.float16) for dims in ((4, 1024), (1024, 2048), (1024, 2048)))
    graph.mark_output(graph.silu(x @ w1) * (x @ w3))
    optimized = graph.superoptimize(device="cuda:0")
    assert "stream=" in optimized.explain()
    a, b, c = (
        torch.randn(dims, device="cuda", dtype=torch.float16) / 8 for dims in ((4, 1024), (1024, 2048), (1024, 2048))
    )
    expected = (torch.nn.functional.silu(a.float() @ b.float()) * (a.float() @ c.float())).cpu().numpy()
    first = optimized(a, b, c)
    check(first.float().cpu().numpy(), expected)
    assert all(torch.equal(first, optimized(a, b, c)) for _ in range(20))


@pytest.mark.gpu
def test_a_program_in_a_cuda_graph():
    import torch

    optimized = attention_graph().superoptimize(config="attention")
    given = attention_inputs()
    tensors = [torch.from_numpy(x).cuda() for x in given]
    out = optimized(tensors)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        optimized(tensors, out=out)
    out.fill_(float("nan"))
    captured.replay()
    check(out.cpu().numpy(), attention_of(*given))
