"""What goes in and comes out: kinds, strides, out=, read-only arrays, the capsule protocol."""

import gc
import weakref

import gqa
import numpy as np
import pytest

from conftest import Producer, attention_float64, check, make_qkv


def test_numpy_gives_numpy(shared):
    q, k, v = make_qkv()
    out, lse = shared.attention(q, k, v, return_lse=True)
    assert type(out) is np.ndarray and out.dtype == np.float16 and out.shape == q.shape
    assert type(lse) is np.ndarray and lse.dtype == np.float32 and lse.shape == (1, 2, 16)


def test_heads_first_views(shared):
    q, k, v = make_qkv(batch=2, q_len=19, kv_len=21, q_heads=4, kv_heads=2)
    views = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for x in (q, k, v)]
    assert not views[0].flags.c_contiguous
    out = np.empty((2, 4, 19, 32), np.float16).transpose(0, 2, 1, 3)
    assert shared.attention(*views, causal=True, out=out) is out
    check(out, attention_float64(q, k, v, True)[0])


def test_slices_of_a_fused_projection(shared):
    """q, k and v side by side in one array, as a fused projection leaves them; rows read backwards."""
    fused = np.random.default_rng(1).standard_normal((2, 10, 4, 32)).astype(np.float16)
    q, k, v = fused[:, :, :2], fused[:, ::-1, 2:3], fused[:, :, 3:]
    check(shared.attention(q, k, v), attention_float64(q, k, v)[0])


def test_broadcast_batch(shared):
    """A stride of 0 is a stride: one prompt's keys for a batch of queries."""
    q, k, v = make_qkv(batch=3)
    k, v = (np.broadcast_to(x[:1], x.shape) for x in (k, v))
    check(shared.attention(q, k, v), attention_float64(q, k, v)[0])


def test_out_is_written_and_returned(shared):
    q, k, v = make_qkv()
    out = np.full(q.shape, np.nan, np.float16)
    assert shared.attention(q, k, v, out=out) is out
    check(out, attention_float64(q, k, v)[0])


def test_out_between_guards_is_all_that_is_written(shared):
    q, k, v = make_qkv(q_len=7, q_heads=2)
    around = np.full((1, 7, 4, 32), 7.0, np.float16)
    shared.attention(q, k, v, out=around[:, :, 1:3])
    assert (around[:, :, 0] == 7.0).all() and (around[:, :, 3] == 7.0).all()
    check(around[:, :, 1:3], attention_float64(q, k, v)[0])


def test_read_only_inputs(shared):
    q, k, v = make_qkv()
    for array in (q, k, v):
        array.flags.writeable = False
    check(shared.attention(q, k, v), attention_float64(q, k, v)[0])


def test_numpy_subclasses(shared, tmp_path):
    q, k, v = make_qkv()
    mapped = np.memmap(tmp_path / "q", np.float16, "w+", shape=q.shape)
    mapped[:] = q
    check(shared.attention(mapped, k, v), attention_float64(q, k, v)[0])


@pytest.mark.parametrize("keywords", [("stream", "max_version", "dl_device", "copy"), ("stream",), ()])
def test_unknown_framework(shared, keywords):
    """New, old and oldest producers: each tensor exported once, an object that speaks DLPack returned."""
    q, k, v = make_qkv()
    producers = [Producer(array, keywords) for array in (q, k, v)]
    out, lse = shared.attention(*producers, return_lse=True)
    assert isinstance(out, gqa.Array) and out.shape == q.shape and out.dtype == "float16"
    assert lse.dtype == "float32" and lse.__dlpack_device__() == (1, 0)
    expected, expected_lse = attention_float64(q, k, v)
    check(np.from_dlpack(out), expected)
    check(np.from_dlpack(lse), expected_lse)
    assert [producer.exports for producer in producers] == [1, 1, 1]


def test_array_outlives_itself_in_its_exports(shared):
    out = shared.attention(*(Producer(x) for x in make_qkv()))
    seen = np.from_dlpack(out)
    before = seen.copy()
    del out
    gc.collect()
    assert (seen == before).all()


def test_array_goes_back_in(shared):
    q, k, v = make_qkv(kv_heads=2)
    once = shared.attention(Producer(q), Producer(k), Producer(v))
    twice = np.from_dlpack(shared.attention(once, k, v))
    check(twice, attention_float64(np.from_dlpack(once), k, v)[0])


def test_array_refuses_what_it_cannot_export(shared):
    out = shared.attention(*(Producer(x) for x in make_qkv()))
    with pytest.raises(gqa.GqaValueError, match="stream"):
        out.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="host"):
        out.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="copy"):
        out.__dlpack__(copy=True)


@pytest.mark.parametrize("wrap", [Producer, lambda array: array], ids=["capsule", "buffer"])
@pytest.mark.parametrize("bad", [False, True], ids=["good", "refused"])
def test_exports_are_given_back(shared, wrap, bad):
    """Neither a good nor a refused call keeps a producer's memory alive."""
    q, k, v = make_qkv(kv_heads=2, q_heads=3 if bad else 2)
    gone = weakref.ref(q)
    try:
        shared.attention(wrap(q), wrap(k), wrap(v))
        assert not bad
    except gqa.GqaValueError as error:
        assert bad and error.status == gqa.Status.ERROR_HEADS
    del q
    gc.collect()
    assert gone() is None


def test_a_bare_capsule_is_refused(shared):
    q, k, v = make_qkv()
    with pytest.raises(gqa.GqaTypeError, match="q is a PyCapsule"):
        shared.attention(q.__dlpack__(), k, v)


def test_mixed_kinds(shared):
    """q decides what comes back."""
    q, k, v = make_qkv()
    assert type(shared.attention(q, Producer(k), v)) is np.ndarray
    assert type(shared.attention(Producer(q), k, v)) is gqa.Array
