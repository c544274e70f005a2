"""FlashAttention's names with PyTorch's tensors: what its Python layer does to them, bert_padding, torch.compile,
gradients, and the libraries that import these names."""

import gqa
import gqa.flash_attn as two
import gqa.flash_attn_cute as four
import gqa.flash_attn_interface as three
import pytest

from conftest import attention_float64, check, run_python

torch = pytest.importorskip("torch", reason="test_flash_names_torch.py needs PyTorch")

from gqa.flash_attn import bert_padding  # noqa: E402
from torch_tensors import each_device, made, numbers  # noqa: E402


def float64(q, k, v, **mask):
    return attention_float64(*map(numbers, (q, k, v)), **mask)


# ---- tensors


@each_device
@pytest.mark.parametrize("head_dim", [8, 40, 72, 160, 248])
def test_head_dims_between_those_of_kernels(head_dim, device):
    q, k, v = made(2, 12, 4, head_dim, device=device), *(
        made(2, 20, 2, head_dim, device=device, seed=s) for s in (1, 2)
    )
    expected, expected_lse = float64(q, k, v, causal=True)
    out, lse, _ = two.flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    check(numbers(out), expected)
    check(numbers(lse), expected_lse)
    check(numbers(three.flash_attn_func(q, k, v, 0.2, True)), float64(q, k, v, causal=True, scale=0.2)[0])


@each_device
def test_a_head_dim_of_values_alone(device):
    q, k, v = (
        made(1, 12, 2, 64, device=device),
        made(1, 12, 2, 64, device=device, seed=1),
        made(1, 12, 2, 40, device=device),
    )
    out, lse = four.flash_attn_func(q, k, v, return_lse=True)
    expected, expected_lse = float64(q, k, v)
    check(numbers(out), expected)
    check(numbers(lse), expected_lse)


def test_head_dims_above_those_of_kernels():
    q = made(1, 4, 2, 264)
    with pytest.raises(gqa.GqaValueError, match="head_dim is 264"):
        two.flash_attn_func(q, q, q)


@each_device
def test_rows_that_are_not_contiguous(device):
    q, k, v = (made(2, 12, 64, 4, device=device, seed=seed).transpose(-1, -2) for seed in range(3))
    assert q.stride(-1) != 1
    expected = float64(q, k, v, causal=True)[0]
    check(numbers(two.flash_attn_func(q, k, v, causal=True)), expected)
    check(numbers(three.flash_attn_func(q, k, v, None, True)), expected)
    check(numbers(four.flash_attn_func(q, k, v, causal=True)[0]), expected)


@each_device
def test_words_of_empty_rows(device):
    q, k, v = made(1, 5, 2, 64, device=device), *(made(1, 3, 2, 64, device=device, seed=s) for s in (1, 2))
    out, lse, mask = two.flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    assert (lse[..., :2] == float("inf")).all() and lse[..., 2:].isfinite().all() and (out[:, :2] == 0).all()
    assert mask.shape == (0,) and mask.dtype == q.dtype and mask.device == q.device
    assert (three.flash_attn_func(q, k, v, None, True, return_attn_probs=True)[1][..., :2] == -float("inf")).all()
    results = three.flash_attn_with_kvcache(q, k, v, causal=True, return_softmax_lse=True)
    assert len(results) == 4 and all(x.shape == (0,) and x.dtype == torch.float32 for x in results[2:])
    sink = made(2, device=device, dtype=torch.bfloat16)
    lse = four.flash_attn_func(q, k, v, causal=True, learnable_sink=sink, return_lse=True)[1]
    assert torch.equal(lse[0, :, 0], sink.float())


