"""gqa as PyTorch's implementation "gqa" of FlashAttention: when it is active, and its kernels on the CPU, called as the
dispatcher calls them on CUDA."""

import contextlib
import inspect

import gqa
import pytest
from gqa import _doors

from conftest import check

torch = pytest.importorskip("torch", reason="test_flash_impl.py needs PyTorch")
pytest.importorskip("gqa.torch", reason="test_flash_impl.py needs PyTorch 2.10")

from gqa import _flash_impl  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

F = nn.functional
NAMES = list(_flash_impl._KERNELS)
KEYS = object()  # the dispatch keys, which are handed on
STARTS = torch.tensor([0, 3, 12, 12], dtype=torch.int32)


def made(*shape, seed=0, dtype=torch.float16):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def heads_first(kv_heads=2, kv_len=20, q_len=12):
    return made(2, 4, q_len, 32), made(2, kv_heads, kv_len, 32, seed=1), made(2, kv_heads, kv_len, 32, seed=2)


def packed():
    return made(12, 4, 32), made(12, 2, 32, seed=1), made(12, 2, 32, seed=2)


class Old:
    """PyTorch's kernel: what it was called with."""

    def __init__(self, within=None):
        self.calls, self.within = [], within

    def call_boxed(self, keys, *args, **keywords):
        assert keys is KEYS
        self.calls.append((args, keywords))
        return self.within() if self.within else "old"


@pytest.fixture
def report():
    """Calls and fallbacks of what the test itself has called; None: it came through no door."""
    gqa.door_report(reset=True)

    def counts():
        report = gqa.door_report(reset=True).get(_doors.FLASH_IMPL)
        return None if report is None else (report.calls, report.fallbacks)

    return counts


def agrees(out, expected):
    check(out.detach().float().cpu().numpy(), expected.float().cpu().numpy())


def sdpa_kernel_of_gqa(*args, old=None, **keywords):
    return _flash_impl._sdpa(old or Old(), KEYS, *args, **keywords)


def flash(*args, old=None, **keywords):
    """_flash_attention_forward's, up to dropout_p, is_causal and return_debug_mask."""
    return _flash_impl._flash(old or Old(), KEYS, *args, **keywords)


@contextlib.contextmanager
def activated():
    nn.attention.activate_flash_attention_impl("gqa")
    try:
        yield
    finally:
        if hasattr(nn.attention, "restore_flash_attention_impl"):
            nn.attention.restore_flash_attention_impl()
        else:  # PyTorch 2.10 has none: what those of newer ones do
            nn.attention._registry._FLASH_ATTENTION_HANDLES.pop("gqa").remove()
            nn.attention._registry._FLASH_ATTENTION_ACTIVE = None


def kernels():
    return [torch._C._dispatch_dump(f"aten::{name}") for name in NAMES if hasattr(torch.ops.aten, name)]


def test_it_is_active_only_while_somebody_wants_it():
    before = kernels()
    assert "gqa" in nn.attention.list_flash_attention_impls()
    assert nn.attention.current_flash_attention_impl() is None
    assert not any("_flash_impl.py" in dump for dump in before)
    with activated():
        assert nn.attention.current_flash_attention_impl() == "gqa"
        assert all("_flash_impl.py" in dump for dump in kernels())
    assert kernels() == before


@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(torch.ops.aten, name)])
def test_a_kernel_takes_what_its_operator_is_given(name):
    """Whose arguments differ between versions of PyTorch."""
    taken = inspect.signature(_flash_impl._KERNELS[name])
    arguments = getattr(torch.ops.aten, name).default._schema.arguments
    ordered = [argument.name for argument in arguments if not argument.kwarg_only]
    given = taken.bind("old", "keys", *ordered, **{x.name: x.name for x in arguments if x.kwarg_only}).arguments
    assert {**given, **given.get("more", {})}.items() >= {x.name: x.name for x in arguments}.items()


# ---- scaled_dot_product_attention's


@pytest.mark.parametrize("causal", [False, True])
def test_sdpas_answer(causal, report):
    q, k, v = heads_first()
    out, lse, *others = sdpa_kernel_of_gqa(q, k, v, 0.0, causal, scale=0.3)
    mask = torch.ones(12, 20, dtype=torch.bool).tril(8 if causal else 20)  # last with last
    agrees(out, F.scaled_dot_product_attention(q.float(), k.float(), v.float(), mask, scale=0.3, enable_gqa=True))
    scores = (q.float() @ k.float().repeat_interleave(2, 1).mT * 0.3).masked_fill(~mask, -torch.inf)
    assert lse.dtype is torch.float32
    check(lse.numpy(), scores.logsumexp(-1).numpy(), 4e-3)
    starts_q, starts_k, max_q, max_k, seed, offset, debug = others
    assert (starts_q, starts_k, max_q, max_k) == (None, None, 12, 20)
    assert seed.dtype is offset.dtype is torch.uint64
    assert (seed.shape, offset.shape, debug.numel()) == ((2,), (), 0)
    assert report() == (1, {})


