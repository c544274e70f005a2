"""Optimized called with tensors of other dims than declared: what follows them, what does not, and what is refused."""

import threading

import gqa
import numpy as np
import pytest
from gqa import Status, _optimized
from gqa._specialise import specialised

from attention_graph import attention_graph, attention_inputs, normal
from conftest import Producer, check, run_python
from test_errors import refused

BUDGET = 0.1


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with gqa.Handle("host", cache_path=tmp_path_factory.mktemp("dims") / "cache.db", tuning_budget=BUDGET) as made:
        yield made


def linear(device, tokens=4, inner=8, outer=6, dtype=gqa.float32, **more):
    """x w + b, where b is stretched over the rows."""
    graph = gqa.new_kernel_graph()
    x, w, b = (graph.new_input(dims, dtype) for dims in ((tokens, inner), (inner, outer), (1, outer)))
    graph.mark_output(x @ w + b)
    return graph.superoptimize(device=device, **more)


def given(tokens, inner, outer):
    dims = (tokens, inner), (inner, outer), (1, outer)
    return [normal(*each, seed=at).astype(np.float32) for at, each in enumerate(dims)]


def right(x, w, b):
    return x.astype(np.float64) @ w + b


@pytest.fixture
def searches(monkeypatch):
    """The graphs that were searched for."""
    seen, on = [], _optimized._Search.on

    def counted(self, handle):
        seen.append(self)
        return on(self, handle)

    monkeypatch.setattr(_optimized._Search, "on", counted)
    return seen


# ---------------------------------------------------------------- what follows


def test_other_dims_are_answered_and_kept(host, searches):
    program = linear(host)
    declared, other = given(4, 8, 6), given(9, 16, 3)
    for tensors in (declared, other, other, declared, [x.copy() for x in other]):
        check(program(tensors), right(*tensors))
    assert len(searches) == 2
    check(program(*other, out=np.empty((9, 3), np.float32)), right(*other))
    told = program.explain()
    assert "inputs [4, 8], [8, 6], [1, 6]:" in told and "inputs [9, 16], [16, 3], [1, 3]:" in told
    assert repr(program).startswith("<gqa.Optimized (float32[4, 8],")


def test_attention_of_other_dims(host):
    program = attention_graph(8, 20, 32).superoptimize(config="attention", device=host)
    q, k, v = attention_inputs(3, 40, 32)
    k, v = (np.concatenate([x, x[:1]]) for x in (k, v))  # a batch of three
    q = np.concatenate([q, q[:1]])
    weights = np.exp(q.astype(np.float64) @ k)
    check(program([q, k, v]), weights / weights.sum(-1, keepdims=True) @ v, 6e-3)


def test_the_options_are_the_declared_ones(host, searches):
    told = []
    program = linear(host, budget=0.05, seed=7, verbose=told.append)
    told.clear()
    program(given(5, 8, 6))
    first, second = searches
    assert told and second._replace(graph=first.graph) == first and (second.budget, second.seed) == (0.05, 7)


def test_torch_and_foreign_tensors(host, searches):
    program = linear(host)
    tensors = given(7, 8, 6)
    out = program([Producer(x) for x in tensors])
    assert isinstance(out, gqa.Array)
    check(np.from_dlpack(out), right(*tensors))
    torch = pytest.importorskip("torch", reason="test_torch_and_foreign_tensors needs PyTorch")
    out = program([torch.from_numpy(x) for x in tensors])
    assert type(out) is torch.Tensor
    check(out.numpy(), right(*tensors))
    assert len(searches) == 2


def test_threads_that_meet_the_same_dims_search_once(host, searches):
    program = linear(host)
    tensors, begin = given(11, 8, 6), threading.Barrier(4)
    results = []

    def work():
        begin.wait()
        results.append(program(tensors))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(searches) == 2 and len(results) == 4
    assert all(np.array_equal(result, results[0]) for result in results)
    assert program._making == {}


def test_a_second_process_finds_them(tmp_path):
    code = (
        "import gqa, numpy as np\n"
        "g = gqa.new_kernel_graph()\n"
        "x = g.new_input((4, 8), gqa.float32); g.mark_output(g.silu(x @ g.new_input((8, 6), gqa.float32)))\n"
        "p = g.superoptimize(budget=0.1, device='host')\n"
        "declared = p.from_cache\n"
        "out = p(np.ones((5, 3), np.float32), np.ones((3, 2), np.float32))\n"
        "print(declared, p.from_cache, float(out.sum()))\n"
    )
    cache = str(tmp_path / "cache.db")
    first, second = (run_python(code, GQA_CACHE=cache).split() for _ in range(2))
    assert (first[:2], second[:2]) == (["False", "False"], ["True", "True"])
    assert first[2] == second[2]


# ---------------------------------------------------------------- the graph of other dims


def text_of(build, *inputs):
    graph = gqa.new_kernel_graph()
    graph.mark_output(build(graph, *(graph.new_input(*each) for each in inputs)))
    return graph.to_text()


