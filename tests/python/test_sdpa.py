"""scaled_dot_product_attention by gqa: PyTorch's shape and meaning, the mode that sends PyTorch's own calls here, and
what goes back to PyTorch, by reason."""

import contextlib
import threading
import warnings

import gqa
import pytest
from gqa import _doors, _warnings

from conftest import check, run_python

torch = pytest.importorskip("torch", reason="test_sdpa.py needs PyTorch")
pytest.importorskip("gqa.torch", reason="test_sdpa.py needs PyTorch 2.10")

from gqa import _sdpa_call, _sdpa_mode  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.attention.bias import causal_lower_right, causal_upper_left  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

F = torch.nn.functional
GPU = pytest.param("cuda", marks=pytest.mark.gpu)
each_device = pytest.mark.parametrize("device", ["cpu", GPU])


def made(*shape, dtype=torch.float16, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def masked(*shape):
    """True: takes part. The last query has no key."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(9)) > 0.4
    mask[..., -1, :] = False
    return mask


def qkv(q=(2, 4, 12, 32), k=(2, 4, 20, 32), v=None):
    return made(*q), made(*k, seed=1), made(*(v or k), seed=2)


def moved(x, device):
    return x.to(device) if type(x) is torch.Tensor else x


def in_float32(q, k, v, mask=None, **keywords):
    """PyTorch's own, of the same numbers."""
    if type(mask) is torch.Tensor and mask.dtype is not torch.bool:
        mask = mask.float()
    return F.scaled_dot_product_attention(q.float(), k.float(), v.float(), mask, **keywords)


def agrees(out, expected, tolerance=4e-3):
    check(out.detach().float().cpu().numpy(), expected.numpy(), tolerance)


@pytest.fixture
def report():
    """door_report() of what the test itself has called."""
    gqa.door_report(reset=True)
    return lambda: gqa.door_report(reset=True)


def only(report):
    """The reasons of use_as_sdpa's fallbacks, where nothing else was counted."""
    counts = report()[_doors.SDPA]
    assert counts.calls == 0
    return counts.fallbacks


Q, K, GROUPED = (2, 4, 12, 32), (2, 4, 20, 32), (2, 2, 20, 32)
CASES = {  # query, key, value; the other arguments
    "plain": (qkv(), {}),
    "grouped": (qkv(k=GROUPED), {"enable_gqa": True}),
    "one key head": (qkv(k=(2, 1, 20, 32)), {}),
    "one value head": (qkv(k=K, v=(2, 1, 20, 32)), {}),
    "one key head of groups": (qkv(k=GROUPED, v=(2, 1, 20, 32)), {"enable_gqa": True}),
    "scaled": (qkv(), {"scale": 0.3}),
    "scaled by a whole number": (qkv(), {"scale": 1}),
    "values of another dim": (qkv(v=(2, 4, 20, 64)), {}),
    "causal": (qkv(k=Q), {"is_causal": True}),
    "causal, more keys": (qkv(), {"is_causal": True}),
    "causal, fewer keys": (qkv(q=(2, 4, 20, 32), k=Q), {"is_causal": True}),
    "causal, one query": (qkv(q=(2, 4, 1, 32)), {"is_causal": True}),
    "two dimensions": (qkv((12, 32), (20, 32)), {}),
    "three dimensions": (qkv((6, 12, 32), (6, 20, 32)), {}),
    "three dimensions, grouped": (qkv((4, 12, 32), (2, 20, 32)), {"enable_gqa": True}),
    "three dimensions, masked": (qkv((6, 12, 32), (6, 20, 32)), {"attn_mask": masked(6, 12, 20)}),
    "three dimensions, grouped and masked": (
        qkv((4, 12, 32), (2, 20, 32)), {"enable_gqa": True, "attn_mask": made(4, 1, 20)}
    ),
    "five dimensions": (qkv((3, 2, 4, 12, 32), (3, 2, 4, 20, 32)), {}),
    "five dimensions that broadcast": (qkv((3, 2, 4, 12, 32), (3, 1, 4, 20, 32), (1, 2, 4, 20, 32)), {}),
    "five dimensions, masked": (
        qkv((3, 2, 4, 12, 32), (3, 2, 4, 20, 32)), {"attn_mask": masked(2, 1, 12, 20)}
    ),
    "one batch of keys": (qkv(k=(1, 4, 20, 32)), {}),
    "one batch of queries": (qkv(q=(1, 4, 12, 32)), {"attn_mask": masked(2, 1, 12, 20)}),
    "dims apart": ((made(2, 4, 32, 12).mT, made(2, 4, 32, 20).mT, made(2, 4, 20, 64)[..., ::2]), {}),
    "tokens first": (tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in qkv()), {}),
    "bool mask": (qkv(), {"attn_mask": masked(12, 20)}),
    "bool mask of keys": (qkv(), {"attn_mask": masked(2, 1, 2, 20)[:, :, :1]}),
    "bool mask of rows": (qkv(), {"attn_mask": masked(12, 1)}),
    "bool mask of heads, grouped": (qkv(k=GROUPED), {"attn_mask": masked(4, 12, 20), "enable_gqa": True}),
    "expanded mask": (qkv(), {"attn_mask": masked(12, 20).expand(2, 4, 12, 20)}),
    "mask whose keys lie apart": (qkv(), {"attn_mask": made(20, 12).mT}),
    "float mask": (qkv(), {"attn_mask": made(2, 4, 12, 20)}),
    "float mask of rows": (qkv(), {"attn_mask": made(4, 12, 1)}),
    "float mask with hidden rows": (qkv(), {"attn_mask": torch.where(masked(12, 20), 0.5, -torch.inf).half()}),
    "float32 mask": (qkv(), {"attn_mask": made(2, 1, 12, 20, dtype=torch.float32)}),
    "from the top left": (qkv(), {"attn_mask": causal_upper_left(12, 20)}),
    "from the bottom right": (qkv(), {"attn_mask": causal_lower_right(12, 20)}),
    "from the bottom right, as many": (qkv(k=Q), {"attn_mask": causal_lower_right(12, 12)}),
}


