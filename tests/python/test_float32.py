"""float32 through every door, and heads of 16: against float64, with an error of at most 1.5 of PyTorch's math SDPA in
float32; what does not go together is refused by name, with the cast to make."""

import gqa
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="test_float32.py needs PyTorch")
pytest.importorskip("gqa.torch", reason="test_float32.py needs PyTorch 2.10")

import gqa.aiter  # noqa: E402
import gqa.flash_attn  # noqa: E402
import gqa.flash_attn_cute  # noqa: E402
import gqa.flash_attn_interface  # noqa: E402
from gqa import _doors, _flash_impl  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch_tensors import each_device, made  # noqa: E402

F = torch.nn.functional
BATCH, TOKENS, Q_HEADS, KV_HEADS = 2, 40, 4, 2
MOST = 1.5  # of PyTorch's error


def qkv(head_dim=64, dtype=torch.float32, device="cpu", deviation=1, head_dim_v=None):
    shapes = (Q_HEADS, head_dim), (KV_HEADS, head_dim), (KV_HEADS, head_dim_v or head_dim)
    q, k, v = (made(BATCH, TOKENS, *shape, device=device, seed=at, dtype=dtype) for at, shape in enumerate(shapes))
    return q * deviation, k, v


def math_sdpa(q, k, v, causal=True, **more):
    """(batch, tokens, heads, dim), in q's dtype."""
    with sdpa_kernel(SDPBackend.MATH):
        heads_first = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(*heads_first, is_causal=causal, enable_gqa=True, **more).transpose(1, 2)


def error(out, expected):
    return float((out.double() - expected).norm())


def judge(out, q, k, v, most=MOST, **more):
    """float32 by PyTorch's error, 16 bits by what rounding out and weights makes."""
    out = torch.from_numpy(out) if isinstance(out, np.ndarray) else out
    exact = {name: x.double() if getattr(x, "dtype", None) is torch.float32 else x for name, x in more.items()}
    expected = math_sdpa(q.double(), k.double(), v.double(), **exact)
    assert out.dtype is q.dtype and out.shape == expected.shape
    if q.dtype is torch.float32:
        theirs = error(math_sdpa(q, k, v, **more), expected)
        assert error(out, expected) <= most * theirs, (error(out, expected), theirs)
    else:
        assert error(out, expected) <= 2 * torch.finfo(q.dtype).eps * float(expected.norm())


# ---- the doors: each is called with q, k and v (batch, tokens, heads, dim), and is causal


def of_numpy(q, k, v):
    return gqa.attention(*(x.numpy() for x in (q, k, v)), causal=True)


def into(q, k, v):
    out = q.new_full((*q.shape[:3], v.shape[3]), torch.nan)
    assert gqa.attention(q, k, v, causal=True, out=out) is out
    return out


def packed(q, k, v):
    starts = torch.arange(0, BATCH + 1, dtype=torch.int32, device=q.device) * TOKENS
    flat = (x.flatten(0, 1) for x in (q, k, v))
    out = gqa.flash_attn_varlen_func(*flat, starts, starts, TOKENS, TOKENS, causal=True)
    return out.unflatten(0, (BATCH, TOKENS))


def roomy(x, tokens=TOKENS):
    """A cache that holds so many tokens, and NaN where nothing is."""
    cache = x.new_full((BATCH, TOKENS + 8, *x.shape[2:]), torch.nan)
    cache[:, :tokens] = x[:, :tokens]
    return cache


def cached(q, k, v):
    return gqa.flash_attn_with_kvcache(q, roomy(k), roomy(v), cache_seqlens=TOKENS, causal=True)


def paged(q, k, v):
    table = torch.tensor([[4, 0, 2, 9, 7], [1, 8, 3, 6, 5]], dtype=torch.int32, device=q.device)
    pages = [x.new_full((10, 8, *x.shape[2:]), torch.nan) for x in (k, v)]
    for each, x in zip(pages, (k, v)):
        each[table.long()] = x.unflatten(1, (5, 8))
    lengths = torch.full((BATCH,), TOKENS, dtype=torch.int32, device=q.device)
    return gqa.flash_attn_with_kvcache(q, *pages, cache_seqlens=lengths, page_table=table, causal=True)


def appended(q, k, v, at=TOKENS - 3):
    caches = roomy(k, at), roomy(v, at)
    new = k[:, at:].contiguous(), v[:, at:].contiguous()
    out = gqa.flash_attn_with_kvcache(q, *caches, *new, cache_seqlens=at, causal=True)
    assert torch.equal(caches[0][:, :TOKENS], k) and torch.equal(caches[1][:, :TOKENS], v)
    return out


