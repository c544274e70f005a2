"""gqa.aiter with PyTorch's tensors: its page's examples as printed, head dims, torch.compile, gradients, autocast, and
GPUs."""

import os
import subprocess
import sys

import gqa
import gqa.aiter as aiter
import pytest

from conftest import attention_float64, check

torch = pytest.importorskip("torch", reason="test_aiter_torch.py needs PyTorch")

from torch_tensors import each_device, made, numbers  # noqa: E402


def float64(q, k, v, **mask):
    return attention_float64(*map(numbers, (q, k, v)), **mask)[0]


# ---- the page's examples

EXAMPLES = """\
import torch
import aiter
q = torch.randn(2, 1024, 16, 64, device='cuda', dtype=torch.float16)
k = torch.randn(2, 1024, 16, 64, device='cuda', dtype=torch.float16)
v = torch.randn(2, 1024, 16, 64, device='cuda', dtype=torch.float16)
output = aiter.flash_attn_func(q, k, v, causal=True)

query = torch.randn(4, 128, 16, 64, device='cuda', dtype=torch.float16)
kv_cache = torch.randn(256, 16, 128, 64, device='cuda', dtype=torch.float16)
page_table = torch.randint(0, 256, (4, 32), device='cuda', dtype=torch.int32)
output = aiter.flash_attn_with_kvcache(query, kv_cache, page_table, block_size=128)
"""

# The first batch of each is enough to see that numbers are right: more is the business of kernels' tests.
JUDGED = """
assert output.shape == query.shape and output.dtype == query.dtype and output.device == query.device
tokens = kv_cache[page_table[:1].long()].transpose(2, 3).flatten(1, 2)
hidden = torch.ones(128, 4096, dtype=torch.bool, device=query.device).tril(4096 - 128).logical_not()
def expected(q, k, v, hidden):
    scores = (q.float().transpose(1, 2) @ k.float().permute(0, 2, 3, 1)) / 8
    return (scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v.float().transpose(1, 2)).transpose(1, 2)
torch.testing.assert_close(output[:1].float(), expected(query[:1], tokens, tokens, hidden), rtol=0, atol=4e-3)
first = aiter.flash_attn_func(q, k, v, causal=True)[:1]
hidden = torch.ones(1024, 1024, dtype=torch.bool, device=q.device).tril().logical_not()
torch.testing.assert_close(first.float(), expected(q[:1], k[:1], v[:1], hidden), rtol=0, atol=4e-3)
print(aiter.__spec__.origin)
"""


def printed(device):
    """As the page has them, but for the device where there is no GPU."""
    return EXAMPLES if device == "cuda" else EXAMPLES.replace("device='cuda', ", "")


@each_device
def test_examples_as_printed(device, tmp_path):
    """Guessed, for the host would race kernels of these sizes for minutes."""
    script = tmp_path / "program.py"
    script.write_text('import gqa\ngqa.configure(tuning="guess")\n' + printed(device) + JUDGED)
    command = [sys.executable, "-m", "gqa", "run", "--as", "aiter", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, env=dict(os.environ))
    assert (done.returncode, done.stdout) == (0, "gqa (gqa.aiter)\n"), done.stderr


# ---- tensors


@each_device
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_each_function(device, dtype):
    q, k, v = (made(2, 12, heads, 64, device=device, seed=s, dtype=dtype) for s, heads in enumerate((4, 2, 2)))
    expected, tolerance = float64(q, k, v, causal=True), 4e-3 if dtype is torch.float16 else 3e-2
    for out in (aiter.flash_attn_func(q, k, v, True), aiter.grouped_query_attention(q, k, v, 2, True)):
        assert out.dtype is dtype and out.device == q.device
        check(numbers(out), expected, tolerance)
    one = k[:, :, :1]
    check(numbers(aiter.multi_query_attention(q, one, one)), float64(q, one, one), tolerance)
    cache = made(6, 2, 8, 64, device=device, dtype=dtype)
    table = torch.tensor([[5, 0, 2], [3, 5, 1]], dtype=torch.int32, device=device)
    lengths = torch.tensor([24, 14], dtype=torch.int32, device=device)
    tokens = cache[table.long()].transpose(2, 3).flatten(1, 2)
    out = aiter.flash_attn_with_kvcache(q, cache, table, 8, seq_lengths=lengths)
    check(numbers(out[:1]), float64(q[:1], tokens[:1], tokens[:1], causal=True), tolerance)
    check(numbers(out[1:]), float64(q[1:], tokens[1:, :14], tokens[1:, :14], causal=True), tolerance)
    out = aiter.variable_length_attention(q, k, v, lengths[1:].repeat(2) - 7, 12)
    assert out.dtype is dtype and out.device == q.device and (out[:, 7:] == 0).all()
    check(numbers(out[:, :7]), float64(q[:, :7], k[:, :7], v[:, :7]), tolerance)


