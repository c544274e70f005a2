"""gqa.mgqa.transformer: the page's program as printed, the package's state dict and its grouping of heads, logits
against float64, and what is refused."""

import inspect
import os
import subprocess
import sys

import gqa
import pytest

torch = pytest.importorskip("torch", reason="test_mgqa_model.py needs PyTorch")

from gqa.mgqa import MGQA, MGQALayers  # noqa: E402
from gqa.mgqa.transformer import Decoder, MGQATransformer  # noqa: E402
from mgqa_model import (  # noqa: E402
    DIM,
    HEADS,
    KV_HEADS,
    LENGTH,
    SMALL,
    TOKENS,
    WIDTH,
    embeddings64,
    expected,
    ids,
    model_of,
)
from torch_layers import close, each_dtype, guessed, weights_of  # noqa: E402, F401
from torch_tensors import each_device, made  # noqa: E402

# ---- the page's program

PROGRAM = """\
import torch
from mgqa.transformer import MGQATransformer, Decoder

x = torch.randint(0, 20000, (1, 1024))
model = MGQATransformer(
    num_tokens = 20000,
    max_seq_len = 1024,
    attn_layers = Decoder(
        dim = 512,
        depth = 12,
        heads = 8,
        attn_kv_heads = 2   # 4 query heads attend to 1 key / value head
    )
)
result = model(x)
"""
SECOND = """
from mgqa import attention
q = torch.randn(10, 8, 16, 64)  # [batch_size, num_heads, seq_length, head_dim], float32, on the CPU too
k = torch.randn(10, 8, 16, 64)
v = torch.randn(10, 8, 16, 64)
causal, sm_scale = False, 0.1
num_groups = 4                  # number of groups the heads are divided into
output = attention(q, k, v, causal, sm_scale, num_groups)     # gradients of q, k, v are wanted as well
"""
JUDGED = """
assert result.shape == (1, 1024, 20000) and result.isfinite().all()
assert sum(parameter.numel() for parameter in model.parameters()) == 54_110_752
assert output.shape == (10, 8, 16, 64)
scores = (q.double() @ k.double().transpose(2, 3) * sm_scale).softmax(-1)
torch.testing.assert_close(output.double(), scores @ v.double(), rtol=0, atol=ATOL)
print(result.dtype, output.dtype)
"""