F16 = gqa.float16
FOLLOWS = {  # a graph as declared, other dims, and the same graph as it would be declared with them
    "operators": (
        lambda g, x, y: g.rms_norm(g.softmax(g.causal_mask(x @ y), 1) * 0.125, epsilon=0.5),
        [((2, 3), F16), ((3, 4), F16)],
        [((5, 6), F16), ((6, 7), F16)],
    ),
    "a transpose": (lambda g, x: g.transpose(x, (2, 0, 1)), [((2, 3, 4), F16)], [((5, 6, 7), F16)]),
    "row-major strides": (lambda g, x: g.exp(x), [((2, 3), F16, (3, 1))], [((5, 6), F16)]),
    "another order": (lambda g, x: g.exp(x), [((2, 3, 4), F16, (12, 1, 3))], [((5, 6, 7), F16, (42, 1, 6))]),
    "a size of 1": (lambda g, x: g.exp(x), [((2, 1, 4), F16, (4, 2, 1))], [((5, 6, 7), F16)]),
    "a stretched dimension": (lambda g, x: g.exp(x), [((2, 3, 4), F16, (0, 4, 1))], [((5, 6, 7), F16, (0, 7, 1))]),
    "a gap": (lambda g, x: g.exp(x), [((2, 3, 4), F16, (24, 8, 1))], [((5, 6, 4), F16, (48, 8, 1))]),
    "windows": (lambda g, x: g.exp(x), [((9, 4), F16, (1, 1))], [((30, 4), F16, (1, 1))]),
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_what_follows_the_dims(name):
    build, declared, other = FOLLOWS[name]
    made = specialised(text_of(build, *declared), [each[0] for each in other])
    assert gqa.graph_from_text(made).to_text() == text_of(build, *other)


def test_a_broadcast_follows_where_it_did_not_stretch():
    text = text_of(lambda g, x: g.broadcast(g.exp(x), (7, 2, 5, 4)), ((2, 1, 4), F16))
    made = gqa.graph_from_text(specialised(text, [(3, 1, 6)]))
    assert made.find("t2").dims == (7, 3, 5, 6)


# ---------------------------------------------------------------- what is refused


def test_what_does_not_suit_is_refused_before_a_search(host, searches):
    program = linear(host)
    x, w, b = given(4, 8, 6)

    def case(kind, status, words, *tensors):
        refused(lambda: program(tensors), kind, status, *words)
        with pytest.raises(gqa.GqaError) as caught:
            program(tensors)
        assert len(str(caught.value)) <= 400

    value, wrong = gqa.GqaValueError, gqa.GqaTypeError
    named = ("[4,8], [7,6], [1,6]", "t3 = matmul(t0, t1)", "inner dimensions are 8 and 7")
    case(value, Status.ERROR_SHAPE, named, x, w[[0] * 7], b)
    case(value, Status.ERROR_SHAPE, ("t4 = add(t3, t2)", "6 and 5"), x, w, b[:, :5].copy())
    case(value, Status.ERROR_RANK, ("input 2 has 1 dimensions, (6,)", "expected 2", "(1, 6)"), x, w, b[0])
    case(value, Status.ERROR_SIZE, ("[0,8]", "positive"), x[:0], w, b)
    case(wrong, Status.ERROR_DTYPE, ("input 1 is of dtype float16", "expected float32"), x[:3], w.astype(np.float16), b)
    half = Producer(w.astype(np.float16))
    case(wrong, Status.ERROR_DTYPE, ("input 1 is of dtype (2, 16)", "float32"), x[:3], half, b)
    assert len(searches) == 1


def test_strides_that_cannot_follow():
    text = text_of(lambda g, x: g.exp(x), ((2, 3, 4), F16, (24, 8, 1)))
    words = ("input 0", "(2, 3, 5)", "(24, 8, 1)", "before dimension 1")
    refused(lambda: specialised(text, [(2, 3, 5)]), gqa.GqaValueError, Status.ERROR_STRIDE, *words)
    text = text_of(lambda g, x: g.exp(x), ((2, 1, 4), F16, (1, 99, 2)))  # where a longer one would lie, nothing says
    refused(lambda: specialised(text, [(2, 3, 4)]), gqa.GqaValueError, Status.ERROR_STRIDE, "before dimension 1")


def test_tensors_of_new_dims_with_wrong_strides(host):
    program = linear(host)
    x, w, b = given(3, 8, 6)
    refused(lambda: program([np.asfortranarray(x), w, b]), gqa.GqaValueError, Status.ERROR_STRIDE, "input 0")


def test_a_failed_search_is_tried_again(tmp_path):
    with gqa.Handle("host", cache_path=tmp_path / "c.db", tuning_budget=BUDGET) as made:
        linear(made)
    with gqa.Handle("host", cache_path=tmp_path / "c.db", tuning="cached-only") as only:
        program = linear(only)
        for _ in range(2):
            with pytest.raises(gqa.GqaError) as caught:
                program(given(5, 8, 6))
            assert caught.value.status == Status.ERROR_NOT_CACHED
        check(program(given(4, 8, 6)), right(*given(4, 8, 6)))


# ---------------------------------------------------------------- on a GPU


@pytest.mark.gpu
def test_other_dims_on_a_gpu():
    import torch

    program = attention_graph().superoptimize(config="attention", budget=2)
    dims = (8, 1, 128), (8, 128, 512), (8, 512, 128)
    q, k, v = (torch.randn(each, device="cuda", dtype=torch.float16) / 4 for each in dims)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        out = program([q, k, v])
    stream.synchronize()
    check(out.cpu().numpy(), (torch.softmax(q.double() @ k.double(), -1) @ v.double()).cpu().numpy())


@pytest.mark.gpu
def test_new_dims_in_a_capture_are_refused():
    import torch

    program = linear("auto", budget=0.5)
    tensors = [torch.from_numpy(x).cuda() for x in given(13, 8, 6)]
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        refused(lambda: program(tensors), gqa.GqaError, Status.ERROR_CAPTURING, "before the capture begins")
    check(program(tensors).cpu().numpy(), right(*given(13, 8, 6)))