@each_device
def test_head_dims_between_those_of_kernels(device):
    q, k, v = (made(2, 12, heads, 40, device=device, seed=s) for s, heads in enumerate((4, 2, 2)))
    check(numbers(aiter.flash_attn_func(q, k, v, True)), float64(q, k, v, causal=True))
    check(numbers(aiter.grouped_query_attention(q, k, v, 2)), float64(q, k, v))
    lengths = torch.tensor([9, 0], dtype=torch.int32, device=device)
    out = aiter.variable_length_attention(q, k, v, lengths, 12)
    check(numbers(out[:1, :9]), float64(q[:1, :9], k[:1, :9], v[:1, :9]))
    assert out.shape == q.shape and (out[0, 9:] == 0).all() and (out[1] == 0).all()
    with pytest.raises(gqa.GqaValueError, match="head_dim is 40, expected one of"):
        table = torch.zeros(2, 1, dtype=torch.int32, device=device)
        aiter.flash_attn_with_kvcache(q, made(3, 2, 8, 40, device=device), table, 8)


@each_device
def test_padding_may_hold_anything(device):
    lengths = torch.tensor([5, 0, 300, 257], device=device)
    q, k, v = (made(4, 300, heads, 64, device=device, seed=s) for s, heads in enumerate((4, 2, 2)))
    for row, length in enumerate(lengths.tolist()):
        for x in (q, k, v):
            x[row, length:] = float("nan")
    for most in (300, 512):
        out = aiter.variable_length_attention(q, k, v, lengths, most)
        for row, length in enumerate(lengths.tolist()):
            assert (out[row, length:] == 0).all()
            if length:
                check(numbers(out[row : row + 1, :length]), float64(*(x[row : row + 1, :length] for x in (q, k, v))))


@pytest.mark.gpu
def test_lengths_are_not_read():
    q = made(2, 64, 4, 64, device="cuda")
    cache, table = made(6, 4, 16, 64, device="cuda"), torch.zeros(2, 4, dtype=torch.int32, device="cuda")
    lengths = torch.tensor([40, 7], device="cuda")

    def step():
        aiter.variable_length_attention(q, q, q, lengths, 64)
        aiter.variable_length_attention(q, q, q, lengths, 48)
        aiter.flash_attn_with_kvcache(q, cache, table, 16, seq_lengths=lengths)

    step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = aiter.variable_length_attention(q, q, q, lengths, 64)
    lengths.fill_(20)
    graph.replay()
    assert (out[:, 20:] == 0).all()
    check(numbers(out[:, :20]), float64(q[:, :20], q[:, :20], q[:, :20]))


# ---- compilers, gradients, autocast


def compiled_cases():
    q, k, v = made(2, 12, 4, 64), *(made(2, 12, 2, 64, seed=s) for s in (1, 2))
    cache, table = made(6, 2, 8, 64), torch.tensor([[5, 0, 2], [3, 5, 1]], dtype=torch.int32)
    short, long = torch.tensor([9, 4], dtype=torch.int32), torch.tensor([9, 4])
    q_nan = q.clone()
    q_nan[1, 4:] = float("nan")
    return {
        "flash_attn_func": (lambda q, k, v: aiter.flash_attn_func(q, k, v, True, 0.2), (q, k, v)),
        "kvcache": (
            lambda q, c, t, n: aiter.flash_attn_with_kvcache(q, c, t, 8, seq_lengths=n),
            (q, cache, table, short),
        ),
        "kvcache of a pair": (lambda q, c, t: aiter.flash_attn_with_kvcache(q, (c, c), t, 8), (q, cache, table)),
        "kvcache of one length": (
            lambda q, c, t: aiter.flash_attn_with_kvcache(q, torch.stack([c, c]), t, 8, seq_lengths=20),
            (q, cache, table),
        ),
        "grouped": (lambda q, k, v: aiter.grouped_query_attention(q, k, v, 2), (q, k, v)),
        "multi": (lambda q, k: aiter.multi_query_attention(q, k, k, True), (q, k[:, :, :1])),
        "variable": (lambda *x: aiter.variable_length_attention(*x, 12), (q_nan, k, v, short)),
        "variable, bounded": (lambda *x: aiter.variable_length_attention(*x, 7), (q, k, v, long)),
        "variable, head_dim 40": (
            lambda q, n: aiter.variable_length_attention(q, q, q, n, 12),
            (made(2, 12, 4, 40), short),
        ),
    }