@pytest.mark.parametrize("tokens_first", [False, True])
def test_out_lies_as_q_does(tokens_first):
    """As compiled graphs expect, which have asked PyTorch's own kernel."""
    q, k, v = heads_first()
    if tokens_first:
        q = q.transpose(1, 2).contiguous().transpose(1, 2)
    assert sdpa_kernel_of_gqa(q, k, v)[0].stride() == q.stride()


def needing_a_gradient():
    q, k, v = heads_first()
    return q.requires_grad_(), k, v


@pytest.mark.parametrize(
    "tensors,args,reason",
    [
        (heads_first(), (0.1,), "dropout"),
        (heads_first(), (0.0, False, True), "return_debug_mask"),
        (needing_a_gradient(), (), "a gradient is wanted"),
        ([x.double() for x in heads_first()], (), "dtype float64"),
        ([made(2, 4, 12, 40) for _ in range(3)], (), "head_dim 40"),
        ([*heads_first()[:2], made(2, 2, 20, 64)], (), "a layout of out that is not query's"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_the_old_kernel_answers_the_rest(tensors, args, reason, report):
    old = Old()
    assert sdpa_kernel_of_gqa(*tensors, *args, scale=0.3, old=old) == "old"
    ((given, keywords),) = old.calls
    assert all(a is b for a, b in zip(given, tensors)) and given[3:] == (*args, *(0.0, False, False)[len(args) :])
    assert keywords == {"scale": 0.3}
    assert report() == (0, {reason: 1})


@pytest.mark.parametrize("status,hidden", [("ERROR_CAPTURING", True), ("ERROR_DEVICE_FAILED", False)])
def test_the_old_kernel_answers_what_the_library_refuses(status, hidden, monkeypatch, report):
    def compute(*args):
        raise gqa.GqaError("as planted", gqa.Status[status])

    monkeypatch.setattr(_flash_impl._call, "compute", compute)
    if hidden:
        assert sdpa_kernel_of_gqa(*heads_first()) == "old"
        assert report() == (0, {f"gqa refuses: {status}": 1})
    else:
        with pytest.raises(gqa.GqaError, match="as planted"):
            sdpa_kernel_of_gqa(*heads_first())


def test_what_the_old_kernel_calls_is_its_own(report):
    """PyTorch's kernel of scaled_dot_product_attention may call _flash_attention_forward, which is overridden, too."""
    inner = Old()
    outer = Old(within=lambda: flash(*(x.mT for x in heads_first()), None, None, 12, 20, 0.1, False, False, old=inner))
    assert sdpa_kernel_of_gqa(*heads_first(), 0.1, old=outer) == "old"
    assert len(inner.calls) == 1
    assert report() == (0, {"dropout": 1})
    sdpa_kernel_of_gqa(*heads_first())
    assert report()[0] == 1, "only while it runs"


def agree(given, expected):
    """Out and log-sum-exp: a guess and a tuned program may add in another order."""
    for one, other in zip(given, expected):
        torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3)


# ---- _flash_attention_forward's, and varlen_attn's through it


def test_dense():
    q, k, v = (x.transpose(1, 2) for x in heads_first())
    out, lse, *_ = flash(q, k, v, None, None, 12, 20, 0.0, True, False, window_size_left=3, window_size_right=-1)
    expected = gqa.flash_attn_func(q, k, v, causal=True, window_size=(3, -1), return_softmax_lse=True)
    agree((out, lse), expected)


@pytest.mark.parametrize("left,right", [(None, None), (-1, -1), (2, 0)])
def test_packed(left, right, report):
    q, k, v = packed()
    more = {"window_size_left": left, "window_size_right": right, "alibi_slopes": None, "num_splits": None}
    out, lse, seed, offset, debug = flash(q, k, v, STARTS, STARTS, 9, 9, 0.0, False, False, **more)
    given = {"window_size": (left, right), "return_attn_probs": True}
    expected = gqa.flash_attn_varlen_func(q, k, v, STARTS, STARTS, 9, 9, **given)
    agree((out, lse), expected)
    assert lse.shape == (4, 12) and seed.shape == (2,) and debug.numel() == 0
    assert report() == (1, {})


def test_an_empty_rows_log_sum_exp_is_plus_infinity():
    """FlashAttention-2's, which PyTorch's backward takes for no weights at all."""
    q, k, v = packed()
    used = torch.tensor([2, 0, 0], dtype=torch.int32)
    out, lse, *_ = flash(q, k, v, STARTS, STARTS, 9, 9, 0.0, False, False, seqused_k=used)
    assert (lse[:, 3:] == torch.inf).all() and (out[3:] == 0).all() and lse[:, :3].isfinite().all()
    q, k, v = (x.transpose(1, 2) for x in heads_first(q_len=20, kv_len=12))
    out, lse, *_ = flash(q, k, v, None, None, 20, 12, 0.0, True, False)
    assert (lse[..., :8] == torch.inf).all() and lse[..., 8:].isfinite().all()


def test_pages(report):
    q, pages = packed()[0], [made(6, 4, 2, 32, seed=s) for s in (1, 2)]
    table = torch.tensor([[0, 1], [2, 3], [4, 5]], dtype=torch.int32)
    lengths = torch.tensor([5, 8, 1], dtype=torch.int32)
    out, lse, *_ = flash(q, *pages, STARTS, None, 9, 8, 0.0, False, False, seqused_k=lengths, block_table=table)
    given = {"cache_seqlens": lengths, "page_table": table, "cu_seqlens_q": STARTS, "max_seqlen_q": 9}
    assert torch.equal(out, gqa.flash_attn_with_kvcache(q, *pages, **given))
    old = Old()
    flash(q, *pages, STARTS, STARTS, 9, 8, 0.0, False, False, block_table=table, old=old)
    assert old.calls[0][1]["block_table"] is table
    assert report() == (1, {"block_table without seqused_k and cum_seq_q": 1})


@pytest.mark.parametrize("name", ["alibi_slopes", "num_splits", "something_new"])
def test_what_gqa_has_no_word_for_is_the_old_kernels(name, report):
    old = Old()
    args = (*packed(), STARTS, STARTS, 9, 9, 0.0, True, False)
    assert flash(*args, scale=0.3, window_size_left=4, **{name: 1}, old=old) == "old"
    ((given, keywords),) = old.calls
    assert given == args
    expected = {"scale": 0.3, "window_size_left": 4, "window_size_right": None, "seqused_k": None, name: 1}
    assert keywords == expected
    assert report() == (0, {name: 1})


def test_into_out(report):
    q, k, v = packed()
    out, old = torch.full_like(q, torch.nan), Old()
    lse = _flash_impl._flash_into(old, KEYS, out, q, k, v, STARTS, STARTS, 9, 9, 0.0, True, False)
    expected = gqa.flash_attn_varlen_func(q, k, v, STARTS, STARTS, 9, 9, causal=True, return_attn_probs=True)
    agree((out, lse), expected)
    args = (out, q, k, v, STARTS, STARTS, 9, 9, 0.0, True, False)
    assert _flash_impl._flash_into(old, KEYS, *args, num_splits=1) == "old"
    assert all(a is b for a, b in zip(old.calls[0][0], args)) and old.calls[0][1]["num_splits"] == 1
    assert report() == (1, {"num_splits": 1})


def test_the_kernels_take_what_this_pytorch_gives():
    """Names and order of the operators' arguments."""
    import inspect

    for name, kernel in _flash_impl._KERNELS.items():
        if not hasattr(torch.ops.aten, name):
            continue
        schema = getattr(torch.ops.aten, name).default._schema
        by_position = [argument.name for argument in schema.arguments if not argument.kwarg_only]
        parameters = [x for x in inspect.signature(kernel).parameters.values()][2:]
        assert [x.name for x in parameters if x.kind is x.POSITIONAL_OR_KEYWORD] == by_position


# ---- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
def test_cuda_sdpa(causal, report):
    q, k, v = (x.cuda() for x in heads_first(kv_heads=4, kv_len=12))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        compiled = torch.compile(lambda *tensors: F.scaled_dot_product_attention(*tensors, is_causal=causal))
        with activated():
            out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            assert report() == (1, {})
            agrees(compiled(q, k, v), expected)
            assert report()[0] >= 1
    agrees(out, expected)
    assert out.stride() == expected.stride()


@pytest.mark.gpu
def test_cuda_gradients_and_dropout_are_pytorchs(report):
    q, k, v = (x.cuda().requires_grad_() for x in heads_first(kv_heads=4, kv_len=12))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), activated():
        F.scaled_dot_product_attention(q, k, v).float().sum().backward()
        gradient = q.grad.clone()
        F.scaled_dot_product_attention(q.detach(), k.detach(), v.detach(), dropout_p=0.5)
    assert report() == (0, {"a gradient is wanted": 1, "dropout": 1})
    q.grad = None
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        F.scaled_dot_product_attention(q, k, v).float().sum().backward()
    agrees(gradient, q.grad)


@pytest.mark.gpu
def test_cuda_varlen(report):
    varlen_attn = pytest.importorskip("torch.nn.attention.varlen").varlen_attn
    q, k, v = (x.cuda().repeat_interleave(4 // x.shape[1], 1) for x in packed())
    starts = STARTS.cuda()
    with torch.no_grad(), activated():
        out = varlen_attn(q, k, v, starts, starts, 9, 9)
    if report() is None:
        pytest.skip("this PyTorch answers varlen_attn by another backend than FlashAttention")
    agrees(out, gqa.flash_attn_varlen_func(q, k, v, starts, starts, 9, 9))


@pytest.mark.gpu
def test_cuda_a_shape_first_met_in_a_capture_is_the_old_kernels(report):
    q, k, v = (x.cuda() for x in heads_first(kv_heads=4, kv_len=37, q_len=29))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), activated():
        torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.1)  # PyTorch's own kernel is warm
        report()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = F.scaled_dot_product_attention(q, k, v)
        graph.replay()
    assert report() == (0, {"gqa refuses: ERROR_CAPTURING": 1})
    agrees(out, F.scaled_dot_product_attention(q.float(), k.float(), v.float()))
