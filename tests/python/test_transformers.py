"""gqa.transformers: tiny random models of Transformers with gqa's attention and masks, against the same in float64, and
against Transformers' own masks where padding, caches, windows and packing come in."""

import os

import gqa
import pytest

from conftest import run_python

torch = pytest.importorskip("torch", reason="test_transformers.py needs PyTorch")
transformers = pytest.importorskip("transformers", reason="test_transformers.py needs transformers, beside torch")

import gqa.transformers as door  # noqa: E402
from gqa import _transformers_masks as masks  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch_tensors import each_device  # noqa: E402
from transformers import (  # noqa: E402
    Gemma2Config,
    Gemma2ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.cache_utils import StaticCache  # noqa: E402

USUAL = {
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 256,
    "max_position_embeddings": 1024,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
WINDOW = 24
# All experts of each token: a router that chooses would turn a rounding into another expert.
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 2, "experts_implementation": "eager"}
MODELS = {  # and what of Transformers' own they are held against: sdpa has neither soft caps nor sinks
    "llama": (LlamaConfig, LlamaForCausalLM, {}, "sdpa"),
    "mistral": (MistralConfig, MistralForCausalLM, {"sliding_window": WINDOW}, "sdpa"),
    "gemma2": (Gemma2Config, Gemma2ForCausalLM, {"sliding_window": WINDOW, "head_dim": 64}, "eager"),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 64}, "sdpa"),
    "gpt_oss": (GptOssConfig, GptOssForCausalLM, {"sliding_window": WINDOW, **EXPERTS}, "eager"),
}
each_model = pytest.mark.parametrize("name", MODELS)


def model_of(name, implementation="gqa", dtype=torch.bfloat16, device="cpu"):
    config, kind, more, _ = MODELS[name]
    torch.manual_seed(1)
    model = kind(config(**{**USUAL, **more})).eval()
    for parameter in model.parameters():  # sinks are not initialised to what shows
        if parameter.dim() == 1 and parameter.shape[0] == USUAL["num_attention_heads"]:
            torch.nn.init.normal_(parameter)
    model.set_attn_implementation(implementation)
    return model.to(device, torch.bfloat16).to(dtype)


def tokens(batch, length, device="cpu", seed=3):
    return torch.randint(2, 256, (batch, length), generator=torch.Generator().manual_seed(seed)).to(device)


def logits(model, ids, real=None, **more):
    """real: (batch, length), the rows that count."""
    with torch.no_grad():
        out = model(ids, use_cache=more.pop("use_cache", False), **more).logits.double()
    return out if real is None else out[real.bool()]


def padded_alone(real):
    """Whether each row's tokens stand together: they are then the same without padding, for positions are relative."""
    return real is not None and bool((real.diff(dim=1).abs().sum(1) <= 1).all())


def unpadded_logits(exact, ids, real):
    """Each row alone: eager functions give NaN in rows of padding, in float64."""
    return torch.cat([logits(exact, ids[row, real[row].bool()][None])[0] for row in range(ids.shape[0])])


def errors(name, ids, device="cpu", real=None, dtype=torch.bfloat16, **more):
    """gqa's and Transformers' own, against float64."""
    own = MODELS[name][3]
    model, exact = model_of(name, dtype=dtype, device=device), model_of(name, own, torch.float64, device)
    expected = unpadded_logits(exact, ids, real) if padded_alone(real) else logits(exact, ids, real, **more)
    found = []
    for implementation in ("gqa", own):
        model.set_attn_implementation(implementation)
        found.append((logits(model, ids, real, **more) - expected).norm() / expected.norm())
    return found


@pytest.fixture(autouse=True)
def anew():
    gqa.door_report(reset=True)
    torch._dynamo.reset()
    yield
    gqa.door_report(reset=True)


def answered():
    """How many calls gqa answered, none of them left to others."""
    told = gqa.door_report().get("transformers")
    assert told is not None and told.fallbacks == {}, told
    return told.calls


# ---- numbers


@each_device
@each_model
def test_512_tokens(name, device):
    ours, theirs = errors(name, tokens(1, 512, device), device)
    assert answered() == 2
    assert ours <= 1.15 * theirs, (ours, theirs)


@each_device
@each_model
def test_float32(name, device):
    """Which is what from_config gives: no call is left to Transformers, and the logits' error is as its own."""
    ours, theirs = errors(name, tokens(2, 64, device), device, dtype=torch.float32)
    assert answered() == 2
    assert ours <= 1.5 * theirs, (ours, theirs)


def padded(left, device="cpu"):
    real = torch.ones(2, 40, dtype=torch.long, device=device)
    real[1, slice(0, 15) if left else slice(25, 40)] = 0
    return real


