"""graph.superoptimize(): the programs found for graphs, held against float64, and what they refuse."""

import threading

import gqa
import numpy as np
import pytest
from gqa import Status
from gqa._progress import SearchProgress

from attention_graph import attention_graph, attention_inputs, attention_of, normal
from conftest import Producer, check, run_python
from test_errors import refused

BUDGET = 0.5  # seconds a graph may be tuned; the graphs here are small


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
    """Scores near 300, whose exponentials no float holds: the user wrote no maximum. A program may round them to
    float16, as the graph does operator by operator: an eighth off, and so each weight."""
    q, k, v = attention_inputs(24, 100, 32, scale=10)
    scores = q.astype(np.float64) @ k.astype(np.float64)
    assert scores.max() > 120
    expected = attention_of(q, k, v)
    rounded = attention_of(scores.astype(np.float16), np.eye(100), v)
    check(small([q, k, v]), expected, 6e-3 + 1.5 * np.abs(rounded - expected).max())


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
    given = attention_inputs(24, 100, 32)
    out = small([Producer(x) for x in given])
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
    with pytest.raises(TypeError, match="device is 1; expected"):
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
    shapes = ((4, 4096), (4096, 11008), (4096, 11008))  # weights past any L2: what streams them wins
    x, w1, w3 = (graph.new_input(dims, gqa.float16) for dims in shapes)
    graph.mark_output(graph.silu(x @ w1) * (x @ w3))
    optimized = graph.superoptimize(device="cuda:0")
    assert "stream=" in optimized.explain(), optimized.explain()
    a, b, c = (torch.randn(dims, device="cuda", dtype=torch.float16) / 8 for dims in shapes)
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
