"""The options of scores and windows, the same in every function that attends: window_size, softcap, sink, score_scale, bias."""

import gqa
import numpy as np
import pytest

from conftest import attention_float64, check, make_qkv

def scored(q, k, v, window_size=(-1, -1), score_scale=None, **options):
    """What is expected of a call with these options."""
    if score_scale is not None:
        score_scale = score_scale[None, :, None, None] if score_scale.ndim == 1 else score_scale[..., None]
    window = tuple(-1 if side is None else side for side in window_size)
    return attention_float64(q, k, v, window=window, score_scale=score_scale, **options)[0]


SINK = np.array([0.5, -1], np.float32)
FACTORS = np.array([0.5, 2], np.float32)
ROWS = np.linspace(0.5, 1.5, 2 * 16).astype(np.float32).reshape(1, 2, 16)
BIAS = np.linspace(-2, 2, 16 * 24).astype(np.float32).reshape(1, 1, 16, 24)
CASES = [
    dict(window_size=(3, 0)),
    dict(window_size=(4, None), causal=True),
    dict(softcap=1.5),
    dict(sink=SINK),
    dict(score_scale=FACTORS),
    dict(score_scale=ROWS, causal=True),
    dict(bias=BIAS, softcap=2.0),
    dict(bias=BIAS.astype(np.float16), score_scale=FACTORS, sink=SINK, window_size=(9, 2)),
]


def attends(handle):
    return {
        "gqa.attention": lambda q, k, v, **more: gqa.attention(q, k, v, handle=handle, **more),
        "Handle.attention": handle.attention,
        "flash_attn_func": lambda q, k, v, **more: gqa.flash_attn_func(q, k, v, handle=handle, **more),
        "flash_attn_with_kvcache": lambda q, k, v, **more: gqa.flash_attn_with_kvcache(q, k, v, handle=handle, **more),
        "flash_attn_varlen_func": lambda q, k, v, **more: gqa.flash_attn_varlen_func(
            q, k, v, None, None, 16, 24, handle=handle, **more
        ),
    }


FUNCTIONS = (
    "gqa.attention",
    "Handle.attention",
    "flash_attn_func",
    "flash_attn_with_kvcache",
    "flash_attn_varlen_func",
)


@pytest.mark.parametrize("given", CASES, ids="-".join)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_has_them(handle, function, given):
    q, k, v = make_qkv(q_len=16, kv_len=24)
    check(attends(handle)[function](q, k, v, **given), scored(q, k, v, **given))


def test_pages_take_a_bias_of_all_their_keys(handle):
    q, k, v = make_qkv(q_len=4, kv_len=32)
    table = np.array([[1, 0]], np.int32)
    pages = [x.reshape(2, 16, *x.shape[2:])[::-1].copy() for x in (k, v)]
    bias = np.linspace(-2, 2, 4 * 32).astype(np.float32).reshape(1, 1, 4, 32)
    out = gqa.flash_attn_with_kvcache(q, *pages, page_table=table, bias=bias, handle=handle)
    check(out, scored(q, k, v, bias=bias))


def test_packed_sequences_take_factors_of_heads_and_no_bias(handle):
    q, k, v = (x[0] for x in make_qkv(q_len=24, kv_len=24))
    starts = np.array([0, 10, 24], np.int32)
    out = gqa.flash_attn_varlen_func(q, k, v, starts, starts, 14, 14, score_scale=FACTORS, handle=handle)
    for a, b in ((0, 10), (10, 24)):
        check(out[None, a:b], scored(q[None, a:b], k[None, a:b], v[None, a:b], score_scale=FACTORS))
    for words, more in (
        ("bias with packed sequences", dict(bias=np.zeros((1, 1, 1, 24), np.float32))),
        ("score_scale of each row with packed sequences", dict(score_scale=ROWS)),
    ):
        with pytest.raises(gqa.GqaValueError, match=words):
            gqa.flash_attn_varlen_func(q, k, v, starts, starts, 14, 14, handle=handle, **more)


def test_refusals_are_in_the_functions_words(handle):
    q, k, v = make_qkv(q_len=16, kv_len=24)
    new = k[:, :1]
    lengths = np.array([3], np.int32)
    with pytest.raises(gqa.GqaValueError, match="^bias with packed sequences or k, expected none"):
        gqa.flash_attn_with_kvcache(q, k, v, new, new, cache_seqlens=lengths, bias=BIAS, handle=handle)
    with pytest.raises(gqa.GqaValueError, match="softcap, score_scale and bias, expected at most two of them"):
        gqa.attention(q, k, v, softcap=1.0, score_scale=FACTORS, bias=BIAS, handle=handle)
    with pytest.raises(gqa.GqaTypeError, match="^window_size is 3; expected two numbers"):
        handle.attention(q, k, v, window_size=3)
    with pytest.raises((gqa.GqaTypeError, TypeError), match="^handle is "):
        gqa.attention(q, k, v, handle="host")


def test_a_warmed_shape_serves_factors_and_biases(tmp_path):
    q, k, v = make_qkv(q_len=16, kv_len=24)
    shape = dict(batch=1, q_len=16, kv_len=24, q_heads=2, kv_heads=1, head_dim=32, dtype="float16")
    told = []
    with gqa.Handle("host", cache_path=tmp_path / "c.db", tuning_budget=0.1, log=lambda *line: told.append(line)) as own:
        own.warm(**shape, score_scale="heads")
        own.warm(**shape, score_scale="rows", bias="float32")
        own.warm(**shape, bias=np.float16)
        before = len(told)
        assert before
        own.attention(q, k, v, score_scale=FACTORS)
        own.attention(q, k, v, score_scale=ROWS, bias=BIAS)
        own.attention(q, k, v, bias=BIAS.astype(np.float16))
        assert len(told) == before
        for words, more in (
            ("score_scale is 'row'; expected one of None, 'heads', 'rows'", dict(score_scale="row")),
            ("bias is bfloat16; expected float32 or, as q, float16", dict(bias="bfloat16")),
            ("bias is True; expected float32 or, as q, float16", dict(bias=True)),
        ):
            with pytest.raises((gqa.GqaValueError, gqa.GqaTypeError), match=words):
                own.warm(**shape, **more)