@each_device
@pytest.mark.parametrize("left", [True, False])
@each_model
def test_padding(name, left, device):
    real = padded(left, device)
    ours, theirs = errors(name, tokens(2, 40, device), device, real, attention_mask=real)
    assert answered() == 2
    assert ours <= 1.15 * theirs, (ours, theirs)


@each_model
def test_a_mask_with_a_hole(name):
    real = torch.ones(2, 40, dtype=torch.long)
    real[0, 10:14] = 0
    ours, theirs = errors(name, tokens(2, 40), "cpu", real, attention_mask=real)
    assert answered() == 2
    assert ours <= 1.15 * theirs, (ours, theirs)


@pytest.mark.parametrize("kind", [torch.bool, torch.bfloat16])
def test_a_mask_of_four_dimensions(kind):
    allowed = torch.rand(2, 1, 40, 40, generator=torch.Generator().manual_seed(0)) < 0.5
    allowed |= torch.eye(40, dtype=torch.bool)
    mask = allowed if kind is torch.bool else masks.bias_of(allowed, kind)
    exact = logits(model_of("llama", "sdpa", torch.float64), tokens(2, 40), attention_mask=allowed)
    theirs = logits(model_of("llama", "sdpa"), tokens(2, 40), attention_mask=mask)
    ours = logits(model_of("llama"), tokens(2, 40), attention_mask=mask)
    assert answered() == 2
    assert (ours - exact).norm() <= 1.15 * (theirs - exact).norm()


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_not_causal(name):
    """is_causal=False, and a config that says so."""
    model, exact = model_of(name), model_of(name, "sdpa", torch.float64)
    causal = logits(exact, tokens(1, 20))
    for each in (model, exact):
        each.config.is_causal = False
    expected = logits(exact, tokens(1, 20), is_causal=False)
    found = logits(model, tokens(1, 20), is_causal=False)
    assert answered() == 2
    assert (found - expected).norm() < 0.02 * expected.norm() < (causal - expected).norm()


# ---- packed sequences

PARTS = (7, 28, 5)  # one of them longer than the window
POSITIONS = torch.cat([torch.arange(n) for n in PARTS])[None]


# GPT-OSS does not look for beginnings in its positions: only what is told counts there.
PACKED = [("llama", False), ("llama", True), ("mistral", False), ("mistral", True), ("gpt_oss", True)]


@each_device
@pytest.mark.parametrize("name,told", PACKED)
def test_packed(name, told, device):
    ids, more = tokens(1, 40, device), {"position_ids": POSITIONS.to(device)}
    if told:
        starts = torch.tensor([0, 7, 35, 40], dtype=torch.int32, device=device)
        more.update(cu_seq_lens_q=starts, cu_seq_lens_k=starts, max_length_q=28, max_length_k=28)
    ours = logits(model_of(name, device=device), ids, **more)
    assert answered() == 2
    own = MODELS[name][3]
    exact, theirs = (
        torch.cat([logits(model_of(name, own, dtype, device), part) for part in ids.split(PARTS, 1)], 1)
        for dtype in (torch.float64, torch.bfloat16)
    )
    assert (ours - exact).norm() <= 1.15 * (theirs - exact).norm()


def test_packed_rows_of_a_batch():
    positions = torch.cat([POSITIONS, torch.arange(40)[None]])
    expected = logits(model_of("llama", "sdpa", torch.float64), tokens(2, 40), position_ids=positions)
    theirs = logits(model_of("llama", "sdpa"), tokens(2, 40), position_ids=positions)
    ours = logits(model_of("llama"), tokens(2, 40), position_ids=positions)
    assert answered() == 2
    assert (ours - expected).norm() <= 1.15 * (theirs - expected).norm()


# ---- caches


def cached_logits(model, ids, cache, real=None, first=20, chunk=9):
    """Logits of a prefill, a chunk and single tokens."""
    found, at = [], 0
    with torch.no_grad():
        for size in (first, chunk, *[1] * (ids.shape[1] - first - chunk)):
            mask = None if real is None else real[:, : at + size]
            out = model(ids[:, at : at + size], attention_mask=mask, past_key_values=cache, use_cache=True)
            cache, at = out.past_key_values, at + size
            found.append(out.logits.double())
    return torch.cat(found, 1)