@pytest.mark.parametrize("case", list(compiled_cases()))
def test_compiled_whole(case):
    pytest.importorskip("gqa.torch", reason="compiled whole needs PyTorch 2.10")
    call, tensors = compiled_cases()[case]
    expected, found = call(*tensors), torch.compile(call, fullgraph=True, backend="aot_eager")(*tensors)
    torch.testing.assert_close(found, expected, rtol=0, atol=4e-3)
    assert found.isfinite().all()


def test_compiled_for_any_length():
    """One compilation serves batches of other sizes."""
    pytest.importorskip("gqa.torch", reason="compiled whole needs PyTorch 2.10")
    compiled = torch.compile(
        lambda x, n: aiter.variable_length_attention(x, x, x, n, x.shape[1]),
        fullgraph=True,
        backend="aot_eager",
        dynamic=True,
    )
    for tokens in (12, 16, 20):
        x, lengths = made(2, tokens, 2, 64), torch.tensor([tokens, 5])
        expected = aiter.variable_length_attention(x, x, x, lengths, tokens)
        torch.testing.assert_close(compiled(x, lengths), expected, rtol=0, atol=4e-3)


def test_refused_as_it_is_compiled():
    pytest.importorskip("gqa.torch", reason="compiled whole needs PyTorch 2.10")
    q, k = made(2, 12, 4, 64), made(2, 12, 2, 64)
    with pytest.raises(Exception, match="num_groups is 4, but query has 4 heads and key 2; expected 2"):
        torch.compile(lambda q, k: aiter.grouped_query_attention(q, k, k, 4), fullgraph=True, backend="eager")(q, k)


def test_traced():
    pytest.importorskip("gqa.torch", reason="tracing needs PyTorch 2.10")
    from torch.fx.experimental.proxy_tensor import make_fx

    x, lengths = made(2, 12, 2, 64), torch.tensor([12, 5], dtype=torch.int32)

    def call(x, n):
        return aiter.variable_length_attention(x, x, x, n, 12)

    traced = make_fx(call, tracing_mode="fake")(x, lengths)
    assert torch.ops.gqa.varlen.default in {node.target for node in traced.graph.nodes}
    torch.testing.assert_close(traced(x, lengths), call(x, lengths), rtol=0, atol=4e-3)


def test_gradients_are_refused():
    q, cache = made(2, 12, 2, 64).requires_grad_(), made(3, 2, 8, 64)
    lengths, table = torch.tensor([12, 5], dtype=torch.int32), torch.zeros(2, 1, dtype=torch.int32)
    one = q[:, :, :1]
    for call in (
        lambda: aiter.flash_attn_func(q, q, q),
        lambda: aiter.grouped_query_attention(q, q, q, 1),
        lambda: aiter.multi_query_attention(q, one, one),
        lambda: aiter.variable_length_attention(q, q, q, lengths, 12),
    ):
        with pytest.raises(gqa.GqaValueError, match="an input requires a gradient"):
            call()
        with torch.no_grad():
            assert call().shape == q.shape
    out = aiter.flash_attn_with_kvcache(q, cache, table, 8)
    with pytest.raises(NotImplementedError, match="gqa computes no gradients"):
        out.sum().backward()


def test_under_autocast():
    pytest.importorskip("gqa.torch", reason="autocast needs PyTorch 2.10")
    x, lengths = made(2, 12, 2, 64, dtype=torch.float32), torch.tensor([12, 5], dtype=torch.int32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        out = aiter.variable_length_attention(x, x, x, lengths, 12)
        dense = aiter.flash_attn_func(x, x, x)
    assert out.dtype is dense.dtype is torch.bfloat16 and (out[1, 5:] == 0).all()
    check(numbers(out[1:, :5]), float64(x[1:, :5], x[1:, :5], x[1:, :5]), 3e-2)
    check(numbers(dense), float64(x, x, x), 3e-2)


def test_a_pytorch_without_operators(monkeypatch):
    """As one older than 2.10: its tensors are a framework's like any other."""
    monkeypatch.setattr(gqa._modes, "_torch", None)
    x, lengths = made(3, 12, 2, 64), torch.tensor([12, 0, 5])
    out = aiter.variable_length_attention(x, x, x, lengths, 12)
    assert (out[1] == 0).all() and (out[2, 5:] == 0).all()
    check(numbers(out[2:, :5]), float64(*[x[2:, :5]] * 3))
    check(numbers(aiter.flash_attn_func(x, x, x)), float64(x, x, x))
    table = torch.tensor([[1], [0], [2]], dtype=torch.int32)
    tokens = x[[1, 0, 2]]
    out = aiter.flash_attn_with_kvcache(x, x.transpose(1, 2), table, 12, causal=False)
    check(numbers(out), float64(x, tokens, tokens))
