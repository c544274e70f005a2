"""gqa.mirage: Mirage's program as it is printed, its names, options and results, and what is refused by name."""

import subprocess
import sys

import gqa
import gqa.mirage as mi
import numpy as np
import pytest
from gqa import Status, _optimized

from attention_graph import normal
from conftest import check, run_python
from test_errors import refused

LIMIT = 0.1  # seconds of a search


def linear(**options):
    """silu(x w), and its optimized graph."""
    graph = mi.new_kernel_graph()
    x, w = graph.new_input(dims=(4, 8), dtype=mi.float32), graph.new_input(dims=(8, 6), dtype=mi.float32)
    graph.silu(graph.matmul(x, w))
    return graph.superoptimize(**{"search_time_limit_sec": LIMIT, **options})


def given(tokens=4, inner=8, outer=6):
    return [normal(*dims, seed=at).astype(np.float32) for at, dims in enumerate(((tokens, inner), (inner, outer)))]


def right(x, w):
    product = x.astype(np.float64) @ w
    return product / (1 + np.exp(-product))


@pytest.fixture
def searches(monkeypatch):
    """What was searched for, and the handle."""
    seen, on = [], _optimized._Search.on

    def counted(self, handle):
        seen.append((self, handle))
        return on(self, handle)

    monkeypatch.setattr(_optimized._Search, "on", counted)
    return seen


# ---------------------------------------------------------------- the page's program

PROGRAM = """
import {package} as mi
graph = mi.new_kernel_graph()
Q = graph.new_input(dims=(2, {queries}, 64), dtype=mi.float16)
K = graph.new_input(dims=(2, 64, {keys}), dtype=mi.float16)
V = graph.new_input(dims=(2, {keys}, 64), dtype=mi.float16)
A = graph.matmul(Q, K)
E = graph.exp(A)
S = graph.reduction(E, 2)
D = graph.div(E, S)
O = graph.matmul(D, V)
optimized_graph = graph.superoptimize(config="attention"{options})

import torch
input_tensors = [
    torch.randn({batch}, 1, 128, dtype=torch.float16{device}),
    torch.randn({batch}, 128, {keys}, dtype=torch.float16{device}),
    torch.randn({batch}, {keys}, 128, dtype=torch.float16{device})
]
output = optimized_graph(input_tensors)     # other dims than declared: specialised anew
"""
CHECKED = """
assert type(output) is list and len(output) == 1 and output[0].shape == ({batch}, 1, 128), output
assert output[0].dtype == torch.float16 and output[0].device == input_tensors[0].device
small = [x / 4 for x in input_tensors]
q, k, v = (x.double() for x in small)
assert (optimized_graph(inputs=small)[0].double() - torch.softmax(q @ k, -1) @ v).abs().max() < 4e-3
print(optimized_graph.from_cache)
"""
SMALL = dict(queries=16, keys=64, batch=4, options=f", search_time_limit_sec={LIMIT}", device="")
WHOLE = dict(queries=256, keys=4096, batch=64, options="", device=", device='cuda:0'")