@each_device
@pytest.mark.parametrize("left", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@each_model
def test_caches(name, static, left, device):
    """As many tokens as go past the window: 20, 9 and then one by one."""
    ids, real = tokens(2, 32, device), None
    if left:
        real = torch.ones(2, 32, dtype=torch.long, device=device)
        real[1, :6] = 0
    rows = torch.ones(2, 32, dtype=torch.bool, device=device) if real is None else real.bool()
    exact = unpadded_logits(model_of(name, MODELS[name][3], torch.float64, device), ids, rows.long())
    found = []
    for implementation in ("gqa", MODELS[name][3]):
        model = model_of(name, implementation, device=device)
        cache = StaticCache(model.config, max_cache_len=48) if static else None
        found.append((cached_logits(model, ids, cache, real)[rows] - exact).norm())
    assert answered() == 2 * 5
    assert found[0] <= 1.15 * found[1], found


READING = ("tolist", "item", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__float__", "__index__")


class Reads(TorchFunctionMode):
    """Counts how often the host asks for numbers of a tensor."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += getattr(func, "__name__", "") in READING
        return func(*args, **(kwargs or {}))


def mask_of(kind, **given):
    """What the mask function makes of a forward, and how often it read numbers."""
    with Reads() as reads, torch.no_grad():
        found = masks.mask(
            **{"batch_size": 2, "q_length": 4, "kv_length": 10, "q_offset": 6, "mask_function": kind, **given}
        )
    return found, reads.count


CAUSAL = transformers.masking_utils.causal_mask_function
SLIDING = transformers.masking_utils.sliding_window_causal_mask_function(5)


def test_masks_that_read_nothing():
    assert mask_of(CAUSAL) == (None, 0)
    aligned, reads = mask_of(SLIDING, local_size=5)
    assert aligned.shape == (2, 1, 2, 0) and reads == 0
    assert mask_of(SLIDING, local_size=5, kv_length=5, q_offset=1) == (None, 0)
    static, reads = mask_of(CAUSAL, q_offset=torch.tensor(3))
    assert static.tolist() == [[[[7]]]] * 2 and static.dtype is torch.int32 and reads == 0
    prefill, reads = mask_of(CAUSAL, q_offset=0)
    assert prefill.tolist() == [[[[4]]]] * 2 and reads == 0


def test_masks_that_read_once():
    whole = torch.ones(2, 10, dtype=torch.bool)
    left, right, hole = whole.clone(), whole.clone(), whole.clone()
    left[1, :3], right[1, 7:], hole[0, 4] = False, False, False
    prefill = {"q_offset": 0, "q_length": 10}

    def read_of(*args, **given):
        found, reads = mask_of(*args, **given)
        assert reads == 1
        return found

    assert read_of(CAUSAL, attention_mask=whole) is None
    assert read_of(CAUSAL, attention_mask=left).tolist() == [[[[10, 0]]], [[[10, 3]]]]
    assert read_of(CAUSAL, attention_mask=right, **prefill) is None
    decode = read_of(CAUSAL, attention_mask=right)
    assert decode.shape == (2, 1, 4, 10) and decode.dtype is torch.float32
    assert read_of(CAUSAL, attention_mask=hole).shape == (2, 1, 4, 10)
    static = read_of(CAUSAL, attention_mask=left[:, :8], q_offset=torch.tensor(4))
    assert static.tolist() == [[[[8, 0]]], [[[8, 3]]]]


LEFT = torch.ones(2, 10, dtype=torch.bool)
LEFT[1, :3] = False


@pytest.mark.parametrize("padding", [None, LEFT], ids=["", "padded"])
@pytest.mark.parametrize("kind,local", [(CAUSAL, None), (SLIDING, 5)], ids=["causal", "sliding"])
@pytest.mark.parametrize("q_offset,kv_length", [(6, 10), (6, 14), (torch.tensor(6), 14)])
def test_what_a_mask_says_is_what_transformers_own_says(q_offset, kv_length, kind, local, padding):
    """The bool mask that others get where gqa does not answer, for a chunk of 4 after 6."""
    given = {"mask_function": kind, "local_size": local, "q_offset": q_offset, "kv_length": kv_length}
    sizes = {"batch_size": 2, "q_length": 4, "attention_mask": padding}
    code = masks.decoded(masks.mask(**sizes, **given), 8, kv_length)
    ours = masks.allowed(code, (2, 4, 4, 32), kv_length, True, local, "cpu")
    expected = transformers.masking_utils.sdpa_mask(**sizes, **given, allow_is_causal_skip=False)
    assert torch.equal(ours.expand_as(expected), expected)


# ---- what would be lost


def test_without_the_mask_function_causality_or_padding_is_lost(monkeypatch):
    real = padded(True)
    monkeypatch.setitem(transformers.AttentionMaskInterface._global_mapping, "gqa", lambda **_: None)
    ours, theirs = errors("llama", tokens(2, 40), "cpu", real, attention_mask=real)
    assert ours > 2 * theirs


def test_without_its_result_padding_is_lost(monkeypatch):
    real = padded(True)
    attend = door.attention_forward
    monkeypatch.setitem(
        transformers.AttentionInterface._global_mapping,
        "gqa",
        lambda m, q, k, v, mask, **more: attend(m, q, k, v, None, **more),
    )
    ours, theirs = errors("llama", tokens(2, 40), "cpu", real, attention_mask=real)
    assert ours > 2 * theirs


# ---- what is left to others


@pytest.mark.parametrize("left", [None, True])
@each_model
def test_gradients_are_left_to_transformers(name, left):
    real = None if left is None else padded(True)
    rows = torch.ones(2, 40, dtype=torch.bool) if real is None else real.bool()
    losses = []
    for implementation in ("gqa", MODELS[name][3]):
        model = model_of(name, implementation, torch.float32)
        model(tokens(2, 40), attention_mask=real, use_cache=False).logits[rows].square().mean().backward()
        losses.append([p.grad for p in model.parameters() if p.grad is not None])
    told = gqa.door_report()["transformers"]
    assert told.calls == 0 and sum(told.fallbacks.values()) == 2
    assert len(losses[0]) == len(losses[1]) > 0
    for ours, theirs in zip(*losses):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_sinks_that_want_a_gradient_are_left_to_transformers():
    model = model_of("gpt_oss").requires_grad_(False)
    first, _ = (layer.self_attn for layer in model.model.layers)
    first.sinks.requires_grad_()
    model(tokens(1, 8), use_cache=False).logits.sum().backward()
    assert first.sinks.grad is not None
    assert gqa.door_report(reset=True)["transformers"].fallbacks == {"a gradient is wanted": 2}


def test_reasons():
    model = model_of("llama")
    model(tokens(1, 8), use_cache=False)
    assert gqa.door_report(reset=True)["transformers"].fallbacks == {"a gradient is wanted": 2}
    logits(model.double(), tokens(1, 8))
    assert gqa.door_report()["transformers"].fallbacks == {"dtype float64": 2}


def test_a_layer_with_a_window_that_nobody_tells():
    q = torch.zeros(1, 2, 8, 32, dtype=torch.float16)
    window = torch.empty((1, 1, 2, 0), dtype=torch.int32)
    with pytest.raises(gqa.GqaValueError, match="a layer Module has a mask with a sliding window"):
        door.attention_forward(torch.nn.Module(), q, q, q, window)


# ---- generate


@each_device
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_generate(static, device):
    model, ids = model_of("mistral", device=device), tokens(2, 20, device)
    real = torch.ones_like(ids)
    real[1, :4] = 0
    more = {"cache_implementation": "static"} if static else {}
    found = model.generate(ids, attention_mask=real, max_new_tokens=8, do_sample=False, **more)
    assert found.shape == (2, 28) and gqa.door_report()["transformers"].calls > 0
    out = logits(model, found, attention_mask=torch.cat([real, real.new_ones(2, 8)], 1))
    chosen = out[:, 19:27].gather(2, found[:, 20:, None])[..., 0]
    assert (out[:, 19:27].amax(-1) - chosen).max() < 0.02  # each the best, or as good in bfloat16


def test_misses_of_generated_tokens_on_a_fresh_cache():
    """Counted, and at most 2 s of 64 tokens."""
    said = run_python(
        "import gqa.transformers, torch\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        f"model = LlamaForCausalLM(LlamaConfig(**{USUAL!r})).eval().to(torch.bfloat16)\n"
        "model.set_attn_implementation('gqa')\n"
        "ids = torch.randint(2, 256, (1, 10))\n"
        "found = model.generate(ids, max_new_tokens=64, min_new_tokens=64, do_sample=False, pad_token_id=0)\n"
        "counts = gqa.door_report()['transformers']\n"
        "print(found.shape[1], counts.fallbacks, counts.misses, counts.seconds)\n",
        GQA_CACHE=os.path.join(os.path.dirname(os.environ["GQA_CACHE"]), "transformers.db"),
    )
    length, fallbacks, misses, seconds = said.split()[-4:]
    assert (length, fallbacks) == ("74", "{}") and 2 <= int(misses) <= 12
    assert float(seconds) <= 2, said


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_generate_compiled(static):
    model, ids = model_of("llama"), tokens(1, 12)
    more = {"cache_implementation": "static"} if static else {}
    expected = model.generate(ids, max_new_tokens=6, do_sample=False, **more)
    model.forward = torch.compile(model.forward, backend="aot_eager")
    assert torch.equal(model.generate(ids, max_new_tokens=6, do_sample=False, **more), expected)


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_compiled_whole(name):
    model, ids = model_of(name), tokens(2, 40)
    expected = logits(model, ids)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert (logits(compiled, ids) - expected).norm() < 0.01 * expected.norm()
    real = padded(True)
    expected = logits(model, ids, real, attention_mask=real)
    assert (logits(compiled, ids, real, attention_mask=real) - expected).norm() < 0.01 * expected.norm()
