"""gqa.mgqa's cache: a model that gets its tokens one by one, or several at a time, gives the logits of one pass; and
what does not fit a cache is refused."""

import gqa
import pytest

torch = pytest.importorskip("torch", reason="test_mgqa_decoding.py needs PyTorch")

from gqa.mgqa import MGQALayers  # noqa: E402
from gqa.mgqa.transformer import Decoder, MGQATransformer  # noqa: E402
from mgqa_model import DIM, LENGTH, SMALL, expected, ids, model_of  # noqa: E402
from torch_layers import close, each_dtype, guessed  # noqa: E402, F401
from torch_tensors import each_device, made  # noqa: E402


def decoded(model, x, steps, **more):
    """Logits of x, whose first tokens come at once and the others as `steps` says; and the cache."""
    out, cache, at = [], None, 0
    for tokens in steps:
        at += tokens
        logits, cache = model(x[:, :at], return_intermediates=True, cache=cache, **more)
        assert logits.shape[1] == tokens and cache.length == at
        out.append(logits)
    return torch.cat(out, 1), cache


@each_device
@each_dtype
@pytest.mark.parametrize("kv_heads", [1, 2, 8])
def test_token_by_token(kv_heads, dtype, device):
    model, x = model_of(dtype, device, attn_kv_heads=kv_heads), ids(2, LENGTH, device)
    with torch.no_grad():
        found, _ = decoded(model, x, [20] + [1] * 28)
    close(found, expected(model, x, kv_heads=kv_heads), times=2)


@each_device
def test_heads_of_16(device):
    """The narrowest of the page's."""
    model, x = model_of(device=device, attn_dim_head=16), ids(2, 20, device)
    with torch.no_grad():
        found, _ = decoded(model, x, [15, 1, 4])
    close(found, expected(model, x), times=2)


def test_several_at_a_time():
    """As a draft is verified; cache_age may say so."""
    model, x = model_of(), ids(2, 20)
    with torch.no_grad():
        found, cache = decoded(model, x[:, :15], [1, 9, 5])
        rest = model(x, cache=cache, cache_age=5)
    close(torch.cat([found, rest], 1), expected(model, x), times=2)


def test_what_was_refused_is_forgotten():
    model, x, other = model_of(), ids(1, 20), ids(1, 20, seed=1)
    other[:, :12] = x[:, :12]
    with torch.no_grad():
        _, cache = model(other[:, :16], return_intermediates=True)
        cache.truncate(12)
        found, _ = model(x, return_intermediates=True, cache=cache)
    close(found, expected(model, x)[:, 12:], times=2)
    with pytest.raises(gqa.GqaValueError, match="tokens is 21; expected 0 to 20, which the cache has"):
        cache.truncate(21)


def test_layers_alone_grow_their_cache():
    layers = Decoder(**SMALL).bfloat16()
    x = made(2, 150, DIM, dtype=torch.bfloat16)
    with torch.no_grad():
        whole, cache = layers(x[:, :3], return_hiddens=True)[0], None
        out, at = [], 0
        for tokens in (3, 60, 1, 80, 6):  # past 64, and past twice that
            at += tokens
            part, cache = layers(x[:, :at], return_hiddens=True, cache=cache)
            out.append(part)
        whole = layers(x)
    found = torch.cat(out, 1)
    assert found.shape == whole.shape and cache.length == 150
    close(found, whole, times=2)
    assert "2 layers, 150 tokens of 2 sequences" in repr(cache)


def test_embeddings_with_a_cache():
    model, x = model_of(), ids(1, 9)
    with torch.no_grad():
        (logits, embeddings), cache = model(x[:, :8], return_logits_and_embeddings=True, return_intermediates=True)
        one = model(x, return_embeddings=True, cache=cache)
        close(one, model(x, return_embeddings=True)[:, 8:], times=2)
    assert logits.shape[:2] == embeddings.shape[:2] == (1, 8) and one.shape == (1, 1, DIM)


def test_a_cache_gives_no_gradients():
    model, x = model_of(), ids(1, 9)
    logits, cache = model(x[:, :8], return_intermediates=True)
    for out in (logits, model(x, cache=cache)):
        with pytest.raises(NotImplementedError, match="gqa computes no gradients"):
            out.sum().backward()


@torch.no_grad()
def test_what_does_not_fit():
    model, x = model_of(), ids(2, 20)
    _, cache = model(x[:, :8], return_intermediates=True)
    for tokens in (8, 1):
        with pytest.raises(
            gqa.GqaValueError, match=f"x has {tokens} tokens, but the cache 8; expected all tokens so far"
        ):
            model(x[:, :tokens], cache=cache)
    with pytest.raises(gqa.GqaValueError, match="x has batch 1, but the cache 2"):
        model(x[:1, :9], cache=cache)
    with pytest.raises(gqa.GqaValueError, match="cache_age is 3; expected 1, or 2"):
        model(x[:, :10], cache=cache, cache_age=3)
    with pytest.raises(gqa.GqaValueError, match="x has 49 tokens; expected 1 to 48"):
        model(ids(2, LENGTH + 1), cache=cache)
    assert cache.length == 8
    layers = MGQALayers(**SMALL)
    model = MGQATransformer(num_tokens=5, max_seq_len=8, attn_layers=layers).bfloat16()
    with pytest.raises(gqa.GqaValueError, match="causal=False, and later tokens would change those of a cache"):
        model(torch.zeros(1, 4, dtype=torch.int64), return_intermediates=True)
