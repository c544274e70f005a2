"""What tests of layers share: how far a layer's numbers may be from those of float64, and a layer's projections, norms
and rotation written out in float64. Imported once PyTorch is known to be there."""

import gqa
import pytest
import torch

each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)


@pytest.fixture(autouse=True)
def guessed():
    """A layer meets more shapes than a test could tune."""
    gqa.configure(tuning="guess")
    yield
    gqa.configure(tuning=None)


UNITS = {
    torch.float32: 32,
    torch.float16: 6,
    torch.bfloat16: 4,
}  # a sum of float32's has more roundings than a 16-bit one


def close(found, expected, times=1):
    """Within so many units in the last place of the largest number, times `times`: rounded a few times on the way."""
    assert found.shape == expected.shape
    error = float((found.double().cpu() - expected.double().cpu()).abs().max() / expected.abs().max())
    units = error / torch.finfo(found.dtype).eps
    assert units <= times * UNITS[found.dtype], f"{units:.1f} units of {found.dtype}, {error:.2e} of the largest"


def weights_of(module):
    """Its state dict in float64, on the CPU."""
    return {name: x.detach().double().cpu() for name, x in module.state_dict().items()}


def randomised(module, seed=0):
    """Its parameters as a trained one's: none is 0 or 1. Projections keep the size of what they are given."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            scale = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.3
            drawn = torch.randn(parameter.shape, generator=generator) * scale
            parameter.copy_(drawn + (1.0 if parameter.dim() == 1 and bool((parameter == 1).all()) else 0.0))
    return module


def attention64(q, k, v, *, causal=True, window=(-1, -1), scale=None, softcap=0.0, sinks=None, key_of=None):
    """q (batch, heads, n, d), k and v (batch, kv_heads, m, ...), float64, one head after another. key_of: the key head
    of a query head; by default neighbours share one."""
    heads, kv_heads, n, m = q.shape[1], k.shape[1], q.shape[2], k.shape[2]
    key_of = key_of or (lambda head: head // (heads // kv_heads))
    past = torch.arange(m)[None, :] - (torch.arange(n) + m - n)[:, None]
    right = 0 if causal else window[1]
    hidden = torch.zeros(n, m, dtype=torch.bool)
    if right >= 0:
        hidden |= past > right
    if window[0] >= 0:
        hidden |= past < -window[0]
    out = []
    for head in range(heads):
        scores = q[:, head] @ k[:, key_of(head)].transpose(1, 2) * (q.shape[3] ** -0.5 if scale is None else scale)
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        scores = scores.masked_fill(hidden, -torch.inf)
        if sinks is not None:
            scores = torch.cat([scores, sinks[head].expand(*scores.shape[:2], 1)], -1)
        out.append(scores.softmax(-1)[..., :m] @ v[:, key_of(head)])
    return torch.stack(out, 1)


def turned64(x, rope):
    """x (batch, heads, n, d), from place 0 on."""
    dims = rope.dims
    pairs = torch.arange(dims // 2, dtype=torch.float64)
    speeds = rope.base ** (-2 * pairs / dims) if rope.frequencies is None else rope.frequencies
    angles = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * speeds
    a, b = (x[..., 0:dims:2], x[..., 1:dims:2]) if rope.interleaved else (x[..., : dims // 2], x[..., dims // 2 : dims])
    first, second = a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()
    both = torch.stack([first, second], -1).flatten(-2) if rope.interleaved else torch.cat([first, second], -1)
    return torch.cat([both, x[..., dims:]], -1)


def layer64(layer, x, **scores):
    """The layer of these weights, on x (batch, n, dim)."""
    w, x = weights_of(layer), x.double().cpu()

    def heads_of(name, heads):
        return (x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)).unflatten(2, (heads, -1)).transpose(1, 2)

    q, k, v = (heads_of(f"{n}_proj", layer.heads if n == "q" else layer.kv_heads) for n in "qkv")
    if "q_norm.weight" in w:
        q, k = (
            y * (y.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w[f"{name}_norm.weight"]
            for name, y in (("q", q), ("k", k))
        )
    if layer.rope is not None:
        q, k = turned64(q, layer.rope), turned64(k, layer.rope)
    out = attention64(q, k, v, sinks=w.get("sinks"), **scores).transpose(1, 2).flatten(2)
    return out @ w["o_proj.weight"].T + w.get("o_proj.bias", 0)
