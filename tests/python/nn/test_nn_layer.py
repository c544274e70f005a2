"""gqa.nn.GroupedQueryAttention without a cache: each option against the layer written out in float64, gradients,
compilers, and what is refused."""

import gqa
import pytest

torch = pytest.importorskip("torch", reason="test_nn_layer.py needs PyTorch")

import gqa.nn  # noqa: E402
from torch_layers import close, each_dtype, guessed, layer64, randomised  # noqa: E402, F401
from torch_tensors import each_device, made  # noqa: E402

DIM, HEADS, KV_HEADS, WIDTH = 128, 6, 2, 32
LAYER = {"dim": DIM, "heads": HEADS, "kv_heads": KV_HEADS, "head_dim": WIDTH}


def a_rope():
    """A new one for each layer, with which it is cast."""
    return gqa.nn.Rope(WIDTH, 64)


def layer_of(**options):
    made = {name: value() if callable(value) else value for name, value in options.items()}
    return randomised(gqa.nn.GroupedQueryAttention(**{**LAYER, **made}))


each_rope = pytest.mark.parametrize("rope", [None, a_rope], ids=["plain", "rope"])

OPTIONS = {  # of the layer, and what they are to its scores
    "causal": ({}, {}),
    "all keys": ({"causal": False}, {"causal": False}),
    "as many key heads": ({"kv_heads": None}, {}),
    "one key head": ({"kv_heads": 1}, {}),
    "rope": ({"rope": a_rope}, {}),
    "rope of neighbours": ({"rope": lambda: gqa.nn.Rope(WIDTH, 64, base=500.0, interleaved=True)}, {}),
    "rope of half the head": ({"rope": lambda: gqa.nn.Rope(16, 64)}, {}),
    "rope of speeds": ({"rope": lambda: gqa.nn.Rope(WIDTH, 64, frequencies=[0.5**i for i in range(16)])}, {}),
    "norms": ({"qk_norm": True}, {}),
    "norms and rope": ({"qk_norm": True, "rope": a_rope}, {}),
    "window": ({"window": 5}, {"window": (4, 0)}),
    "window to both sides": ({"window": 5, "causal": False}, {"window": (4, 4), "causal": False}),
    "window of sides": ({"window": (None, 3), "causal": False}, {"window": (-1, 3), "causal": False}),
    "window and rope": ({"window": 5, "rope": a_rope}, {"window": (4, 0)}),
    "softcap": ({"softcap": 1.5}, {"softcap": 1.5}),
    "sinks": ({"sinks": True}, {}),
    "sinks and rope": ({"sinks": True, "rope": a_rope}, {}),
    "scale": ({"scale": 0.7}, {"scale": 0.7}),
    "biases": ({"bias": True}, {}),
    "bias of the first three": ({"bias": True, "out_bias": False}, {}),
    "wider values": ({"head_dim_v": 64}, {}),
}


@each_device
@each_dtype
@pytest.mark.parametrize("name", OPTIONS)
def test_options(name, dtype, device):
    options, scores = OPTIONS[name]
    layer = layer_of(**options).to(device, dtype)
    x = made(2, 18, DIM, device=device, dtype=dtype)
    with torch.no_grad():
        out = layer(x)
    assert out.dtype is dtype and out.device == x.device
    close(out, layer64(layer, x, **scores))


def test_options_show():
    """The float64 layer tells each option from its absence; else a layer without it would pass above."""
    plain = layer_of()
    x = made(2, 18, DIM, dtype=torch.float32)
    expected = layer64(plain, x)
    for name, (options, scores) in OPTIONS.items():
        if name not in ("causal", "as many key heads", "one key head", "wider values"):
            layer = layer_of(**options)
            layer.load_state_dict(plain.state_dict(), strict=False)
            assert (layer64(layer, x, **scores) - expected).abs().max() > 0.01 * expected.abs().max(), name


@each_rope
def test_x_of_any_strides_and_one_token(rope):
    layer = layer_of(rope=rope).bfloat16()
    x = made(18, 2, DIM, dtype=torch.bfloat16).transpose(0, 1)
    with torch.no_grad():
        close(layer(x), layer64(layer, x))
        close(layer(x[:, :1]), layer64(layer, x[:, :1]))