@each_device
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_is_pytorchs(case, device, report):
    """By name and through the mode: PyTorch's shape and numbers, and the same bits."""
    tensors, keywords = case
    others = {x: y for x, y in keywords.items() if x != "attn_mask"}
    expected = in_float32(*tensors, keywords.get("attn_mask"), **others)
    tensors, keywords = [moved(x, device) for x in tensors], {x: moved(y, device) for x, y in keywords.items()}
    out = gqa.scaled_dot_product_attention(*tensors, **keywords)
    assert out.dtype is torch.float16 and out.device == tensors[0].device
    agrees(out, expected)
    assert report() == {}, "a call by name passes through no door"
    with gqa.use_as_sdpa():
        through = F.scaled_dot_product_attention(*tensors, **keywords)
    assert torch.equal(out, through)
    counts = report()[_doors.SDPA]
    assert (counts.calls, counts.fallbacks) == (1, {})


def test_bfloat16():
    tensors = [x.bfloat16() for x in qkv()]
    out = gqa.scaled_dot_product_attention(*tensors)
    assert out.dtype is torch.bfloat16
    agrees(out, in_float32(*tensors), 2e-2)


@each_device
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_float32_is_pytorchs(case, device, report):
    """By name and through the mode: an error of at most 1.5 of PyTorch's, of every shape and mask."""
    tensors, keywords = [x.float() for x in case[0]], {**case[1]}
    if type(keywords.get("attn_mask")) is torch.Tensor and keywords["attn_mask"].is_floating_point():
        keywords["attn_mask"] = keywords["attn_mask"].float()
    tensors, keywords = [moved(x, device) for x in tensors], {x: moved(y, device) for x, y in keywords.items()}
    given = (*tensors, *keywords.values())
    exact = [x.double() if type(x) is torch.Tensor and x.is_floating_point() else x for x in given]
    with sdpa_kernel(SDPBackend.MATH):
        theirs = F.scaled_dot_product_attention(*tensors, **keywords)
        expected = F.scaled_dot_product_attention(*exact[:3], **dict(zip(keywords, exact[3:])))
    out = gqa.scaled_dot_product_attention(*tensors, **keywords)
    assert out.dtype is torch.float32 and out.shape == expected.shape
    assert (out - expected).norm() <= 1.5 * (theirs - expected).norm()
    with gqa.use_as_sdpa():
        assert torch.equal(out, F.scaled_dot_product_attention(*tensors, **keywords))
    counts = report()[_doors.SDPA]
    assert (counts.calls, counts.fallbacks) == (1, {})