@each_device
def test_combine(device):
    outs, lses = made(3, 2, 5, 4, 64, device=device, dtype=torch.float32), made(
        3, 2, 5, 4, device=device, dtype=torch.float32
    )
    lses[0, 0, 0] = -float("inf")
    out, lse = three.flash_attn_combine(outs, lses)
    expected = (torch.softmax(lses, 0)[..., None] * outs).sum(0)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(lse, lses.logsumexp(0))
    half = three.flash_attn_combine(outs, lses, out_dtype=torch.bfloat16)[0]
    assert half.dtype is torch.bfloat16 and torch.equal(half, out.bfloat16())
    written = torch.empty_like(half)
    assert three.flash_attn_combine(outs, lses, written, torch.bfloat16)[0] is written and torch.equal(written, half)


# ---- compilers, gradients


def compiled_cases():
    q, k, v = made(2, 12, 4, 64), *(made(2, 12, 2, 64, seed=s) for s in (1, 2))
    starts = torch.tensor([0, 5, 12], dtype=torch.int32)
    packed = (made(12, 4, 64), made(12, 2, 64), made(12, 2, 64, seed=1), starts)
    lengths = torch.tensor([9, 12], dtype=torch.int32)
    return {
        "2 func": (lambda q, k, v: two.flash_attn_func(q, k, v, causal=True, return_attn_probs=True), (q, k, v)),
        "2 head_dim 40": (lambda q: two.flash_attn_func(q, q, q), (made(1, 8, 2, 40),)),
        "2 qkvpacked": (lambda x: two.flash_attn_qkvpacked_func(x, causal=True), (made(2, 12, 3, 4, 64),)),
        "2 varlen": (lambda q, k, v, at: two.flash_attn_varlen_func(q, k, v, at, at, 7, 7, causal=True), packed),
        "2 kvcache": (
            lambda q, k, v, n: two.flash_attn_with_kvcache(q, k, v, cache_seqlens=n, return_softmax_lse=True),
            (q[:, :1], k, v, lengths),
        ),
        "3 func": (lambda q, k, v: three.flash_attn_func(q, k, v, 0.2, True, return_attn_probs=True), (q, k, v)),
        "3 kvcache": (
            lambda q, k, v, n: three.flash_attn_with_kvcache(q, k, v, cache_seqlens=n, return_softmax_lse=True),
            (q[:, :1], k, v, lengths),
        ),
        "4 func": (
            lambda q, k, v, s: four.flash_attn_func(q, k, v, causal=True, learnable_sink=s, return_lse=True),
            (q, k, v, made(4)),
        ),
        "4 varlen": (lambda q, k, v, at: four.flash_attn_varlen_func(q, k, v, None, at, at, 7, 7)[0], packed),
    }


@pytest.mark.parametrize("case", list(compiled_cases()))
def test_compiled_whole(case):
    pytest.importorskip("gqa.torch", reason="compiled whole needs PyTorch 2.10")
    call, tensors = compiled_cases()[case]
    expected, found = call(*tensors), torch.compile(call, fullgraph=True, backend="aot_eager")(*tensors)
    torch.testing.assert_close(found, expected, rtol=0, atol=4e-3)


def test_gradients_are_refused():
    q = made(1, 4, 2, 64).requires_grad_()
    for function in (two.flash_attn_func, three.flash_attn_func, four.flash_attn_func):
        with pytest.raises(gqa.GqaValueError, match="an input requires a gradient"):
            function(q, q, q)
    starts = torch.tensor([0, 4], dtype=torch.int32)
    out = two.flash_attn_varlen_func(q[0], q[0], q[0], starts, starts, 4, 4)
    with pytest.raises(NotImplementedError, match="gqa computes no gradients"):
        out.sum().backward()


# ---- bert_padding

MASK = torch.tensor([[1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]])


@each_device
def test_unpad_and_pad(device):
    hidden = made(3, 4, 2, 8, device=device)
    rows, indices, starts, most, used = bert_padding.unpad_input(hidden, MASK.to(device))
    assert torch.equal(rows, hidden[MASK.to(device).bool()]) and indices.tolist() == [0, 1, 2, 5, 6]
    assert (starts.tolist(), most, used.tolist()) == ([0, 3, 5, 5], 3, [3, 2, 0])
    assert starts.dtype is used.dtype is torch.int32 and isinstance(most, int) and starts.device == hidden.device
    padded = bert_padding.pad_input(rows, indices, 3, 4)
    assert torch.equal(padded, hidden * MASK.to(device, hidden.dtype)[..., None, None])