def ran(program, folder):
    script = folder / "program.py"
    script.write_text('import gqa\ngqa.configure(tuning="guess")\n' + program)
    command = [sys.executable, "-m", "gqa", "run", "--as", "mgqa", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return done.stdout


@each_device
def test_as_printed_in_float32(device, tmp_path):
    """On a GPU, where the page says nothing of devices, by PyTorch's default."""
    first = "" if device == "cpu" else "import torch\ntorch.set_default_device('cuda')\n"
    assert ran(first + PROGRAM + SECOND + JUDGED.replace("ATOL", "4e-6"), tmp_path) == "torch.float32 torch.float32\n"


@each_device
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_as_printed_in_16_bits(dtype, device, tmp_path):
    first = "" if device == "cpu" else "import torch\ntorch.set_default_device('cuda')\n"
    program = PROGRAM.replace("model(x)", f"model.to(torch.{dtype})(x)")
    second = SECOND.replace("64)", f"64, dtype=torch.{dtype})")
    judged = JUDGED.replace("ATOL", "4e-3" if dtype == "float16" else "3e-2")
    assert ran(first + program + second + judged, tmp_path) == f"torch.{dtype} torch.{dtype}\n"


# ---- numbers


@each_device
@each_dtype
@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
def test_logits(kv_heads, dtype, device):
    """The forward of weights by the package's names: query head h attends to key head h % kv_heads."""
    model = model_of(dtype, device, attn_kv_heads=kv_heads)
    x = ids(2, LENGTH, device)
    with torch.no_grad():
        found = model(x)
    assert found.dtype is dtype and found.device == x.device
    close(found, expected(model, x, kv_heads=kv_heads), times=2)


def test_heads_that_are_neighbours_would_show():
    """Else the test above would pass whoever attends to whom."""
    model = model_of(torch.float32)
    w, x = weights_of(model), ids(2, LENGTH)
    right = expected(model, x)
    for name in list(w):
        if name.endswith("to_q.weight"):  # as if neighbours shared a key head
            w[name] = w[name].unflatten(0, (KV_HEADS, HEADS // KV_HEADS, WIDTH)).transpose(0, 1).flatten(0, 2)
        if name.endswith("to_out.weight"):
            w[name] = w[name].unflatten(1, (KV_HEADS, HEADS // KV_HEADS, WIDTH)).transpose(1, 2).flatten(1, 3)
    wrong = embeddings64(w, x) @ w["to_logits.weight"].T + w["to_logits.bias"]
    assert (wrong - right).abs().max() > 0.1 * right.abs().max()


OPTIONS = {
    "one_kv_head": ({"attn_kv_heads": None, "attn_one_kv_head": True}, {"kv_heads": 1}),
    "as many": ({"attn_kv_heads": None}, {"kv_heads": HEADS}),
    "dim_head of the package": ({"attn_dim_head": 64}, {}),
    "value_dim_head": ({"attn_value_dim_head": 64}, {}),
    "max_attend_past": ({"attn_max_attend_past": 5}, {"window": (5, 0)}),
    "flash": ({"attn_flash": True}, {}),
    "ff_mult": ({"ff_mult": 2}, {}),
    "ff_no_bias": ({"ff_no_bias": True}, {}),
    "defaults": ({"rotary_pos_emb": False, "layer_dropout": 0, "attn_qk_norm": False, "ff_glu": False}, {}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name):
    options, meant = OPTIONS[name]
    model, x = model_of(**options), ids(1, 20)
    with torch.no_grad():
        close(model(x), expected(model, x, **meant), times=2)


def test_a_feed_forward_without_biases():
    names = list(Decoder(**SMALL, ff_no_bias=True).layers[1][1].state_dict())
    assert names == ["ff.0.0.weight", "ff.2.weight"]


def test_a_head_is_64_wide_whatever_dim_is():
    assert Decoder(dim=96, depth=1, heads=3).layers[0][1].to_q.weight.shape == (192, 96)


def test_what_a_model_returns():
    model, x = model_of(), ids(2, 20)
    with torch.no_grad():
        logits = model(x)
        embeddings = model(x, return_embeddings=True)
        both = model(x, return_logits_and_embeddings=True)
        with_cache, cache = model(x, return_intermediates=True)
    assert logits.shape == (2, 20, TOKENS) and embeddings.shape == (2, 20, DIM)
    assert torch.equal(both[0], logits) and torch.equal(both[1], embeddings)
    close(embeddings, embeddings64(weights_of(model), x), times=2)
    close(with_cache, expected(model, x), times=2)
    assert cache.length == 20
    with torch.no_grad():
        assert torch.equal(model(x.int()), logits)


def test_logits_of_another_number():
    layers = Decoder(**SMALL)
    model = MGQATransformer(num_tokens=TOKENS, max_seq_len=8, attn_layers=layers, logits_dim=11, emb_dim=DIM).bfloat16()
    assert model(ids(1, 8)).shape == (1, 8, 11)


def test_layers_that_see_all():
    """MGQALayers without causal, alone."""
    layers = MGQALayers(DIM, 1, HEADS, attn_kv_heads=KV_HEADS, attn_dim_head=WIDTH).bfloat16()
    x = made(1, 12, DIM, dtype=torch.bfloat16)
    with torch.no_grad():
        changed = x.clone()
        changed[:, -1] = 0
        assert (layers(x)[:, 0] != layers(changed)[:, 0]).any()
        causal = Decoder(**{**SMALL, "depth": 1}).bfloat16()
        assert torch.equal(causal(x)[:, 0], causal(changed)[:, 0])


def test_compiled_whole():
    pytest.importorskip("gqa.torch", reason="compiled whole needs PyTorch 2.10")
    model, x = model_of(), ids(2, 20)
    with torch.no_grad():
        found = torch.compile(model, fullgraph=True, backend="aot_eager")(x)
        close(found, expected(model, x), times=2)


def test_the_forward_runs_and_the_backward_raises():
    model, x = model_of(), ids(2, 20)
    with pytest.raises(NotImplementedError, match="gqa computes no gradients"):
        model(x).sum().backward()


# ---- the state dict


def test_names_and_shapes():
    """Those of the package's model that the page has."""
    model = MGQATransformer(
        num_tokens=20000, max_seq_len=1024, attn_layers=Decoder(dim=512, depth=12, heads=8, attn_kv_heads=2)
    )
    shapes = {"token_emb.emb.weight": (20000, 512), "pos_emb.emb.weight": (1024, 512)}
    for at in range(24):
        part = f"attn_layers.layers.{at}"
        shapes.update({f"{part}.0.0.weight": (512,), f"{part}.0.0.bias": (512,)})
        if at % 2 == 0:
            shapes.update(
                {f"{part}.1.to_{n}.weight": (512 if n in ("q", "out") else 128, 512) for n in ("q", "k", "v", "out")}
            )
        else:
            shapes.update({f"{part}.1.ff.0.0.weight": (2048, 512), f"{part}.1.ff.0.0.bias": (2048,)})
            shapes.update({f"{part}.1.ff.2.weight": (512, 2048), f"{part}.1.ff.2.bias": (512,)})
    shapes.update({"attn_layers.final_norm.weight": (512,), "attn_layers.final_norm.bias": (512,)})
    shapes.update({"to_logits.weight": (20000, 512), "to_logits.bias": (20000,)})
    found = {name: tuple(x.shape) for name, x in model.state_dict().items()}
    assert found == shapes
    assert sum(parameter.numel() for parameter in model.parameters()) == 54_110_752
    assert {name for name, _ in model.named_parameters()} == set(shapes)


@pytest.mark.parametrize("assign", [False, True])
def test_weights_go_in_and_out_as_they_are(assign):
    model, other = model_of(), model_of()
    state = {name: torch.randn_like(x) for name, x in model.state_dict().items()}
    before = {name: x.clone() for name, x in state.items()}
    assert not other.load_state_dict(state, assign=assign).missing_keys
    again = other.state_dict()
    assert list(again) == list(before)
    for name, x in before.items():
        assert torch.equal(again[name], x) and torch.equal(state[name], x), name
    x = ids(1, 20)
    with torch.no_grad():
        model.load_state_dict(again)
        assert torch.equal(model(x), other(x))


def test_a_call_copies_no_weight():
    """Heads lie in memory as kernels take them."""
    model, x = model_of(), ids(1, 20)
    layer = model.attn_layers.layers[0][1]
    weights = {layer.to_q.weight.data_ptr(), layer.to_out.weight.data_ptr()}
    seen, before = set(), torch.nn.functional.linear

    def linear(x, weight, bias=None):
        seen.add(weight.data_ptr())
        return before(x, weight, bias)

    torch.nn.functional.linear = linear
    try:
        with torch.no_grad():
            model(x)
    finally:
        torch.nn.functional.linear = before
    assert weights <= seen


def test_weights_of_other_shapes_are_refused():
    model = model_of()
    state = model.state_dict()
    state["attn_layers.layers.0.1.to_q.weight"] = torch.zeros(7, 5)
    with pytest.raises(RuntimeError, match="size mismatch for attn_layers.layers.0.1.to_q.weight"):
        model.load_state_dict(state)
    del state["attn_layers.layers.0.1.to_q.weight"]
    with pytest.raises(RuntimeError, match="Missing key.*to_q.weight"):
        model.load_state_dict(state)


# ---- what is refused

SIGNATURE = (
    "*, num_tokens, max_seq_len, attn_layers, emb_dim=None, max_mem_len=0, shift_mem_down=0, emb_dropout=0., "
    "post_emb_norm=False, num_memory_tokens=None, tie_embedding=False, logits_dim=None, use_abs_pos_emb=True, "
    "scaled_sinu_pos_emb=False, l2norm_embed=False, emb_frac_gradient=1., attn_z_loss_weight=1e-4"
)
CALL = (
    "self, x, return_embeddings=False, return_logits_and_embeddings=False, return_intermediates=False, mask=None, "
    "return_mems=False, return_attn=False, mems=None, pos=None, prepend_embeds=None, sum_embeds=None, "
    "return_attn_z_loss=False, attn_z_loss_weight=1e-4, seq_start_pos=None, cache=None, **kwargs"
)


def test_signatures():
    theirs = {}
    exec(f"def made({SIGNATURE}): pass\ndef forward({CALL}): pass\ndef decoder(**kwargs): pass", {}, theirs)
    pairs = ((MGQATransformer, "made"), (MGQATransformer.forward, "forward"), (Decoder, "decoder"))
    for ours, name in pairs:
        given, expected_ = (inspect.signature(x).parameters.values() for x in (ours, theirs[name]))
        assert [(p.name, p.kind, p.default) for p in given] == [(p.name, p.kind, p.default) for p in expected_]


NOT_SERVED = [
    ("max_mem_len", 1, "0"),
    ("emb_dropout", 0.1, "0.0 only: leave it out"),
    ("post_emb_norm", True, "False"),
    ("num_memory_tokens", 4, "None"),
    ("tie_embedding", True, "False"),
    ("use_abs_pos_emb", False, "True"),
    ("scaled_sinu_pos_emb", True, "False"),
    ("l2norm_embed", True, "False"),
    ("emb_frac_gradient", 0.1, "1.0"),
    ("attn_z_loss_weight", 1.0, "0.0001"),
    ("emb_dim", 32, "None or 64"),
]


@pytest.mark.parametrize("name,value,possible", NOT_SERVED)
def test_a_model_that_is_not_served(name, value, possible):
    layers = Decoder(**SMALL)
    with pytest.raises(
        NotImplementedError, match=f"MGQATransformer was given {name}={value}; gqa computes {name}={possible}"
    ):
        MGQATransformer(num_tokens=TOKENS, max_seq_len=LENGTH, attn_layers=layers, **{name: value})


@pytest.mark.parametrize(
    "name", ["attn_talking_heads", "attn_qk_norm", "ff_glu", "rotary_pos_emb", "use_rmsnorm", "macaron"]
)
def test_layers_that_are_not_served(name):
    with pytest.raises(NotImplementedError, match=f"Decoder was given {name}=True; gqa computes {name}=False only"):
        Decoder(**SMALL, **{name: True})


@pytest.mark.parametrize(
    "options,error,said",
    [
        ({"attn_num_mem_kv": 2}, NotImplementedError, "attn_num_mem_kv=2; gqa computes attn_num_mem_kv=0 only"),
        ({"attn_sparse_topk": 8}, NotImplementedError, "attn_sparse_topk=8; gqa computes attn_sparse_topk=None only"),
        ({"ff_dropout": 0.1}, NotImplementedError, "ff_dropout=0.1; gqa computes ff_dropout=0.0 only: leave it out"),
        ({"attn_dropout": False}, NotImplementedError, "attn_dropout=False; gqa computes attn_dropout=0.0 only"),
        (
            {"attn_one_kv_head": True},
            gqa.GqaValueError,
            "kv_heads is 2 beside one_kv_head=True; expected one of the two",
        ),
        ({"attn_kv_heads": 3}, gqa.GqaValueError, "kv_heads is 3 and heads 8; expected a divisor"),
        ({"causal": False}, gqa.GqaValueError, "causal is False; expected none: a Decoder is causal"),
        ({"attn_heads": 4}, TypeError, "Decoder has no argument attn_heads"),
        ({"drop": 4}, TypeError, "Decoder has no argument drop"),
        ({"dim": None}, gqa.GqaTypeError, "dim is None; expected a whole number"),
    ],
)
def test_a_decoder_that_cannot_be(options, error, said):
    with pytest.raises(error, match=said):
        Decoder(**{**SMALL, **options})


@pytest.mark.parametrize(
    "name", ["mask", "mems", "pos", "prepend_embeds", "sum_embeds", "seq_start_pos", "context", "attn_mask"]
)
def test_a_call_that_is_not_served(name):
    model, x = model_of(), ids(1, 8)
    with pytest.raises(NotImplementedError, match=f"was given {name}=.*; gqa computes {name}=None only"):
        model(x, **{name: torch.zeros(1)})
    model(x, **{name: None})
    for flag in ("return_mems", "return_attn", "return_attn_z_loss"):
        with pytest.raises(NotImplementedError, match=f"MGQATransformer.forward was given {flag}=True"):
            model(x, **{flag: True})
    with pytest.raises(TypeError, match="Decoder.forward has no argument masks"):
        model(x, masks=None)


@each_device
def test_ids_and_lengths(device):
    model, x = model_of(device=device), ids(2, 8, device)
    for bad in (TOKENS, 10**9, -1):
        wrong = x.clone()
        wrong[1, 3] = bad
        with pytest.raises(gqa.GqaValueError, match=f"x has the token id {bad}; expected 0 to 96, num_tokens being 97"):
            model(wrong)
    with pytest.raises(gqa.GqaValueError, match="x has 49 tokens; expected 1 to 48, which is max_seq_len"):
        model(ids(1, LENGTH + 1, device))
    for wrong in (x[0], x[None], x[:, :0]):
        with pytest.raises(gqa.GqaValueError, match=r"x is \(.*\); expected \(batch, tokens\)"):
            model(wrong)
    with pytest.raises(gqa.GqaTypeError, match="x is torch.float32; expected token ids, int64 or int32"):
        model(x.float())
    model(x)


@pytest.mark.gpu
def test_a_model_is_captured():
    """Ids are not looked at then."""
    model, x = model_of(device="cuda"), ids(2, LENGTH, "cuda")
    with torch.no_grad():
        model(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model(x)
        x.copy_(ids(2, LENGTH, "cuda", seed=1))
        graph.replay()
    close(out, expected(model, x), times=2)


def test_layers_of_others():
    with pytest.raises(gqa.GqaTypeError, match="attn_layers is a Linear; expected a Decoder or MGQALayers of gqa.mgqa"):
        MGQATransformer(num_tokens=5, max_seq_len=5, attn_layers=torch.nn.Linear(2, 2))


def test_a_layer_alone():
    layer = MGQA(DIM, heads=HEADS, kv_heads=KV_HEADS, causal=True).bfloat16()
    x = made(1, 8, DIM, dtype=torch.bfloat16)
    assert layer(x, mask=None).shape == x.shape and isinstance(layer, gqa.nn.GroupedQueryAttention)
    with pytest.raises(NotImplementedError, match="MGQA.forward was given rel_pos="):
        layer(x, rel_pos=print)
