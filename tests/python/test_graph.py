"""gqa.new_kernel_graph(): building graphs, their text and drawing, their errors, and the progress of a search as a line."""

import io
import sys

import gqa
import numpy as np
import pytest
from gqa import Status
from gqa._progress import ProgressLine, SearchProgress

from attention_graph import attention_graph
from test_errors import refused


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