def test_unpad_with_rows_that_are_kept_unused():
    hidden, unused = made(3, 4, 8), torch.tensor([[0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]])
    rows, indices, starts, most, used = bert_padding.unpad_input(hidden, MASK, unused)
    assert indices.tolist() == [0, 1, 2, 3, 5, 6, 8, 9] and torch.equal(rows, hidden.flatten(0, 1)[indices])
    assert (starts.tolist(), most, used.tolist()) == ([0, 4, 6, 8], 4, [3, 2, 0])


def test_unpad_of_concatenated_sequences():
    hidden = made(2, 6, 8)
    lengths = torch.tensor([[2, 3, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0]])
    rows, indices, starts, most = bert_padding.unpad_input_for_concatenated_sequences(hidden, lengths)
    assert torch.equal(rows, torch.cat([hidden[0, :5], hidden[1]])) and indices.tolist() == [*range(5), *range(6, 12)]
    assert (starts.tolist(), most, starts.dtype) == ([0, 2, 5, 11], 6, torch.int32)


def test_padding_is_differentiable():
    hidden = made(3, 4, 8, dtype=torch.float64).requires_grad_()

    def there_and_back(x):
        rows, indices, *_ = bert_padding.unpad_input(x, MASK)
        return bert_padding.pad_input(rows**2, indices, 3, 4)

    assert torch.autograd.gradcheck(there_and_back, (hidden,))


def test_a_padded_batch_by_its_packed_sequences():
    """As Transformers does it: unpad, attend, pad."""
    q, k, v = (made(3, 4, 2, 64, seed=seed) for seed in range(3))
    (q_rows, indices, starts, most, _), *rest = (bert_padding.unpad_input(x, MASK) for x in (q, k, v))
    out = two.flash_attn_varlen_func(q_rows, rest[0][0], rest[1][0], starts, starts, most, most, causal=True)
    padded = bert_padding.pad_input(out, indices, 3, 4)
    for row, (a, b) in enumerate([(0, 3), (1, 3)]):
        check(numbers(padded[row : row + 1, a:b]), float64(*(x[row : row + 1, a:b] for x in (q, k, v)), causal=True)[0])
    assert (padded[2] == 0).all() and (padded[0, 3] == 0).all()


# ---- libraries beside these names

LIBRARIES = ("transformers", "accelerate", "diffusers")


@pytest.fixture(scope="module")
def bytecode(tmp_path_factory):
    """Where these libraries' bytecode goes, so that the second process need not compile them again."""
    return {"PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("bytecode")), "PYTHONDONTWRITEBYTECODE": ""}


@pytest.mark.parametrize("metadata", [False, True])
def test_libraries_import_beside_it(metadata, bytecode):
    for library in LIBRARIES:
        pytest.importorskip(library, reason=f"what imports flash_attn beside torch: {library} is missing")
    code = f"""
import gqa
gqa.install_as("flash_attn", metadata={metadata})
gqa.install_as("flash_attn_interface", metadata={metadata})
import flash_attn
import transformers, accelerate, diffusers
from transformers import LlamaConfig, LlamaForCausalLM
from accelerate import Accelerator
from diffusers.models import attention_dispatch
from transformers.modeling_flash_attention_utils import FLASH_ATTENTION_COMPATIBILITY_MATRIX as matrix
config = LlamaConfig(hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, vocab_size=32)
assert LlamaForCausalLM(config).config._attn_implementation == "sdpa"
print(matrix[2]["pkg_availability_check"](), matrix[3]["pkg_availability_check"]())
print(attention_dispatch.flash_attn_func is flash_attn.flash_attn_func)
"""
    said = run_python(code, seconds=400, **bytecode)
    assert said.split() == [str(metadata)] * 3
