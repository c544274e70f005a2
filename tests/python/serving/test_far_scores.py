"""Finite scores far from zero, as masks that fill with a finite number and large inputs make them; sinks as large, and
larger; parts that are marked empty by +inf."""

import gqa
import numpy as np
import pytest

from conftest import attention_float64, check, make_qkv

LEAST = float(np.finfo(np.float32).min)


def constant(x):
    return np.full((1, 1, 1, 64), x, np.float16)


def bias_of(x):
    return np.full((1, 1, 1, 1), x, np.float32)


@pytest.mark.parametrize("score", [-1.586e9, 1.586e9, -1e15, 1e15, -1e20, 1e20, 3e38, LEAST, -LEAST, -1e9, -5e9])
def test_one_key_of_any_score(score):
    out, lse = gqa.flash_attn_func(constant(0), constant(0), constant(1), bias=bias_of(score), return_softmax_lse=True)
    assert (out == 1).all()
    np.testing.assert_allclose(lse, np.float32(score), rtol=2e-7)


def test_products_of_large_inputs():
    out, lse = gqa.flash_attn_func(constant(20992), constant(20992), constant(1), return_softmax_lse=True)
    assert (out == 1).all()
    np.testing.assert_allclose(lse, 20992.0**2 * 8, rtol=2e-7)


MASKS = {
    "causal": lambda i, j: j > i,
    "left padded": lambda i, j: (j < 15) | (j > i),
    "right padded": lambda i, j: (j >= 20) & (i >= 0),
    "whole rows": lambda i, j: (i % 3 == 1) & (j >= 0),
    "all": lambda i, j: (i >= 0) & (j >= 0),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("number", [LEAST, -5e9, -1e9, -1e4, -np.inf])
def test_masks_that_fill_with_a_number(number, mask):
    q, k, v = make_qkv(q_len=40, kv_len=40)
    hidden = MASKS[mask](np.arange(40)[:, None], np.arange(40)[None, :])
    bias = np.where(hidden, np.float32(number), np.float32(0))[None, None]
    out, lse = gqa.flash_attn_func(q, k, v, bias=bias, return_softmax_lse=True)
    # A row that is hidden whole, but not by -inf, has scores that are equal in float32: it is the average.
    whole = hidden.all(-1) & (number in (LEAST, -5e9, -1e9))
    if whole.any():
        average = np.repeat(v.astype(np.float64).mean(1, keepdims=True), 2, axis=2)
        check(out[:, whole], np.broadcast_to(average, out[:, whole].shape))
        np.testing.assert_allclose(lse[:, :, whole], number + np.log(40), rtol=2e-7)
    if whole.all():
        return
    out, lse, q, bias = out[:, ~whole], lse[:, :, ~whole], q[:, ~whole], bias[:, :, ~whole]
    expected, expected_lse = attention_float64(q, k, v, bias=bias)
    check(out, expected)
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-5, atol=1e-4)


def test_least_numbers_of_the_inputs_own_type():
    q, k, v = make_qkv(q_len=40, kv_len=40)
    bias = np.where(MASKS["left padded"](np.arange(40)[:, None], np.arange(40)), np.finfo(np.float16).min, 0)
    check(
        gqa.flash_attn_func(q, k, v, bias=bias[None, None].astype(np.float16))[:, 15:],
        attention_float64(q, k, v, bias=bias)[0][:, 15:],
    )
    torch = pytest.importorskip("torch", reason="test_least_numbers_of_the_inputs_own_type needs PyTorch")
    least = torch.finfo(torch.bfloat16).min
    of_torch = [torch.from_numpy(x).bfloat16() for x in (q, k, v)]
    hidden = torch.from_numpy(bias != 0)[None, None]
    out = gqa.flash_attn_func(*of_torch, bias=torch.zeros(1, 1, 40, 40).masked_fill(hidden, least).bfloat16())
    expected = attention_float64(*(x.float().numpy() for x in of_torch), bias=np.where(hidden, least, 0))[0]
    check(out.float().numpy(), expected, 2e-2)


@pytest.mark.parametrize("sink", [2.4e38, 3e38, np.inf])
def test_a_sink_that_outweighs_all_scores(sink):
    q, k, v = make_qkv()
    out, lse = gqa.flash_attn_func(q, k, v, sink=np.array([sink, 0], np.float32), return_softmax_lse=True)
    assert (out[:, :, 0] == 0).all()
    np.testing.assert_array_equal(lse[:, 0], np.full((1, 16), sink, np.float32))
    check(out[:, :, 1:], attention_float64(q, k, v, sink=np.zeros(2))[0][:, :, 1:])


def test_parts_that_are_marked_empty_by_infinity():
    outs = [np.full((1, 1, 2, 8), x, np.float16) for x in (3, np.nan)]
    lses = [np.array([[[0.5], [np.inf]]], np.float32), np.array([[[np.inf], [np.inf]]], np.float32)]
    outs[0][0, 0, 1] = np.nan
    out, lse = gqa.merge_states(outs, lses)
    assert (out[0, 0, 0] == 3).all() and (out[0, 0, 1] == 0).all()
    np.testing.assert_array_equal(lse, np.array([[[0.5], [-np.inf]]], np.float32))