def test_rows_whose_keys_are_all_hidden_give_zero():
    for mask in masked(12, 20), torch.where(masked(12, 20), 0.0, -torch.inf).half():
        assert (gqa.scaled_dot_product_attention(*qkv(), mask)[:, :, -1] == 0).all()


def test_a_mask_of_one_for_many_is_one_in_memory():
    """As models expand theirs over batch and heads."""
    for mask in masked(12, 20), made(12, 20):
        bias = _sdpa_call._bias(mask.expand(2, 4, 12, 20), torch.float16, 20, (2,), False)
        assert bias.shape == (1, 1, 12, 20) and bias.stride(-1) == 1


def test_arguments_are_taken_by_position():
    q, k, v = qkv(k=GROUPED)
    out = gqa.scaled_dot_product_attention(q, k, v, None, 0.0, True, 0.3, True)
    assert torch.equal(out, gqa.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3, enable_gqa=True))


def test_head_dims_are_the_librarys():
    q = made(1, 2, 1, 40)
    with pytest.raises(gqa.GqaValueError, match=f"one of {', '.join(map(str, _sdpa_call.HEAD_DIMS))}"):
        gqa.attention(q, q, q)


# ---- what is not computed: refused by name, PyTorch's through the mode


def needing_a_gradient():
    q, k, v = qkv()
    return q.requires_grad_(), k, v


class Own(torch.Tensor):
    pass