def test_head_dim_follows_from_dim():
    layer = gqa.nn.GroupedQueryAttention(256, 4, 2)
    assert layer.head_dim == 64 and layer.k_proj.weight.shape == (128, 256) and layer.o_proj.weight.shape == (256, 256)


# ---- where parameters are


def test_made_on_meta_and_filled_later():
    like = layer_of(rope=a_rope, sinks=True).bfloat16()
    options = {**LAYER, "rope": a_rope(), "sinks": True}
    layer = gqa.nn.GroupedQueryAttention(**options, device="meta", dtype=torch.bfloat16).to_empty(device="cpu")
    with torch.no_grad():
        for x in (*layer.parameters(), *layer.buffers()):
            x.fill_(torch.nan)
    layer.reset_parameters()
    layer.rope.reset_parameters()
    assert (layer.sinks == 0).all()
    layer.load_state_dict(like.state_dict())
    x = made(1, 8, DIM, dtype=torch.bfloat16)
    with torch.no_grad():
        assert torch.equal(layer(x), like(x))


def test_layers_share_a_rope():
    """One pair of tables for all, also once they are moved and cast."""
    rope = a_rope()
    layers = torch.nn.ModuleList([gqa.nn.GroupedQueryAttention(**LAYER, rope=rope) for _ in range(3)]).half()
    assert all(layer.rope.cos is rope.cos and layer.rope.sin is rope.sin for layer in layers)
    assert rope.cos.dtype is torch.float16 and sum(1 for _ in layers.buffers()) == 2
    assert not any("rope" in name for name in layers.state_dict())


def test_far_positions_are_exact():
    rope = gqa.nn.Rope(32, 200_001)
    angle = torch.tensor(200_000 * 10000.0 ** (-2 / 32), dtype=torch.float64)
    assert abs(rope.cos[-1, 1].double() - angle.cos()) < 1e-7 and abs(rope.sin[-1, 1].double() - angle.sin()) < 1e-7


# ---- gradients

GRADIENTS = {  # what wants one
    "all": lambda layer, x: layer.requires_grad_(),
    "x": lambda layer, x: x.requires_grad_(),
    "keys": lambda layer, x: layer.k_proj.requires_grad_(),
    "values": lambda layer, x: layer.v_proj.requires_grad_(),
    "sinks": lambda layer, x: layer.sinks.requires_grad_(),
}


@each_rope
@pytest.mark.parametrize("who", GRADIENTS)
def test_the_forward_runs_and_the_backward_raises(who, rope):
    layer = layer_of(rope=rope, sinks=True).bfloat16().requires_grad_(False)
    x = made(1, 8, DIM, dtype=torch.bfloat16)
    plain = layer(x)
    assert not plain.requires_grad
    GRADIENTS[who](layer, x)
    out = layer(x)
    assert torch.equal(out, plain)
    with pytest.raises(NotImplementedError, match="gqa computes no gradients"):
        out.sum().backward()
    with torch.no_grad():
        assert not layer(x).requires_grad


@each_rope
def test_of_the_last_projection_there_are_gradients(rope):
    """It comes after attention, and is PyTorch's."""
    layer = layer_of(rope=rope).bfloat16().requires_grad_(False)
    layer.o_proj.requires_grad_()
    layer(made(1, 8, DIM, dtype=torch.bfloat16)).sum().backward()
    assert layer.o_proj.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("who", ["all", "keys", "sinks"])
@each_rope
def test_gradients_are_refused_as_it_is_compiled(who, rope):
    pytest.importorskip("gqa.torch", reason="compiled whole needs PyTorch 2.10")
    layer = layer_of(rope=rope, sinks=True).bfloat16().requires_grad_(False)
    x = made(1, 8, DIM, dtype=torch.bfloat16)
    GRADIENTS[who](layer, x)
    with pytest.raises(Exception, match="an input requires a gradient"):
        torch.compile(layer, fullgraph=True, backend="aot_eager")(x)


