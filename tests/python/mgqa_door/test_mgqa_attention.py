"""gqa.mgqa.attention: plain attention head by head, by the arguments of mgqa.mgqa_triton, against float64, and what is
refused."""

import inspect

import gqa
import pytest

torch = pytest.importorskip("torch", reason="test_mgqa_attention.py needs PyTorch")

from gqa.mgqa import attention  # noqa: E402
from torch_layers import attention64, close, each_dtype, guessed  # noqa: E402, F401
from torch_tensors import each_device, made  # noqa: E402

SHAPE = (10, 8, 16, 64)  # of the page's example


def qkv(*shape, dtype=torch.bfloat16, device="cpu"):
    return [made(*shape, seed=seed, dtype=dtype, device=device) for seed in range(3)]


def expected(q, k, v, causal, scale):
    return attention64(*(x.detach().double().cpu() for x in (q, k, v)), causal=causal, scale=scale)


def test_signature():
    assert list(inspect.signature(attention).parameters) == ["q", "k", "v", "causal", "sm_scale", "num_groups"]


@each_device
@each_dtype
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [16, 32, 64, 128])
def test_of_the_page(head_dim, causal, dtype, device):
    """Its shape, its scale and its head dims."""
    q, k, v = qkv(10, 8, 16, head_dim, dtype=dtype, device=device)
    out = attention(q, k, v, causal, 0.1, 4)
    assert out.dtype is dtype and out.device == q.device
    close(out, expected(q, k, v, causal, 0.1))


@pytest.mark.parametrize("num_groups", [1, 2, 4, 8])
def test_groups_change_no_number(num_groups):
    q, k, v = qkv(*SHAPE)
    assert torch.equal(attention(q, k, v, True, 0.1, num_groups), attention(q, k, v, True, 0.1, 1))


def test_no_scale_is_the_usual_one():
    q, k, v = qkv(*SHAPE)
    close(attention(q, k, v, False, None, 4), expected(q, k, v, False, 1 / 8))


def test_of_any_strides():
    q, k, v = (x.transpose(1, 2) for x in qkv(2, 16, 8, 64))
    close(attention(q, k, v, True, 0.1, 4), expected(q, k, v, True, 0.1))


@pytest.mark.parametrize("who", [0, 1, 2])
def test_the_forward_runs_and_the_backward_raises(who):
    tensors = qkv(*SHAPE)
    plain = attention(*tensors, False, 0.1, 4)
    tensors[who].requires_grad_()
    out = attention(*tensors, False, 0.1, 4)
    assert torch.equal(out, plain)
    with pytest.raises(NotImplementedError, match="gqa computes no gradients"):
        out.sum().backward()


def test_compiled_whole():
    pytest.importorskip("gqa.torch", reason="compiled whole needs PyTorch 2.10")
    q, k, v = qkv(*SHAPE)
    compiled = torch.compile(lambda q, k, v: attention(q, k, v, True, 0.1, 4), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k, v), attention(q, k, v, True, 0.1, 4), rtol=0, atol=4e-3)


@pytest.mark.parametrize(
    "change,said",
    [
        ({"num_groups": 3}, "num_groups is 3, but q has 8 heads; expected a divisor of 8"),
        ({"num_groups": 16}, "num_groups is 16, but q has 8 heads"),
        ({"num_groups": 0}, "num_groups is 0; expected 1 to"),
        ({"num_groups": 2.0}, "num_groups is 2.0; expected a whole number"),
        ({"sm_scale": 0.0}, "sm_scale is 0.0; expected a number above 0"),
        ({"causal": "no"}, "causal is 'no'; expected True or False"),
        ({"k": made(10, 2, 16, 64)}, r"k is \(10, 2, 16, 64\) and q \(10, 8, 16, 64\); expected one shape"),
        ({"v": made(10, 8, 16, 32)}, r"v is \(10, 8, 16, 32\) and q"),
        ({"k": made(8, 16, 64)}, r"k has 3 dimensions, \(8, 16, 64\); expected 4: \(batch, heads, tokens, head_dim\)"),
        ({"q": None}, r"q is a NoneType; expected a torch.Tensor \(batch, heads, tokens, head_dim\)"),
        ({"v": made(*SHAPE).double()}, "v is float64"),
        ({"v": made(*SHAPE, dtype=torch.float32)}, "v is float32, but q is bfloat16"),
    ],
)
def test_what_is_refused(change, said):
    q, k, v = qkv(*SHAPE)
    given = {"q": q, "k": k, "v": v, "causal": False, "sm_scale": 0.1, "num_groups": 4, **change}
    with pytest.raises((gqa.GqaValueError, gqa.GqaTypeError), match=said):
        attention(**given)
