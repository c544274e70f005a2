"""merge_states: parts of attention merged into attention on all keys, on each kind of tensor; its refusals."""

import gqa
import numpy as np
import pytest

from conftest import Producer, attention_float64, check, make_qkv


def parts_of(count=3, batch=2, q_len=3, heads=4, head_dim=32, dtype=np.float16, packed=False):
    generator = np.random.default_rng(11)
    shape = (q_len, heads, head_dim) if packed else (batch, q_len, heads, head_dim)
    lse_shape = (heads, q_len) if packed else (batch, heads, q_len)
    outs = [generator.standard_normal(shape).astype(dtype) for _ in range(count)]
    return outs, [generator.standard_normal(lse_shape).astype(np.float32) for _ in range(count)]


def merged_float64(outs, lses):
    """As float64 merges them; parts of lse -inf are not looked at."""
    lse = np.logaddexp.reduce(np.array(lses, np.float64))
    out = np.zeros(outs[0].shape)
    with np.errstate(invalid="ignore"):
        for part, own in zip(outs, lses):
            weight = np.swapaxes(np.exp(own - np.where(np.isneginf(lse), 0, lse)), -1, -2)[..., None]
            out += np.where(weight == 0, 0, weight * part)
    return out, lse


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("count", [1, 2, 40])
def test_as_float64(count, dtype, packed):
    outs, lses = parts_of(count, dtype=dtype, packed=packed)
    lses[0][..., 1] = lses[-1][..., 2] = -np.inf
    outs[0][..., 1, :, :] = np.nan  # a part that saw no key may hold anything
    for own in lses:
        own[..., 0, 0] = -np.inf
    out, lse = gqa.merge_states(outs, lses)
    expected, expected_lse = merged_float64(outs, lses)
    assert out.dtype == dtype and lse.dtype == np.float32
    np.testing.assert_allclose(out, expected, rtol=6e-4 if dtype == np.float16 else 2e-6, atol=1e-6)
    np.testing.assert_allclose(lse, expected_lse, rtol=2e-6, atol=2e-6)


def test_halves_of_the_keys(handle):
    q, k, v = make_qkv(q_len=5, kv_len=40, q_heads=4, kv_heads=2)
    prefix = handle.attention(q, k[:, :24], v[:, :24], return_lse=True)
    own = handle.attention(q, k[:, 24:], v[:, 24:], causal=True, return_lse=True)
    out, lse = gqa.merge_states(*zip(prefix, own), handle=handle)
    whole, whole_lse = handle.attention(q, k, v, causal=True, return_lse=True)
    check(out, attention_float64(q, k, v, causal=True)[0])
    np.testing.assert_allclose(lse, whole_lse, atol=1e-4)


def test_writes_where_it_is_told_and_takes_one_tensor_of_all_parts():
    outs, lses = parts_of()
    out, lse = np.zeros_like(outs[0]), np.zeros_like(lses[0])
    result = gqa.merge_states(np.stack(outs), np.stack(lses), out=out, lse=lse)
    assert result[0] is out and result[1] is lse
    np.testing.assert_array_equal(out, gqa.merge_states(outs, lses)[0])


@pytest.mark.parametrize("packed", [False, True])
def test_in_place(packed):
    outs, lses = parts_of(packed=packed, head_dim=200)
    expected = gqa.merge_states(outs, lses)
    assert gqa.merge_states(outs, lses, out=outs[0], lse=lses[0])[0] is outs[0]
    np.testing.assert_array_equal(outs[0], expected[0])
    np.testing.assert_array_equal(lses[0], expected[1])
    with pytest.raises(gqa.GqaValueError, match=r"overlap outs\[1\]'s"):
        gqa.merge_states(outs, lses, out=outs[1])