# ---- compilers, autocast


@pytest.mark.parametrize("name", ["causal", "rope", "norms and rope", "sinks", "window and rope", "softcap"])
def test_compiled_whole(name):
    pytest.importorskip("gqa.torch", reason="compiled whole needs PyTorch 2.10")
    layer = layer_of(**OPTIONS[name][0]).bfloat16()
    x = made(2, 18, DIM, dtype=torch.bfloat16)
    with torch.no_grad():
        found = torch.compile(layer, fullgraph=True, backend="aot_eager")(x)
        torch.testing.assert_close(found, layer(x), rtol=0, atol=4e-3)


def test_under_autocast():
    pytest.importorskip("gqa.torch", reason="autocast needs PyTorch 2.10")
    layer = layer_of(rope=a_rope)
    x = made(2, 18, DIM, dtype=torch.float32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        out = layer(x)
    assert out.dtype is torch.bfloat16
    close(out, layer64(layer, x), times=2)


# ---- what is refused


@pytest.mark.parametrize(
    "options,said",
    [
        ({"kv_heads": 4}, "kv_heads is 4 and heads 6; expected a divisor of heads"),
        ({"head_dim": None}, "dim is 128 and heads 6; expected a multiple of heads, or head_dim by name"),
        ({"heads": 0}, "heads is 0; expected 1 to"),
        ({"rope": 10000.0}, r"rope is 10000.0; expected a gqa.nn.Rope"),
        ({"rope": gqa.nn.Rope(48, 8)}, "rope turns 48 dimensions; expected at most 32, which is head_dim"),
        ({"window": 0}, "window is 0; expected 1 to"),
        ({"window": (1, 2, 3)}, r"window is \(1, 2, 3\); expected two numbers"),
        ({"scale": -1.0}, "scale is -1.0; expected a number above 0"),
        ({"softcap": -1.0}, "softcap is -1.0; expected a number above 0"),
        ({"causal": "yes"}, "causal is 'yes'; expected True or False"),
    ],
)
def test_a_layer_that_cannot_be(options, said):
    with pytest.raises((gqa.GqaValueError, gqa.GqaTypeError), match=said):
        gqa.nn.GroupedQueryAttention(**{**LAYER, **options})


def test_a_rope_that_cannot_be():
    for args, options, said in (
        ((31, 8), {}, "dims is 31; expected an even number"),
        ((32, 0), {}, "positions is 0; expected 1 to"),
        ((32, 8, "far"), {}, "base is 'far'; expected a number"),
        (
            (32, 8),
            {"frequencies": [1.0]},
            r"frequencies is \(1,\); expected \(16,\), one for each pair of 32 dimensions",
        ),
    ):
        with pytest.raises((gqa.GqaValueError, gqa.GqaTypeError), match=said):
            gqa.nn.Rope(*args, **options)


def test_inputs_that_do_not_fit():
    layer = gqa.nn.GroupedQueryAttention(**LAYER, rope=gqa.nn.Rope(WIDTH, 16)).bfloat16()
    for shape in ((2, 18, 64), (18, DIM), (1, 2, 18, DIM)):
        with pytest.raises(gqa.GqaValueError, match=r"x is \(.*\); expected \(batch, tokens, 128\), dim being 128"):
            layer(made(*shape, dtype=torch.bfloat16))
    with pytest.raises(gqa.GqaValueError, match="expected 0 to 15: the rope's cos has 16 positions"):
        layer(made(1, 18, DIM, dtype=torch.bfloat16))
    with pytest.raises(gqa.GqaTypeError, match="q is float64, expected"):
        gqa.nn.GroupedQueryAttention(**LAYER).double()(made(1, 8, DIM, dtype=torch.float64))
    with pytest.raises(gqa.GqaValueError, match="head_dim is 48, expected one of"):
        options = {**LAYER, "head_dim": 48, "rope": a_rope()}
        gqa.nn.GroupedQueryAttention(**options).bfloat16()(made(1, 8, DIM, dtype=torch.bfloat16))