def merged(q, k, v):
    """Merges two parts of the keys; the first half of them is seen by all of the second half of the queries."""
    half = TOKENS // 2
    first, last = (x[:, :half] for x in (q, k, v)), (x[:, half:] for x in (q, k, v))
    q_last = q[:, half:]
    top = gqa.attention(*first, causal=True)
    parts = [
        gqa.attention(q_last, k[:, :half], v[:, :half], return_lse=True),
        gqa.attention(*last, causal=True, return_lse=True),
    ]
    outs, lses = zip(*parts)
    return torch.cat([top, gqa.merge_states(list(outs), list(lses))[0]], 1)


def by_sdpa(q, k, v):
    heads_first = (x.transpose(1, 2) for x in (q, k, v))
    return gqa.scaled_dot_product_attention(*heads_first, is_causal=True, enable_gqa=True).transpose(1, 2)


def pytorchs(q, k, v):
    heads_first = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(*heads_first, is_causal=True, enable_gqa=True).transpose(1, 2)


def under_the_mode(q, k, v):
    with gqa.use_as_sdpa():
        return pytorchs(q, k, v)


def compiled_under_the_mode(q, k, v):
    torch.compiler.reset()
    with gqa.use_as_sdpa():
        return torch.compile(pytorchs, backend="aot_eager", fullgraph=True)(q, k, v)


def with_pytorchs_flash(q, k, v):
    heads_first = (x.transpose(1, 2) for x in (q, k, v))
    return _flash_impl._sdpa(None, None, *heads_first, 0.0, True)[0].transpose(1, 2)


def with_transformers(q, k, v):
    door = pytest.importorskip("gqa.transformers", reason="test_float32.py's last door needs transformers 5")
    return door.attention_forward(torch.nn.Module(), *(x.transpose(1, 2) for x in (q, k, v)), None)[0]