def test_tensors_of_other_kinds():
    outs, lses = parts_of(2)
    expected = gqa.merge_states(outs, lses)
    foreign = gqa.merge_states([Producer(part) for part in outs], lses)
    np.testing.assert_array_equal(np.from_dlpack(foreign[0]), expected[0])
    torch = pytest.importorskip("torch", reason="test_tensors_of_other_kinds needs PyTorch")
    out, lse = gqa.merge_states([torch.from_numpy(part) for part in outs], [torch.from_numpy(own) for own in lses])
    np.testing.assert_array_equal(out.numpy(), expected[0])
    np.testing.assert_array_equal(lse.numpy(), expected[1])


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda o, n: (o, n[:1]), gqa.GqaValueError, "there are 2 outs and 1 lses"),
        (lambda o, n: ([], []), gqa.GqaValueError, "there are 0 outs and 0 lses"),
        (lambda o, n: ([o[0], o[1][:, :2]], n), gqa.GqaValueError, r"outs\[1\] has q_len 2"),
        (lambda o, n: (o, [n[0], n[1][:, :3]]), gqa.GqaValueError, r"lses\[1\] has q_heads 3"),
        (lambda o, n: ([o[0], o[1].astype(np.float32)], n), gqa.GqaTypeError, r"outs\[1\] is float32"),
        (lambda o, n: (o, [n[0], n[1].astype(np.float64)]), gqa.GqaTypeError, r"lses\[1\] is float64"),
        (lambda o, n: ([o[0], "part"], n), gqa.GqaTypeError, r"outs\[1\] is a str"),
    ],
)
def test_refused(change, error, words):
    outs, lses = change(*parts_of(2))
    with pytest.raises(error, match=words):
        gqa.merge_states(outs, lses)


def test_out_must_not_be_a_part():
    outs, lses = parts_of(2)
    with pytest.raises(gqa.GqaValueError, match=r"out touches bytes .* overlap outs\[1\]'s"):
        gqa.merge_states(outs, lses, out=outs[1])


@pytest.mark.gpu
def test_a_shape_that_is_warmed_with_lse_lets_it_be_captured(tmp_path):
    import torch

    outs, lses = parts_of(2, head_dim=64)
    on_gpu = [torch.from_numpy(part).cuda() for part in (*outs, *lses, np.zeros_like(outs[0]), np.zeros_like(lses[0]))]
    graph = torch.cuda.CUDAGraph()
    with gqa.Handle("cuda:0", cache_path=tmp_path / "cache.db", tuning_budget=1.0) as handle:
        handle.warm(batch=1, q_len=1, kv_len=64, q_heads=4, kv_heads=4, head_dim=64, return_lse=True)
        with torch.cuda.graph(graph):
            gqa.merge_states(on_gpu[:2], on_gpu[2:4], out=on_gpu[4], lse=on_gpu[5], handle=handle)
        graph.replay()
        expected, expected_lse = merged_float64(outs, lses)
        np.testing.assert_allclose(on_gpu[4].cpu().numpy(), expected, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(on_gpu[5].cpu().numpy(), expected_lse, rtol=2e-6, atol=2e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_on_a_gpu(dtype):
    import torch

    outs, lses = parts_of(5, q_len=33, head_dim=128, dtype=np.float32)
    lses[2][:, :, 7] = -np.inf
    on_gpu = [torch.from_numpy(part).cuda().to(getattr(torch, dtype)) for part in outs]
    out, lse = gqa.merge_states(on_gpu, [torch.from_numpy(own).cuda() for own in lses])
    expected, expected_lse = merged_float64([part.double().cpu().numpy() for part in on_gpu], lses)
    tolerance = {"float16": 6e-4, "bfloat16": 5e-3, "float32": 3e-6}[dtype]
    np.testing.assert_allclose(out.double().cpu().numpy(), expected, rtol=tolerance, atol=3e-6)
    np.testing.assert_allclose(lse.cpu().numpy(), expected_lse, rtol=2e-6, atol=2e-6)


@pytest.mark.gpu
def test_in_place_on_a_gpu():
    import torch

    outs, lses = parts_of(40, q_len=33, head_dim=128)  # two rounds
    on_gpu = [[torch.from_numpy(part).cuda() for part in parts] for parts in (outs, lses)]
    gqa.merge_states(*on_gpu, out=on_gpu[0][0], lse=on_gpu[1][0])
    expected, expected_lse = merged_float64(outs, lses)
    np.testing.assert_allclose(on_gpu[0][0].cpu().numpy(), expected, rtol=2e-3, atol=5e-4)
    np.testing.assert_allclose(on_gpu[1][0].cpu().numpy(), expected_lse, rtol=2e-6, atol=2e-6)