REFUSED = {  # tensors, other arguments, the class of the refusal, what it says, its reason in the report
    "float64": (
        [x.double() for x in qkv()], {}, gqa.GqaTypeError, r"float64; expected float32.*query.to\(torch.float32\)",
        "dtype float64",
    ),
    "dropout": (qkv(), {"dropout_p": 1e-9}, NotImplementedError, "eval", "dropout"),
    "gradient": (needing_a_gradient(), {}, gqa.GqaValueError, "no_grad", "a gradient is wanted"),
    "gradient of a mask": (
        qkv(), {"attn_mask": made(12, 20).requires_grad_()}, gqa.GqaValueError, "no_grad", "a gradient is wanted"
    ),
    "head_dim": (qkv((2, 4, 12, 40), (2, 4, 20, 40)), {}, gqa.GqaValueError, "head_dim is 40", "head_dim 40"),
    "head_dim_v": (qkv(v=(2, 4, 20, 8)), {}, gqa.GqaValueError, "head_dim_v is 8", "head_dim_v 8"),
    "negative scale": (qkv(), {"scale": -1.0}, gqa.GqaValueError, "above 0", "a scale that is no number above 0"),
    "scale of 0": (qkv(), {"scale": 0.0}, gqa.GqaValueError, "above 0", "a scale that is no number above 0"),
    "no keys": (qkv(k=(2, 4, 0, 32)), {}, gqa.GqaValueError, "elements", "a tensor without elements"),
    "no queries": (qkv(q=(2, 4, 0, 32)), {}, gqa.GqaValueError, "elements", "a tensor without elements"),
    "a class of its own": (
        [qkv()[0].as_subclass(Own), *qkv()[1:]], {}, gqa.GqaTypeError, "Own", "a tensor of a class of its own"
    ),
    "heads of keys and values": (
        qkv((2, 4, 12, 32), (2, 4, 20, 32), (2, 2, 20, 32)), {"enable_gqa": True}, gqa.GqaValueError, "values",
        "heads of key and value that differ",
    ),
    "one query head": (qkv(q=(2, 1, 12, 32)), {}, gqa.GqaValueError, "heads", "shapes that do not fit"),
    "ranks that differ": (qkv(k=(4, 20, 32)), {}, gqa.GqaValueError, "dimensions", "shapes that do not fit"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_gqa_does_not_compute(case, report):
    """Refused by name in a sentence; through the mode PyTorch computes it, and the report has the reason."""
    tensors, keywords, kind, word, reason = case
    with pytest.raises(kind, match=word) as caught:
        gqa.scaled_dot_product_attention(*tensors, **keywords)
    assert len(str(caught.value)) <= 400
    with gqa.use_as_sdpa():
        out = F.scaled_dot_product_attention(*tensors, **keywords)
    expected = F.scaled_dot_product_attention(*tensors, **keywords)
    assert type(out) is type(expected) and torch.equal(out, expected)
    assert only(report) == {reason: 1}
    if expected.requires_grad:
        out.sum().backward()


WRONG = {  # tensors, other arguments, what gqa says, its reason in the report: PyTorch refuses them too
    "heads that are unlike": (qkv(k=GROUPED), {}, "enable_gqa=True", "shapes that do not fit"),
    "heads that do not divide": (qkv(k=(2, 3, 20, 32)), {"enable_gqa": True}, "divisors", "shapes that do not fit"),
    "head_dim": (qkv(k=(2, 4, 20, 64)), {}, "head_dim", "shapes that do not fit"),
    "batch": (qkv(k=(3, 4, 20, 32)), {}, r"begin with \(2,\), \(3,\)", "shapes that do not fit"),
    "mask's shape": (qkv(), {"attn_mask": made(12, 19)}, r"\(2, 4, 12, 20\)", "shapes that do not fit"),
    "mask's rank": (qkv(), {"attn_mask": made(1, 1, 1, 12, 20)}, "broadcasts", "shapes that do not fit"),
    "mask's dtype": (qkv(), {"attn_mask": made(12, 20).to(torch.int32)}, "torch.bool", "dtype of attn_mask"),
    "mask and causal": (
        qkv(), {"attn_mask": made(12, 20), "is_causal": True}, "one of them", "attn_mask with is_causal"
    ),
    "dtypes": ([qkv()[0], *(x.bfloat16() for x in qkv()[1:])], {}, "key.to", "dtypes that differ"),
    "float32 queries": ([qkv()[0].float(), *qkv()[1:]], {}, r"key.to\(query.dtype\)", "dtypes that differ"),
    "devices": ([qkv()[0], *(x.to("meta") for x in qkv()[1:])], {}, "key.to", "devices that differ"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_pytorch_refuses_too(case, report):
    tensors, keywords, word, reason = case
    with pytest.raises(gqa.GqaError, match=word) as caught:
        gqa.scaled_dot_product_attention(*tensors, **keywords)
    assert len(str(caught.value)) <= 400
    refused = []  # by PyTorch, also under the mode; of a mask and causality only by some versions
    for mode in contextlib.nullcontext(), gqa.use_as_sdpa():
        with mode:
            try:
                F.scaled_dot_product_attention(*tensors, **keywords)
            except (RuntimeError, TypeError) as error:
                refused.append(type(error))
    assert len(refused) == 2 or (not refused and reason == "attn_mask with is_causal")
    assert len(set(refused)) <= 1
    assert not any(issubclass(kind, gqa.GqaError) for kind in refused)
    assert only(report) == {reason: 1}


def test_what_is_no_dense_tensor():
    q, k, v = qkv()
    nested = torch.nested.nested_tensor([made(4, n, 32) for n in (12, 7)], layout=torch.jagged)
    for tensors, said in (
        ((q, [1.0], v), "key is a list; expected a torch.Tensor"),
        ((q, k, v, "mask"), "attn_mask is a str; expected a torch.Tensor or None"),
        ((nested, k, v), "query is a NestedTensor"),
        ((q, k, v.to_sparse()), "value is a nested or sparse tensor"),
    ):
        with pytest.raises(gqa.GqaTypeError, match=said):
            gqa.scaled_dot_product_attention(*tensors)


def test_derivatives_are_pytorchs(report):
    q, k, v = qkv()

    def total(q):
        return F.scaled_dot_product_attention(q, k, v).float().sum()

    with gqa.use_as_sdpa():
        gradient = torch.func.grad(total)(q)
    assert only(report) == {"a gradient is wanted": 1}
    assert torch.equal(gradient, torch.func.grad(total)(q))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q.float(), torch.ones_like(q.float())).half()
        with pytest.raises(NotImplementedError, match="forward-mode"):
            gqa.scaled_dot_product_attention(dual, k, v)
        with gqa.use_as_sdpa(), pytest.raises(NotImplementedError, match="Trying to use forward AD"):
            F.scaled_dot_product_attention(dual, k, v)  # nor does PyTorch, of this kernel
    assert only(report) == {"a forward-mode derivative is wanted": 1}


def fails(monkeypatch, status):
    def attend(*args, **keywords):
        raise gqa.GqaError("as planted", status)

    monkeypatch.setattr(_sdpa_call, "attend", attend)


@pytest.mark.parametrize("status", [gqa.Status.ERROR_CAPTURING, gqa.Status.ERROR_NO_COMPILER, gqa.Status.ERROR_STRIDE])
def test_what_the_library_refuses_is_pytorchs(status, monkeypatch, report):
    """Such as a shape first met in a capture."""
    fails(monkeypatch, status)
    with gqa.use_as_sdpa():
        out = F.scaled_dot_product_attention(*qkv())
    assert torch.equal(out, F.scaled_dot_product_attention(*qkv()))
    assert only(report) == {f"gqa refuses: {status.name}": 1}


@pytest.mark.parametrize("status", [gqa.Status.ERROR_DEVICE_FAILED, gqa.Status.ERROR_CANCELLED])
def test_a_failure_is_not_hidden(status, monkeypatch, report):
    fails(monkeypatch, status)
    with gqa.use_as_sdpa(), pytest.raises(gqa.GqaError, match="as planted"):
        F.scaled_dot_product_attention(*qkv())
    assert report() == {}


def test_a_device_that_is_not_served(monkeypatch, report):
    def core_of(device):
        raise gqa.GqaError("there is none", gqa.Status.ERROR_NO_DEVICE)

    monkeypatch.setattr(_sdpa_call._defaults, "core_of", core_of)
    with pytest.raises(gqa.GqaError, match="there is none"):
        gqa.scaled_dot_product_attention(*qkv())
    compiled = torch.compile(lambda *tensors: F.scaled_dot_product_attention(*tensors), backend="aot_eager")
    with gqa.use_as_sdpa():
        out = compiled(*qkv())
    assert torch.equal(out, F.scaled_dot_product_attention(*qkv()))
    assert only(report) == {"device cpu is not served": 1}


# ---- the mode


def test_the_mode_ends(report):
    q, k, v = qkv()
    with pytest.raises(ZeroDivisionError):
        with gqa.use_as_sdpa(), gqa.use_as_sdpa():
            F.scaled_dot_product_attention(q, k, v)
            1 / 0
    F.scaled_dot_product_attention(q, k, v)
    assert report()[_doors.SDPA].calls == 1


def test_as_a_decorator(report):
    @gqa.use_as_sdpa()
    def step(q, *, k, v):
        """What it says."""
        return F.scaled_dot_product_attention(q, k, v), torch.ones(2)

    q, k, v = qkv()
    assert torch.equal(step(q, k=k, v=v)[0], gqa.scaled_dot_product_attention(q, k, v))
    assert step.__name__ == "step" and step.__doc__ == "What it says."
    assert report()[_doors.SDPA].calls == 1


def test_the_mode_is_its_threads(report):
    with gqa.use_as_sdpa():
        other = threading.Thread(target=lambda: F.scaled_dot_product_attention(*qkv()))
        other.start()
        other.join()
    assert report() == {}


def compiles_under_modes():
    """Whether a mode that does nothing may be active where a function that nn.MultiheadAttention calls is compiled."""

    class Passing(TorchFunctionMode):
        def __torch_function__(self, func, classes, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Passing():
        try:
            torch.compile(lambda x: x.unflatten(-1, (2, 2)), backend="aot_eager", fullgraph=True)(torch.ones(4))
        except torch._dynamo.exc.Unsupported:
            return False
    return True


def test_multihead_attention(report):
    """Whose function asks modes itself, and calls scaled_dot_product_attention where none is active."""
    layer = torch.nn.MultiheadAttention(128, 4, batch_first=True, dtype=torch.float16).requires_grad_(False)
    x = made(2, 12, 128)
    expected = layer(x, x, x, need_weights=False)[0]
    with gqa.use_as_sdpa():
        out = layer(x, x, x, need_weights=False)[0]
    agrees(out, expected.float())
    assert report()[_doors.SDPA].calls == 1
    for whole in False, True:
        if whole and not compiles_under_modes():
            pytest.skip("this PyTorch compiles Tensor.unflatten under a mode, whoever's it is, only in pieces")
        torch.compiler.reset()
        with gqa.use_as_sdpa():
            compiled = torch.compile(layer, backend="aot_eager", fullgraph=whole)
            assert torch.equal(compiled(x, x, x, need_weights=False)[0], out)
        assert report()[_doors.SDPA].calls == 1


def test_without_pytorch():
    said = run_python(
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "import gqa\n"
        "for call in gqa.use_as_sdpa, lambda: gqa.scaled_dot_product_attention(1, 2, 3):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
    )
    assert said.count("torch") >= 2


def test_pytorch_may_come_after_gqa():
    """And no compiler with it, which takes seconds to import."""
    said = run_python(
        "import sys\n"
        "import gqa\n"
        "mode = gqa.use_as_sdpa()\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "import torch\n"
        "x = torch.ones(1, 2, 8, 40)\n"
        "with mode: torch.nn.functional.scaled_dot_product_attention(x, x, x)\n"
        "print(gqa.door_report())\n"
    )
    assert "'use_as_sdpa': DoorReport(calls=0, fallbacks={'head_dim 40': 1}, misses=0" in said


# ---- compilers, autocast, transforms


def targets(function, *tensors):
    """The calls of the graph that torch.compile makes of it, and what it gives."""
    seen = []

    def backend(graph_module, inputs):
        seen.extend(str(node.target) for node in graph_module.graph.nodes if node.op == "call_function")
        return graph_module.forward

    torch.compiler.reset()
    return seen, torch.compile(function, fullgraph=True, backend=backend)(*tensors)


def plain(q, k, v):
    return F.scaled_dot_product_attention(q, k, v) * 2


def inside(q, k, v):
    with gqa.use_as_sdpa():
        return F.scaled_dot_product_attention(q, k, v) * 2


def by_name(q, k, v):
    return gqa.scaled_dot_product_attention(q, k, v) * 2


decorated = gqa.use_as_sdpa()(plain)


@pytest.mark.parametrize("function", [inside, by_name, decorated], ids=["inside", "by name", "decorated"])
def test_compiled_whole(function):
    seen, out = targets(function, *qkv())
    assert "gqa.attention.default" in seen
    assert torch.equal(out, by_name(*qkv()))


@each_device
def test_compiled_under_the_mode_and_without(device, report):
    """The counts are a compilation's, and a graph is only used in the mode that it was made in."""
    tensors = [x.to(device) for x in qkv()]
    compiled = torch.compile(plain, fullgraph=True, backend="aot_eager")
    compiled(*tensors)
    assert report() == {}
    for expected in 1, 0:
        with gqa.use_as_sdpa():
            outs = [compiled(*tensors) for _ in range(3)]
        assert sum(counts.calls for counts in report().values()) == expected
        assert all(torch.equal(out, by_name(*tensors)) for out in outs)
        compiled(*tensors)
        assert report() == {}


def test_a_compiled_fallback_is_counted_once(report):
    q, k, v = (x.double() for x in qkv())
    compiled = torch.compile(plain, fullgraph=True, backend="aot_eager")
    with gqa.use_as_sdpa():
        outs = [compiled(q, k, v) for _ in range(3)]
    assert all(torch.equal(out, plain(q, k, v)) for out in outs)
    assert only(report) == {"dtype float64": 1}


@pytest.mark.parametrize("name", ["bool mask", "float mask of rows", "from the bottom right", "causal, more keys"])
def test_compiled_with_a_mask(name):
    (q, k, v), keywords = CASES[name]
    seen, out = targets(lambda q, k, v: gqa.scaled_dot_product_attention(q, k, v, **keywords), q, k, v)
    assert "gqa.attention.default" in seen
    assert torch.equal(out, gqa.scaled_dot_product_attention(q, k, v, **keywords))


def test_compiled_for_sizes_that_differ(report):
    compiled = torch.compile(plain, fullgraph=True, dynamic=True, backend="aot_eager")
    calls = [qkv(q=(2, 4, length, 32)) for length in (12, 11, 10)]
    with gqa.use_as_sdpa():
        outs = [compiled(*tensors) for tensors in calls]
    for out, tensors in zip(outs, calls):
        agrees(out, 2 * in_float32(*tensors), 8e-3)
    assert report()[_doors.SDPA].calls == 1


@pytest.mark.parametrize("strict", [False, True])
def test_exported(strict, report):
    class Layer(torch.nn.Module):
        def forward(self, q, k, v):
            return plain(q, k, v)

    with gqa.use_as_sdpa():
        program = torch.export.export(Layer(), qkv(), strict=strict)
    assert "gqa.attention.default" in [str(node.target) for node in program.graph.nodes]
    assert torch.equal(program.module()(*qkv()), by_name(*qkv()))


def test_autocast(report):
    q, k, v = (x.float() for x in qkv())
    with torch.autocast("cpu", torch.bfloat16), gqa.use_as_sdpa():
        out = F.scaled_dot_product_attention(q, k, v, masked(12, 20))
    assert out.dtype is torch.bfloat16
    agrees(out, F.scaled_dot_product_attention(q, k, v, masked(12, 20)), 2e-2)
    assert report()[_doors.SDPA].calls == 1


def test_vmap(report):
    q, k, v = qkv()
    with gqa.use_as_sdpa():
        out = torch.func.vmap(lambda q: F.scaled_dot_product_attention(q, k[0], v[0]))(q)
    agrees(out, in_float32(q, k[:1], v[:1]))
    assert report()[_doors.SDPA].calls == 1


# ---- layouts that look right


@pytest.mark.parametrize("name", ["attention", "scaled_dot_product_attention"])
def test_heads_and_tokens_that_look_swapped_are_told_once(name, monkeypatch):
    monkeypatch.setattr(_warnings, "_told", [])
    shape = (1, 2, 300, 32) if name == "attention" else (1, 300, 2, 32)
    q, right = made(*shape), made(*shape).transpose(1, 2)
    with pytest.warns(RuntimeWarning, match=r"300 heads and 2 tokens.*transpose\(1, 2\)") as told:
        getattr(gqa, name)(q, q, q)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(gqa, name)(q, q, q)
        monkeypatch.setattr(_warnings, "_told", [])
        getattr(gqa, name)(right, right, right)
        with gqa.use_as_sdpa():
            F.scaled_dot_product_attention(q, q, q)  # who was right before is right now