def run_as(package, folder, sizes):
    """The program by `python -m gqa run`; what it printed."""
    script = folder / "program.py"
    script.write_text((PROGRAM + CHECKED).format(package=package, **sizes))
    command = [sys.executable, "-m", "gqa", "run", "--as", package, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_program_from_the_shell(tmp_path, monkeypatch):
    """Under both names; the second finds the programs of both dims that the first one made."""
    pytest.importorskip("torch", reason="test_the_program_from_the_shell needs PyTorch")
    monkeypatch.setenv("GQA_CACHE", str(tmp_path / "cache.db"))
    assert [run_as(package, tmp_path, SMALL) for package in ("mirage", "yirage")] == ["False", "True"]


@pytest.mark.gpu
@pytest.mark.parametrize("package", ["mirage", "yirage"])
def test_the_program_as_printed(package, tmp_path):
    run_as(package, tmp_path, WHOLE)


def test_installed_under_both_names():
    run_python("""
import gqa, sys
gqa.install_as("mirage", metadata=True)
gqa.install_as("yirage")
import mirage as mi, yirage as yr, gqa.mirage, importlib.metadata
assert mi.new_kernel_graph is yr.new_kernel_graph is gqa.mirage.new_kernel_graph and mi.__name__ == "mirage"
assert mi.float16 is gqa.float16 and importlib.metadata.version("mirage-project") == mi.__version__ == "0.2.4+gqa"
assert not hasattr(mi, "PersistentKernel") and not hasattr(yr, "int8")
try:
    import mirage.mpk
except ModuleNotFoundError:
    pass
else:
    raise AssertionError("there is a mirage.mpk")
assert not {"torch", "numpy", "cupy"} & set(sys.modules)
gqa.uninstall()
assert not {"mirage", "yirage"} & set(sys.modules)
""")


# ---------------------------------------------------------------- operators

OPERATORS = {
    "matmul(t0, t2)": lambda g, x, y: g.matmul(x, g.new_input((6, 3))),
    "sum(t0) dim=1": lambda g, x, y: g.reduction(x, 1),
    "exp(t0)": lambda g, x, y: g.exp(x),
    "silu(t0)": lambda g, x, y: g.silu(x),
    "gelu(t0)": lambda g, x, y: g.gelu(x),
    "relu(t0)": lambda g, x, y: g.relu(x),
    "clamp(t0) lo=-1 hi=2": lambda g, x, y: g.clamp(x, -1, 2),
    "clamp(t0) lo=0 hi=6": lambda g, x, y: g.clamp(x, min_val=0, max_val=6),
    "sqrt(t0)": lambda g, x, y: g.sqrt(x),
    "square(t0)": lambda g, x, y: g.square(x),
    "add(t0, t1)": lambda g, x, y: g.add(x, y),
    "mul(t0, t1)": lambda g, x, y: g.mul(x, y),
    "div(t0, t1)": lambda g, x, y: g.div(x, y),
    "mul(t2, t0)": lambda g, x, y: g.pow(x, 3),
    "reciprocal(t2)": lambda g, x, y: g.pow(x, -0.5),
    "rms_norm(t0) eps=1e-06": lambda g, x, y: g.rms_norm(x, normalized_shape=(6,)),
    "rms_norm(t0) eps=0.25": lambda g, x, y: g.rms_norm(x, (6,), 0.25),
}


@pytest.mark.parametrize("line", OPERATORS)
def test_each_operator(line):
    graph = mi.new_kernel_graph()
    x, y = graph.new_input((4, 6)), graph.new_input((4, 6), dtype=mi.float16)
    result = OPERATORS[line](graph, x, y)
    assert isinstance(result, mi.DTensor) and result.dtype is mi.float16
    assert graph.kernel_graph.to_text().splitlines()[-1].split(" = ", 1)[1] == line


@pytest.mark.parametrize("power", [1, 2, 4, 0.5, -1, -2, -0.5])
def test_powers(power, handle):
    graph = mi.new_kernel_graph()
    x = graph.new_input((3, 5), dtype=mi.float32)
    graph.exp(graph.pow(x, power))
    array = np.random.default_rng(0).uniform(0.5, 1.2, (3, 5)).astype(np.float32)
    found = graph.kernel_graph.superoptimize(device=handle, budget=LIMIT)(array)
    np.testing.assert_allclose(found, np.exp(array.astype(np.float64) ** power), rtol=1e-5)


def test_inputs_as_there():
    """Strides come second, the dtype is float16 where none is named."""
    graph = mi.new_kernel_graph()
    x, y = graph.new_input((2, 3), (1, 2), mi.bfloat16), graph.new_input([2, 3])
    assert graph.kernel_graph.to_text() == "graph 1\nt0 = input bf16[2,3] strides=[1,2]\nt1 = input f16[2,3]\n"
    assert (x.num_dims, x.dim(0), x.dim(1), x.dims, y.dtype) == (2, 2, 3, (2, 3), mi.float16)
    assert graph.reduction(y, 1).dims == (2, 1)


def test_outputs_with_strides():
    graph = mi.new_kernel_graph()
    x = graph.new_input((2, 3, 4), dtype=mi.float32)
    first, second = graph.exp(x), graph.square(x)
    graph.mark_output(first, strides=(12, 4, 1))
    graph.mark_output(second, strides=(1, 8, 2))
    optimized = graph.superoptimize(search_time_limit_sec=LIMIT)
    for dims in ((2, 3, 4), (3, 5, 2)):
        array = normal(*dims).astype(np.float32)
        one, two = optimized([array])
        assert np.shape(one) == np.shape(two) == dims
        np.testing.assert_allclose(one, np.exp(array), rtol=1e-5)
        np.testing.assert_allclose(two, np.square(array), rtol=1e-5)
        assert one.flags.c_contiguous and two.strides == (4, 4 * dims[0] * dims[2], 4 * dims[0])


# ---------------------------------------------------------------- calls


def test_a_list_comes_out():
    optimized = linear()
    for tensors in (given(), given(7, 5, 3)):
        for out in (optimized(tensors), optimized(inputs=tensors), optimized(tuple(tensors), stream=None)):
            assert type(out) is list and len(out) == 1
            check(out[0], right(*tensors))
    assert repr(optimized).startswith("<gqa.mirage.OptimizedGraph (float32[4, 8],")
    assert "[7, 5], [5, 3]" in optimized.explain() and optimized.to_text().startswith("graph 1\n")


def test_several_outputs_in_their_order():
    graph = mi.new_kernel_graph()
    x = graph.new_input((3, 4), dtype=mi.float32)
    e = graph.exp(x)
    graph.mark_output(graph.reduction(e, 1))
    graph.mark_output(e)
    array = normal(3, 4).astype(np.float32)
    total, each = graph.superoptimize(search_time_limit_sec=LIMIT)([array])
    check(each, np.exp(array.astype(np.float64)), 1e-4)
    check(total, np.exp(array.astype(np.float64)).sum(1, keepdims=True), 1e-4)


def test_wrong_calls(searches):
    optimized = linear()
    x, w = given()
    value, wrong = gqa.GqaValueError, gqa.GqaTypeError
    refused(lambda: optimized(x), wrong, Status.ERROR_DTYPE, "inputs is a ndarray", "a list of tensors")
    refused(lambda: optimized([x]), value, Status.ERROR_OPTION, "1 tensors", "expected 2")
    refused(lambda: optimized([x, w[:7]]), value, Status.ERROR_SHAPE, "t2 = matmul(t0, t1)", "8 and 7")
    half = w.astype(np.float16)
    refused(lambda: optimized([x[:3], half]), wrong, Status.ERROR_DTYPE, "input 1 is of dtype float16", "float32")
    refused(lambda: optimized([x, w], stream=7), wrong, Status.ERROR_DTYPE, "stream is 7", "torch.cuda.Stream")
    assert len(searches) == 1


@pytest.mark.gpu
def test_the_current_stream_and_a_named_one():
    import torch

    optimized = linear()
    side = torch.cuda.Stream()
    expected = right(*given())
    tensors = [torch.from_numpy(x).cuda() for x in given()]
    optimized(tensors)
    for named in (True, False):
        late = [torch.zeros_like(x) for x in tensors]
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)  # what another stream would not wait for
            for x, source in zip(late, tensors):
                x.copy_(source)
            if not named:
                out = optimized(late)[0]
        if named:
            out = optimized(inputs=late, stream=side)[0]
        side.synchronize()
        check(out.cpu().numpy(), expected)


