"""Every shape rule, on the host, against float64."""

import numpy as np
import pytest

from conftest import attention_float64, check, make_qkv

HEAD_DIMS = [16, 32, 64, 80, 96, 112, 128, 192, 256]
GROUPS = [(4, 4), (8, 1), (5, 1), (6, 1), (7, 1), (12, 2), (14, 2), (8, 2)]
LENGTHS = [(1, 1), (1, 37), (3, 64), (17, 17), (33, 100), (65, 31), (130, 129)]


def hold(handle, causal=False, scale=None, **shape):
    q, k, v = make_qkv(**shape)
    out, lse = handle.attention(q, k, v, causal=causal, scale=scale, return_lse=True)
    expected, expected_lse = attention_float64(q, k, v, causal, scale)
    check(out, expected)
    assert lse.shape == expected_lse.shape and lse.dtype == np.float32
    seen = np.isfinite(expected_lse)
    assert (np.isneginf(lse) == ~seen).all()
    assert np.abs(lse[seen] - expected_lse[seen]).max(initial=0.0) <= 2e-3


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_head_dims(shared, head_dim):
    hold(shared, q_len=20, kv_len=24, head_dim=head_dim)


def test_head_dim_of_v_differs(shared):
    hold(shared, q_len=20, kv_len=24, head_dim=192, head_dim_v=128)
    hold(shared, q_len=1, kv_len=24, head_dim=64, head_dim_v=128)


@pytest.mark.parametrize("q_heads,kv_heads", GROUPS)
def test_groups(shared, q_heads, kv_heads):
    hold(shared, q_heads=q_heads, kv_heads=kv_heads)
    hold(shared, q_heads=q_heads, kv_heads=kv_heads, q_len=1, kv_len=40)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("q_len,kv_len", LENGTHS)
def test_lengths(shared, q_len, kv_len, causal):
    """Causal with more queries than keys has rows that see nothing: 0, and an lse of -inf."""
    hold(shared, causal=causal, q_len=q_len, kv_len=kv_len)


def test_batches(shared):
    hold(shared, batch=5, q_len=7, kv_len=9)


def test_batch_times_heads_past_65535(shared):
    hold(shared, batch=2100, q_heads=32, kv_heads=8, q_len=1, kv_len=2)


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0])
def test_scale(shared, scale):
    hold(shared, scale=scale)


def test_large_scores_do_not_overflow(shared):
    q, k, v = make_qkv(q_len=8, kv_len=40)
    q, k = q * np.float16(30), k * np.float16(30)
    check(shared.attention(q, k, v), attention_float64(q, k, v)[0])


def test_bfloat16(shared):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="test_bfloat16 needs ml_dtypes")
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in make_qkv(q_len=9, kv_len=33))
    out = shared.attention(q, k, v, causal=True)
    assert out.dtype == ml_dtypes.bfloat16
    check(out, attention_float64(q, k, v, True)[0], tolerance=3e-2)
