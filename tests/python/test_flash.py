"""flash_attn_func: FlashAttention's signature, its results, and the refusal of what is not computed."""

import inspect

import gqa
import numpy as np
import pytest

from conftest import attention_float64, check, make_qkv

# flash_attn.flash_attn_func, in its order: a program may pass any of these by position.
FLASH_ATTENTION = {
    "q": inspect.Parameter.empty,
    "k": inspect.Parameter.empty,
    "v": inspect.Parameter.empty,
    "dropout_p": 0.0,
    "softmax_scale": None,
    "causal": False,
    "window_size": (-1, -1),
    "softcap": 0.0,
    "alibi_slopes": None,
    "deterministic": False,
    "return_attn_probs": False,
}


def test_signature():
    parameters = inspect.signature(gqa.flash_attn_func).parameters.values()
    by_position = {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
    assert list(by_position.items()) == list(FLASH_ATTENTION.items())


# flash_attn_interface.flash_attn_func has these too; they go by name.
FLASH_ATTENTION_3 = {
    "num_splits": 7,
    "pack_gqa": True,
    "sm_margin": 8,
    "qv": None,
    "q_descale": None,
    "k_descale": None,
    "v_descale": None,
    "attention_chunk": 0,
}


def test_further_keywords():
    q, k, v = make_qkv()
    check(gqa.flash_attn_func(q, k, v, causal=True, **FLASH_ATTENTION_3), attention_float64(q, k, v, True)[0])


def test_result():
    q, k, v = make_qkv()
    check(gqa.flash_attn_func(q, k, v, causal=True), attention_float64(q, k, v, True)[0])
    check(gqa.flash_attn_func(q, k, v, 0.0, 0.2), attention_float64(q, k, v, scale=0.2)[0])
    check(gqa.flash_attn_func(q, k, v, window_size=(None, None), deterministic=True), attention_float64(q, k, v)[0])


def test_out():
    q, k, v = make_qkv()
    out = np.full((*q.shape[:3], v.shape[3]), np.nan, q.dtype)
    assert gqa.flash_attn_func(q, k, v, causal=True, out=out) is out
    check(out, attention_float64(q, k, v, True)[0])


@pytest.mark.parametrize("window", [(5, 0), (0, 3), (2, 2), (-1, 0), (7, -1)])
@pytest.mark.parametrize("causal", [False, True])
def test_window(window, causal):
    q, k, v = make_qkv()
    out, lse = gqa.flash_attn_func(q, k, v, causal=causal, window_size=window, return_softmax_lse=True)
    expected, expected_lse = attention_float64(q, k, v, causal, window=window)
    check(out, expected)
    check(lse, expected_lse)


def test_what_is_no_window_is_refused():
    with pytest.raises(gqa.GqaValueError, match="window"):
        gqa.flash_attn_func(*make_qkv(), window_size=(-2, 0))


@pytest.mark.parametrize("cap", [0.5, 30.0])
def test_softcap(cap):
    q, k, v = make_qkv()
    out, lse = gqa.flash_attn_func(q, k, v, causal=True, softcap=cap, return_softmax_lse=True)
    expected, expected_lse = attention_float64(q, k, v, True, softcap=cap)
    check(out, expected)
    check(lse, expected_lse)


@pytest.mark.parametrize("cap", [-1.0, float("nan"), float("inf")])
def test_what_is_no_softcap_is_refused(cap):
    with pytest.raises(gqa.GqaValueError, match="softcap is "):
        gqa.flash_attn_func(*make_qkv(), softcap=cap)


def test_sink():
    q, k, v = make_qkv()
    sink = np.linspace(-1, 5, q.shape[2], dtype=np.float32)
    out, lse = gqa.flash_attn_func(q, k, v, causal=True, sink=sink, return_softmax_lse=True)
    expected, expected_lse = attention_float64(q, k, v, True, sink=sink)
    check(out, expected)
    check(lse, expected_lse)
    with pytest.raises(gqa.GqaTypeError, match="sink is float16, expected float32"):
        gqa.flash_attn_func(q, k, v, sink=sink.astype(np.float16))


@pytest.mark.parametrize("softcap", [0.0, 2.0])
@pytest.mark.parametrize("shape", [(2,), (1, 2, 16), (3, 1, 16), (3, 2, 16)])
def test_score_scale(shape, softcap):
    q, k, v = make_qkv(batch=3, kv_len=20)
    factors = np.random.default_rng(5).uniform(-2, 2, shape).astype(np.float32)
    out, lse = gqa.flash_attn_func(
        q, k, v, causal=True, score_scale=factors, softcap=softcap, return_softmax_lse=True
    )
    beside = factors[:, None, None] if factors.ndim == 1 else factors[..., None]
    expected, expected_lse = attention_float64(q, k, v, True, score_scale=beside, softcap=softcap)
    check(out, expected)
    check(lse, expected_lse)


def padded_bias(shape, dtype, hidden):
    """Biases, some -inf, in rows with NaN between them; NaN where `hidden`, which no row sees."""
    generator = np.random.default_rng(6)
    storage = np.full((*shape[:-1], shape[-1] + 3), np.nan, dtype)
    bias = storage[..., : shape[-1]]
    bias[:] = generator.standard_normal(shape)
    bias[generator.random(shape) < 0.2] = -np.inf
    if hidden is not None:
        bias[np.broadcast_to(hidden, shape)] = np.nan
    return bias


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("shape", [(2, 2, 16, 20), (1, 2, 16, 20), (2, 1, 16, 20), (2, 2, 1, 20), (1, 1, 1, 20)])
def test_bias(shape, dtype):
    q, k, v = make_qkv(batch=2, kv_len=20)
    causal = shape[2] == 16
    hidden = np.arange(20)[None, :] > np.arange(16)[:, None] + 4 if causal else None
    bias = padded_bias(shape, dtype, hidden)
    out, lse = gqa.flash_attn_func(q, k, v, causal=causal, bias=bias, return_softmax_lse=True)
    expected, expected_lse = attention_float64(q, k, v, causal, bias=np.nan_to_num(bias, nan=0.0, neginf=-np.inf))
    check(out, expected)
    check(lse, expected_lse)


def test_a_bias_that_hides_all_keys_of_a_row_gives_0():
    q, k, v = make_qkv()
    bias = np.zeros((1, 1, 16, 16), np.float32)
    bias[0, 0, 3] = -np.inf
    out, lse = gqa.flash_attn_func(q, k, v, bias=bias, softcap=3.0, return_softmax_lse=True)
    assert (out[0, 3] == 0).all() and (lse[0, :, 3] == -np.inf).all()
    check(out, attention_float64(q, k, v, bias=bias, softcap=3.0)[0])


@pytest.mark.parametrize(
    "error,words,arrays",
    [
        (gqa.GqaTypeError, "bias is float64, expected float32 or, as q, float16", {"bias": np.zeros((1, 1, 16, 16))}),
        (gqa.GqaValueError, "bias has 2 dimensions, expected 4", {"bias": np.zeros((16, 16), np.float32)}),
        (gqa.GqaValueError, "bias has q_len 4, expected 16 or 1", {"bias": np.zeros((1, 1, 4, 16), np.float32)}),
        (gqa.GqaValueError, "score_scale has q_heads 3, but q has", {"score_scale": np.ones(3, np.float32)}),
        (gqa.GqaTypeError, "score_scale is float16, expected float32", {"score_scale": np.ones(2, np.float16)}),
    ],
)
def test_what_are_no_arrays_of_scores_is_refused(error, words, arrays):
    with pytest.raises(error, match=words):
        gqa.flash_attn_func(*make_qkv(), **arrays)


def test_lse():
    q, k, v = make_qkv()
    expected, expected_lse = attention_float64(q, k, v)
    out, lse, probabilities = gqa.flash_attn_func(q, k, v, return_attn_probs=True)
    check(out, expected)
    check(lse, expected_lse)
    assert probabilities is None
    out, lse = gqa.flash_attn_func(q, k, v, return_softmax_lse=True)
    check(lse, expected_lse)


@pytest.mark.parametrize(
    "name,value",
    [("dropout_p", 0.1), ("alibi_slopes", [1])],
)
def test_what_is_not_computed_is_refused(name, value):
    with pytest.raises(NotImplementedError) as caught:
        gqa.flash_attn_func(*make_qkv(), **{name: value})
    assert f"flash_attn_func was given {name}={value!r}; gqa computes {name}=" in str(caught.value)


@pytest.mark.parametrize("name", ["qv", "q_descale", "k_descale", "v_descale", "attention_chunk"])
def test_what_flash_attention_3_adds_is_refused(name):
    value = 64 if name == "attention_chunk" else np.ones(1, np.float32)
    with pytest.raises(NotImplementedError, match=f"flash_attn_func was given {name}="):
        gqa.flash_attn_func(*make_qkv(), **{name: value})