# ---------------------------------------------------------------- options


def test_options_that_mean_something_here(searches, capfd):
    linear(config="attention", search_time_limit_sec=0.07)
    linear(config="lora", backend="cpu")
    linear(config="mlp", search_time_limit_sec=-1.0)  # the default budget, of which a program that is cached takes none
    (first, _), (second, handle), (third, _) = searches
    assert (first.config, first.budget, first.verbose) == ("attention", 0.07, False)
    assert (second.config, second.budget) == (None, LIMIT) and handle.device == "host"
    assert (third.config, third.budget) == (None, 0.0)


def test_verbose_prints_to_stderr(capfd):
    linear(verbose=True, use_cached_graphs=False)
    printed = capfd.readouterr()
    assert printed.out == "" and printed.err.startswith("gqa: ")


def test_without_cached_graphs():
    linear()
    assert linear().from_cache
    fresh = linear(use_cached_graphs=False)
    assert not fresh.from_cache
    check(fresh(given(3, 8, 6))[0], right(*given(3, 8, 6)))


def test_options_of_the_other_search_change_nothing(searches):
    options = dict.fromkeys(("imaps", "omaps", "griddims", "blockdims", "fmaps", "franges"), [(1, -1, -1)])
    linear()
    linear(**options, warmup_iters=1, profile_iters=2, use_graph_dataset=False, use_symbolic_search=True, backend=None)
    assert searches[0] == searches[1]


