"""FlashAttention-2's stand-in, which the accuracy tests hold kernels against (accuracy_kernels.h), beside PyTorch's
FlashAttention-2: beside float64 their errors are alike, in norm within 2 % and in the largest element within a third.
Prints both ratios.
"""

import pytest

torch = pytest.importorskip("torch", reason="test_stand_in.py needs PyTorch")

SEEDS = 5


def normal_inputs(head_dim, deviation, dtype, seed, heads=2, length=2048):
    generator = torch.Generator("cuda").manual_seed(seed)

    def normal(size):
        return torch.randn((1, heads, length, head_dim), device="cuda", generator=generator).mul_(size).to(dtype)

    return normal(deviation), normal(1), normal(1)


def masked(scores, causal):
    rows, keys = scores.shape[-2:]
    hidden = torch.ones(rows, keys, dtype=torch.bool, device="cuda").triu(1)
    return scores.masked_fill(hidden, float("-inf")) if causal else scores


def float64(q, k, v, causal):
    scores = q.double() @ k.double().transpose(2, 3) * q.shape[3] ** -0.5
    return masked(scores, causal).softmax(-1) @ v.double()


def stand_in(q, k, v, causal):
    """Blocks of keys from the last down under a running maximum, in float32; weights rounded to the element for the
    second product, the sum of unrounded ones."""
    scores = masked(q.float() @ k.float().transpose(2, 3) * q.shape[3] ** -0.5, causal)
    block = 128 if q.shape[3] <= 64 else 64
    maximum = torch.full_like(scores[..., :1], -1e30)
    out, total = torch.zeros_like(q, dtype=torch.float32), torch.zeros_like(maximum)
    for first in reversed(range(0, k.shape[2], block)):
        part = scores[..., first : first + block]
        before, maximum = maximum, torch.maximum(maximum, part.amax(-1, keepdim=True))
        weights, rescale = (part - maximum).exp(), (before - maximum).exp()
        out = out * rescale + weights.to(q.dtype).float() @ v[:, :, first : first + block].float()
        total = total * rescale + weights.sum(-1, keepdim=True)
    return (out / total).to(q.dtype)


def flash_attention_2(q, k, v, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def errors(out, expected):
    error = (out.double() - expected).abs()
    return float(error.square().sum().sqrt()), float(error.max())


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("deviation", [1, 2, 4, 8])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_stand_in_is_as_exact_as_flash_attention_2(head_dim, deviation, dtype, causal, capsys):
    torch.backends.cuda.matmul.allow_tf32 = False
    ratios = []
    for seed in range(SEEDS):
        inputs = normal_inputs(head_dim, deviation, dtype, seed)
        expected = float64(*inputs, causal)
        norm, worst = errors(stand_in(*inputs, causal), expected)
        their_norm, their_worst = errors(flash_attention_2(*inputs, causal), expected)
        ratios.append((norm / their_norm, worst / their_worst))
    norm, worst = (sorted(each)[SEEDS // 2] for each in zip(*ratios))
    with capsys.disabled():
        print(f"\nd={head_dim} deviation={deviation} {dtype} causal={causal}: norm {norm:.4f}, largest {worst:.3f}")
    assert 0.98 < norm < 1.02
    assert 0.75 < worst < 1.34