DOORS = {
    "attention": lambda q, k, v: gqa.attention(q, k, v, causal=True),
    "attention into out": into,
    "flash_attn_func": lambda q, k, v: gqa.flash_attn_func(q, k, v, causal=True),
    "flash_attn 2": lambda q, k, v: gqa.flash_attn.flash_attn_func(q, k, v, causal=True),
    "flash_attn 3": lambda q, k, v: gqa.flash_attn_interface.flash_attn_func(q, k, v, causal=True),
    "flash_attn 4": lambda q, k, v: gqa.flash_attn_cute.flash_attn_func(q, k, v, causal=True)[0],
    "packed": packed,
    "cache": cached,
    "pages": paged,
    "new keys": appended,
    "merged parts": merged,
    "aiter": lambda q, k, v: gqa.aiter.flash_attn_func(q, k, v, True),
    "aiter's groups": lambda q, k, v: gqa.aiter.grouped_query_attention(q, k, v, Q_HEADS // KV_HEADS, True),
    "an operator": lambda q, k, v: torch.ops.gqa.attention(q, k, v, causal=True)[0],
    "scaled_dot_product_attention": by_sdpa,
    "use_as_sdpa": under_the_mode,
    "use_as_sdpa, compiled": compiled_under_the_mode,
    "PyTorch's FlashAttention": with_pytorchs_flash,
    "transformers": with_transformers,
}


@pytest.fixture(autouse=True)
def nothing_is_left_to_others():
    gqa.door_report(reset=True)
    yield
    assert all(not told.fallbacks for told in gqa.door_report(reset=True).values())


@each_device
@pytest.mark.parametrize("head_dim", [16, 64])
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_float32(door, head_dim, device):
    tensors = qkv(head_dim, device=device)
    judge(door(*tensors), *tensors)


@each_device
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_heads_of_16_in_16_bits(door, dtype, device):
    tensors = qkv(16, dtype, device)
    judge(door(*tensors), *tensors)


@pytest.mark.parametrize("head_dim", [16, 64])
def test_float32_of_numpy(head_dim):
    tensors = qkv(head_dim)
    judge(of_numpy(*tensors), *tensors)


@each_device
@pytest.mark.parametrize("deviation", [1, 4, 8])
@pytest.mark.parametrize("head_dim", [16, 32, 64, 80, 96, 112, 128, 192, 256])
def test_far_scores(head_dim, deviation, device):
    tensors = qkv(head_dim, device=device, deviation=deviation)
    judge(gqa.attention(*tensors, causal=True), *tensors)


@each_device
def test_values_of_another_dim(device):
    for dims in (64, 16), (16, 128):
        tensors = qkv(dims[0], device=device, head_dim_v=dims[1])
        judge(gqa.attention(*tensors, causal=True), *tensors)


@each_device
def test_fewer_bits_are_told_apart(device):
    """These tests would see the error of what tensor cores make of float32 alone, 10 bits, or of weights of 16 bits."""
    q, k, v = qkv(device=device)
    fewer = math_sdpa(*((x.view(torch.int32) & ~0x1FFF).view(torch.float32) for x in (q, k, v)))
    with pytest.raises(AssertionError):
        judge(fewer, q, k, v, most=100)


@each_device
def test_masks_of_pytorchs(device):
    q, k, v = qkv(32, device=device)
    allowed = torch.rand(BATCH, 1, TOKENS, TOKENS, generator=torch.Generator().manual_seed(5)).to(device) > 0.3
    for mask in allowed, made(Q_HEADS, TOKENS, TOKENS, device=device, dtype=torch.float32):
        with gqa.use_as_sdpa():
            heads_first = (x.transpose(1, 2) for x in (q, k, v))
            out = F.scaled_dot_product_attention(*heads_first, mask, enable_gqa=True).transpose(1, 2)
        judge(out, q, k, v, causal=False, attn_mask=mask)
    assert gqa.door_report()[_doors.SDPA].calls == 2


# ---- what does not go together


def said(call):
    with pytest.raises(gqa.GqaTypeError) as refused:
        call()
    return str(refused.value)


def test_mixtures_name_the_cast():
    q, k, v = qkv()
    for call in gqa.attention, gqa.flash_attn_func:
        assert said(lambda: call(q, k.half(), v)) == "k is float16, but q is float32: cast k to float32"
        told = "v is float32, but q is bfloat16: cast v to bfloat16"
        assert said(lambda: call(q.bfloat16(), k.bfloat16(), v)) == told
        assert said(lambda: call(q.half(), k, v)) == "k is float32, but q is float16: cast k to float16"
        told = "q is float64, expected float32, float16 or bfloat16: cast it"
        assert said(lambda: call(q.double(), k.double(), v.double())) == told
    told = "key is float16, but query is float32: cast key to float32"
    assert said(lambda: gqa.aiter.flash_attn_func(q, k.half(), v)) == told
    told = "v_cache is float16, but q is float32: cast v_cache to float32"
    assert said(lambda: gqa.flash_attn_with_kvcache(q, k, v.half(), cache_seqlens=3)) == told


def test_biases_of_float32_calls():
    q, k, v = qkv()
    bias = made(1, 1, TOKENS, TOKENS, dtype=torch.float32)
    judge(gqa.flash_attn_func(q, k, v, bias=bias), q, k, v, causal=False, attn_mask=bias)
    told = "bias is float16, expected float32: cast bias to float32"
    assert said(lambda: gqa.flash_attn_func(q, k, v, bias=bias.half())) == told


def test_out_of_another_dtype():
    q, k, v = qkv()
    told = "out is float16, but q is float32: cast out to float32"
    assert said(lambda: gqa.attention(q, k, v, out=torch.empty_like(q, dtype=torch.float16))) == told


@each_device
def test_autocast_still_casts(device):
    q, k, v = qkv(device=device)
    with torch.autocast(device, torch.bfloat16), gqa.use_as_sdpa():
        assert pytorchs(q, k, v).dtype is torch.bfloat16
        assert gqa.attention(q, k, v).dtype is torch.bfloat16
    with torch.autocast(device, torch.bfloat16):
        assert gqa.flash_attn_with_kvcache(q, roomy(k), roomy(v), cache_seqlens=TOKENS).dtype is torch.float32


def test_a_warmed_shape_serves_float32(tmp_path):
    q, k, v = (x.numpy() for x in qkv())
    shape = dict(batch=BATCH, q_len=TOKENS, kv_len=TOKENS, q_heads=Q_HEADS, kv_heads=KV_HEADS, head_dim=64)
    told = []
    with gqa.Handle("host", cache_path=tmp_path / "c.db", tuning_budget=0.1, log=lambda *line: told.append(line)) as own:
        for dtype in "float32", np.float32, torch.float32, gqa.float32:
            own.warm(**shape, dtype=dtype)
        own.warm(**shape, dtype="float32", bias="float32")
        before = len(told)
        assert before and "dtype=f32" in told[0][1]
        own.attention(q, k, v)
        own.attention(q, k, v, bias=np.zeros((1, 1, TOKENS, TOKENS), np.float32))
        assert len(told) == before
        assert "expected gqa.float16, gqa.bfloat16 or gqa.float32" in said(lambda: own.warm(**shape, dtype="float64"))
        expected = "bias is float16; expected float32: the dtype of the bias; None: none"
        assert said(lambda: own.warm(**shape, dtype="float32", bias="float16")) == expected