REFUSED = {  # an option, and what to do instead
    "save_codes": (True, "to_text"),
    "is_formal_verified": (True, "finite fields"),
    "symbolic_checkpoint": ("x.json", "cache"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_are_refused(name, searches):
    value, instead = REFUSED[name]
    with pytest.raises(NotImplementedError, match=f"gqa.mirage has no {name}.*{instead}"):
        linear(**{name: value})
    assert searches == []


def test_wrong_options():
    value, wrong = gqa.GqaValueError, gqa.GqaTypeError
    refused(lambda: linear(config="attnetion"), value, Status.ERROR_OPTION, "attnetion", "'lora'")
    refused(lambda: linear(backend="triton"), value, Status.ERROR_OPTION, "backend is 'triton'", "'cuda'")
    refused(lambda: linear(search_time_limit_sec="long"), wrong, Status.ERROR_DTYPE, "search_time_limit_sec", "'long'")
    refused(lambda: linear(verbose="yes"), wrong, Status.ERROR_DTYPE, "verbose")
    with pytest.raises(TypeError, match="unexpected keyword argument 'griddim'"):
        linear(griddim=[])


def test_the_gpu_that_is_named(monkeypatch):
    monkeypatch.setattr(mi, "_device", "auto")
    mi.set_gpu_device_id(99)
    with pytest.raises(gqa.GqaError) as caught:
        linear()
    assert caught.value.status == Status.ERROR_NO_DEVICE
    refused(lambda: mi.set_gpu_device_id(-1), gqa.GqaValueError, Status.ERROR_SIZE, "device_id is -1")
    assert mi.bypass_compile_errors() is None


# ---------------------------------------------------------------- what is refused by name


def test_methods_that_are_lacking():
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 6))
    for name, instead in mi._NO_METHODS.items():
        with pytest.raises(NotImplementedError) as caught:
            getattr(graph, name)([x], "file")
        assert str(caught.value) == f"gqa.mirage has no {name}: {instead}"
    with pytest.raises(NotImplementedError, match="superoptimize"):
        graph(inputs=[x])
    with pytest.raises(NotImplementedError, match="new_threadblock_graph: the search makes"):
        mi.new_threadblock_graph(grid_dim=(64, 1, 1), block_dim=(128, 1, 1), forloop_range=64, reduction_dimx=64)


def test_names_that_are_lacking():
    for name, instead in mi._NO_NAMES.items():
        with pytest.raises(AttributeError) as caught:
            getattr(mi, name)
        assert str(caught.value) == f"gqa.mirage has no {name}: {instead}"
    with pytest.raises(AttributeError, match="gqa.mirage has no matmul$"):
        mi.matmul


def test_wrong_operands():
    graph = mi.new_kernel_graph()
    x, y = graph.new_input((4, 6)), graph.new_input((5, 6))
    value, wrong = gqa.GqaValueError, gqa.GqaTypeError
    refused(lambda: graph.new_input((4, 6), dtype="int8"), wrong, Status.ERROR_DTYPE, "int8", "float16")
    refused(lambda: graph.new_input((4, 6), mi.float16), wrong, Status.ERROR_DTYPE, "strides is a DType")
    refused(lambda: graph.matmul(x, y), value, Status.ERROR_SHAPE, "inner", 6, 5)
    refused(lambda: graph.rms_norm(x, (4,)), value, Status.ERROR_SHAPE, "normalized_shape is (4,)", "(6,)")
    refused(lambda: graph.mark_output(graph.exp(x), (1, 6)), value, Status.ERROR_STRIDE, "(4, 6)", "(1, 6)")
    refused(lambda: graph.mark_output(np.zeros(3)), wrong, Status.ERROR_DTYPE, "ndarray")
    refused(lambda: graph.mark_output(np.zeros(3), (1,)), wrong, Status.ERROR_DTYPE, "ndarray")
    refused(lambda: x.dim(2), value, Status.ERROR_RANK, "idx is 2", "0 to 1")
    for step in (lambda: graph.pow(x, y), lambda: graph.pow(x, 0.3), lambda: graph.pow(x, 9)):
        with pytest.raises(NotImplementedError, match="gqa.mirage has no pow by .*expected 0.5, or a whole number"):
            step()
    with pytest.raises(NotImplementedError, match="rms_norm over 2 dimensions: expected the last dimension alone"):
        graph.rms_norm(x, (4, 6))
