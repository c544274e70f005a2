"""gqa.nn.GroupedQueryAttention's state dict: the names of Llama's and Mistral's layers in Transformers, whose weights
give their outputs, from a layer's state dict or a whole model's."""

import gqa
import pytest

torch = pytest.importorskip("torch", reason="test_nn_names.py needs PyTorch")

import gqa.nn  # noqa: E402
from torch_layers import close, each_dtype, guessed, randomised  # noqa: E402, F401
from torch_tensors import made  # noqa: E402

PREFIX = "model.layers.0.self_attn."
LAYER = {"dim": 128, "heads": 4, "kv_heads": 2, "head_dim": 32}
USUAL = {
    "hidden_size": 128,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
WINDOW = 6


def test_names():
    names = ["q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"]
    layer = gqa.nn.GroupedQueryAttention(**LAYER, rope=gqa.nn.Rope(32, 64))
    assert list(layer.state_dict()) == names
    full = gqa.nn.GroupedQueryAttention(**LAYER, rope=gqa.nn.Rope(32, 64), qk_norm=True, sinks=True, bias=True)
    biases = [name.replace("weight", "bias") for name in names]
    assert set(full.state_dict()) == {*names, *biases, "q_norm.weight", "k_norm.weight", "sinks"}
    for options, last in (({"bias": True, "out_bias": False}, 0), ({"out_bias": True}, 1)):
        has = list(gqa.nn.GroupedQueryAttention(**LAYER, **options).state_dict())
        assert ("o_proj.bias" in has, "q_proj.bias" in has) == (last == 1, last == 0)
    assert [full.state_dict()[f"{n}_proj.weight"].shape for n in "qkvo"] == [
        (128, 128),
        (64, 128),
        (64, 128),
        (128, 128),
    ]


def test_under_a_prefix():
    one, other = (randomised(gqa.nn.GroupedQueryAttention(**LAYER), seed) for seed in (1, 2))
    whole = {"model.embed_tokens.weight": torch.zeros(3)}
    for at, layer in enumerate((one, other)):
        whole.update({f"model.layers.{at}.self_attn.{name}": x for name, x in layer.state_dict().items()})
    whole[f"{PREFIX}rotary_emb.inv_freq"] = torch.zeros(16)  # as older checkpoints of Llama have it
    layer = gqa.nn.GroupedQueryAttention(**LAYER)
    for at, expected in enumerate((one, other)):
        layer.load_state_dict(whole, prefix=f"model.layers.{at}.self_attn.")
        assert all(torch.equal(x, layer.state_dict()[name]) for name, x in expected.state_dict().items())
    assert len(whole) == 10, "the caller's own"
    with pytest.raises(gqa.GqaValueError, match="begins with prefix 'model.layers.2.*expected one as in 'model.embed"):
        layer.load_state_dict(whole, prefix="model.layers.2.self_attn.")
    del whole[f"{PREFIX}k_proj.weight"]
    with pytest.raises(RuntimeError, match="Missing key.*k_proj.weight"):
        layer.load_state_dict(whole, prefix=PREFIX)
    assert layer.load_state_dict(whole, False, prefix=PREFIX).missing_keys == ["k_proj.weight"]


def test_within_a_model():
    """A model of one's own that calls its layers as Llama does loads its weights with no prefix."""
    layer = randomised(gqa.nn.GroupedQueryAttention(**LAYER))
    model = torch.nn.ModuleDict({"self_attn": gqa.nn.GroupedQueryAttention(**LAYER)})
    saved = {f"self_attn.{name}": x for name, x in layer.state_dict().items()}
    model.load_state_dict({**saved, "self_attn.rotary_emb.inv_freq": torch.zeros(16)})
    assert torch.equal(model["self_attn"].q_proj.weight, layer.q_proj.weight)


def theirs(kind):
    """A tiny model's state dict, in float64, and the answer of its first layer of attention to x."""
    transformers = pytest.importorskip("transformers", reason="test_nn_names.py needs transformers, beside torch")
    torch.manual_seed(0)
    if kind == "llama":
        config = transformers.LlamaConfig(**USUAL, attn_implementation="eager")
        model = transformers.LlamaForCausalLM(config)
    else:
        config = transformers.MistralConfig(**USUAL, sliding_window=WINDOW, attn_implementation="eager")
        model = transformers.MistralForCausalLM(config)
    return randomised(model).double().eval()


@each_dtype
@pytest.mark.parametrize("kind,options", [("llama", {}), ("mistral", {"window": WINDOW})])
def test_their_weights_give_their_outputs(kind, options, dtype):
    model = theirs(kind)
    base = model.config.rope_parameters["rope_theta"]
    layer = gqa.nn.GroupedQueryAttention(**LAYER, rope=gqa.nn.Rope(32, 64, base=base), **options).to(dtype)
    layer.load_state_dict(model.state_dict(), prefix=PREFIX)
    attention = model.model.layers[0].self_attn
    attention.load_state_dict(layer.state_dict())  # rounded as ours are
    x = made(2, 18, 128, dtype=dtype)
    places = torch.arange(18)[None]
    past = places[0][None, :] - places[0][:, None]
    hidden = (past > 0) | (past <= -WINDOW if options else past > 18)
    mask = torch.zeros(1, 1, 18, 18, dtype=torch.float64).masked_fill(hidden, -torch.inf)
    with torch.no_grad():
        turning = model.model.rotary_emb(x.double(), places)
        expected, _ = attention(x.double(), position_embeddings=turning, attention_mask=mask)
        found = layer(x)
        cache = layer.new_cache(2, 32)
        prefill = layer(x[:, :11], cache=cache)
        cache.advance(11)
        rest = layer(x[:, 11:], cache=cache)
    close(found, expected)
    close(torch.cat([prefill, rest], 1), expected)
