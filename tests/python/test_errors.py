"""Bad input: each mistake has a status, a class and a message that names what was given."""

import pickle

import gqa
import numpy as np
import pytest
from gqa import Status, _gqa

from conftest import Producer, make_qkv


def refused(call, kind, status, *words):
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, gqa.GqaError)
    assert caught.value.status == status, str(caught.value)
    for word in words:
        assert str(word) in str(caught.value), f"{word!r} is not in: {caught.value}"


def test_statuses_are_those_of_the_library():
    for number in range(64):
        name = _gqa.status_string(number)
        known = {int(status) for status in Status}
        assert (number in known) == (name in {f"GQA_{status.name}" for status in Status})
        if number in known:
            assert name == f"GQA_{Status(number).name}"


def test_classes():
    assert issubclass(gqa.GqaValueError, ValueError) and issubclass(gqa.GqaValueError, gqa.GqaError)
    assert issubclass(gqa.GqaTypeError, TypeError) and issubclass(gqa.GqaTypeError, gqa.GqaError)
    assert issubclass(gqa.GqaMemoryError, MemoryError) and issubclass(gqa.GqaMemoryError, gqa.GqaError)
    copy = pickle.loads(pickle.dumps(gqa.GqaValueError("why", Status.ERROR_RANK)))
    assert str(copy) == "why" and copy.status == Status.ERROR_RANK


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_rank(handle, name):
    tensors = dict(zip("qkv", make_qkv()))
    tensors[name] = tensors[name][0]
    refused(lambda: handle.attention(**tensors), gqa.GqaValueError, Status.ERROR_RANK, name, 3, 4)


@pytest.mark.parametrize("dtype", ["float64", "int16", "uint16", "complex64", ">f2"])
def test_dtype(handle, dtype):
    q, k, v = (x.astype(dtype) for x in make_qkv())
    refused(lambda: handle.attention(q, k, v), gqa.GqaTypeError, Status.ERROR_DTYPE, "q", "float16")


def test_dtypes_that_differ(handle):
    q, k, v = make_qkv()
    refused(lambda: handle.attention(q, k, v.astype(np.float32)), gqa.GqaTypeError, Status.ERROR_DTYPE, "v")


@pytest.mark.parametrize("thing", [[1.0], None, 3, "tensor", object()], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_no_tensor(handle, name, thing):
    tensors = {**dict(zip("qkv", make_qkv())), name: thing}
    refused(lambda: handle.attention(**tensors), gqa.GqaTypeError, Status.ERROR_DTYPE, name, type(thing).__name__)


def test_out_is_no_tensor(handle):
    refused(lambda: handle.attention(*make_qkv(), out=[0]), gqa.GqaTypeError, Status.ERROR_DTYPE, "out", "list")


@pytest.mark.parametrize(
    "change,numbers",
    [({"kv_len": 9}, (9, 16)), ({"batch": 3}, (3, 1)), ({"kv_heads": 2}, (2, 1))],
    ids=["kv_len", "batch", "kv_heads"],
)
def test_shapes_that_disagree(handle, change, numbers):
    q, k, _ = make_qkv()
    _, _, v = make_qkv(**change)
    refused(lambda: handle.attention(q, k, v), gqa.GqaValueError, Status.ERROR_SHAPE, *numbers)


def test_head_dim_of_k_differs(handle):
    q, k, v = make_qkv()
    refused(lambda: handle.attention(q, np.repeat(k, 2, 3), v), gqa.GqaValueError, Status.ERROR_SHAPE, 32, 64)


def test_out_of_another_shape(handle):
    q, k, v = make_qkv()
    out = np.empty((1, 16, 2, 64), np.float16)
    refused(lambda: handle.attention(q, k, v, out=out), gqa.GqaValueError, Status.ERROR_SHAPE, 64, 32)


def test_head_dim(handle):
    q, k, v = make_qkv(head_dim=40)
    refused(lambda: handle.attention(q, k, v), gqa.GqaValueError, Status.ERROR_HEAD_DIM, 40)


def test_heads(handle):
    q, k, v = make_qkv(q_heads=5, kv_heads=2)
    refused(lambda: handle.attention(q, k, v), gqa.GqaValueError, Status.ERROR_HEADS, 5, 2)


def test_empty(handle):
    q, k, v = make_qkv(q_len=0)
    out, lse = handle.attention(q, k, v, return_lse=True)
    assert np.asarray(out).shape == q.shape and np.asarray(lse).shape == (q.shape[0], q.shape[2], 0)
    q, k, v = make_qkv(kv_len=0)
    refused(lambda: handle.attention(q, k, v), gqa.GqaValueError, Status.ERROR_SIZE, 0)


def test_last_stride(handle):
    q, k, v = make_qkv(head_dim=64)
    refused(lambda: handle.attention(q[..., ::2], k[..., ::2], v[..., ::2]), gqa.GqaValueError, Status.ERROR_STRIDE, 2)


def test_stride_that_is_no_multiple_of_an_element(handle):
    q, k, v = make_qkv()
    records = np.zeros((1, 16, 2), np.dtype([("row", np.float16, 32), ("odd", np.uint8)]))
    refused(lambda: handle.attention(records["row"], k, v), gqa.GqaValueError, Status.ERROR_STRIDE, "q", 65)


def test_misaligned(handle):
    """Handled or refused, never wrong."""
    q, k, v = make_qkv()
    raw = np.zeros(q.nbytes + 1, np.uint8)
    shifted = raw[1:].view(np.float16).reshape(q.shape)
    refused(lambda: handle.attention(shifted, k, v), gqa.GqaValueError, Status.ERROR_ALIGNMENT, "q")


def test_out_overlaps_an_input(handle):
    q, k, v = make_qkv()
    refused(lambda: handle.attention(q, k, v, out=q), gqa.GqaValueError, Status.ERROR_ALIAS, "out", "q")


def test_out_overlaps_itself(handle):
    q, k, v = make_qkv()
    out = np.lib.stride_tricks.as_strided(np.empty(q.shape, np.float16), q.shape, (0, 0, 64, 2))
    refused(lambda: handle.attention(q, k, v, out=out), gqa.GqaValueError, Status.ERROR_STRIDE, "out")


def test_read_only_out(handle):
    q, k, v = make_qkv()
    out = np.empty(q.shape, np.float16)
    out.flags.writeable = False
    refused(lambda: handle.attention(q, k, v, out=out), gqa.GqaValueError, Status.ERROR_OPTION, "out", "read-only")


def test_read_only_out_of_a_versioned_producer(handle):
    q, k, v = make_qkv()
    out = np.empty(q.shape, np.float16)
    out.flags.writeable = False
    try:
        out.__dlpack__(max_version=(1, 0))
    except (BufferError, TypeError):
        pytest.skip("test_read_only_out_of_a_versioned_producer needs NumPy 2.1, which exports read-only arrays")
    refused(
        lambda: handle.attention(q, k, v, out=Producer(out)), gqa.GqaValueError, Status.ERROR_OPTION, "out", "read-only"
    )


@pytest.mark.parametrize("scale", [0, 0.0, -0.3, float("nan"), float("inf")])
def test_scale(handle, scale):
    refused(lambda: handle.attention(*make_qkv(), scale=scale), gqa.GqaValueError, Status.ERROR_OPTION, "scale")


@pytest.mark.parametrize(
    "options,words",
    [
        ({"device": "tpu"}, ("device", "tpu")),
        ({"cache_mode": "sometimes"}, ("cache_mode", "sometimes", "read-only")),
        ({"tuning": "later"}, ("tuning", "later", "cached-only")),
        ({"tuning_budget": -1.0}, ("tuning_budget", "-1")),
        ({"threads": -2}, ("threads", "-2")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options(tmp_path, options, words):
    given = {"device": "host", "cache_path": tmp_path / "cache.db", **options}
    refused(lambda: gqa.Handle(**given), gqa.GqaValueError, Status.ERROR_OPTION, *words)


def test_log_is_no_callable():
    with pytest.raises(TypeError, match="log is a str"):
        gqa.Handle("host", log="stderr")


def test_no_such_gpu(tmp_path):
    with pytest.raises(gqa.GqaError) as caught:
        gqa.Handle("cuda:99", cache_path=tmp_path / "cache.db")
    assert caught.value.status == Status.ERROR_NO_DEVICE


def test_nothing_cached(tmp_path):
    with gqa.Handle("host", cache_path=tmp_path / "cache.db", tuning="cached-only") as handle:
        with pytest.raises(gqa.GqaError) as caught:
            handle.attention(*make_qkv())
    assert caught.value.status == Status.ERROR_NOT_CACHED
    assert not isinstance(caught.value, ValueError)


def test_closed_handle(handle):
    handle.close()
    handle.close()
    refused(lambda: handle.attention(*make_qkv()), gqa.GqaValueError, Status.ERROR_NULL_ARGUMENT, "closed")
    assert "closed" in repr(handle)


@pytest.mark.parametrize("dtype", ["float64", np.float64, np.dtype("int8"), 16])
def test_warm_of_another_dtype(handle, dtype):
    refused(
        lambda: handle.warm(batch=1, q_len=1, kv_len=1, q_heads=1, kv_heads=1, head_dim=32, dtype=dtype),
        gqa.GqaTypeError,
        Status.ERROR_DTYPE,
        "bfloat16",
    )


def test_warm_of_a_bad_shape(handle):
    refused(
        lambda: handle.warm(batch=1, q_len=1, kv_len=1, q_heads=3, kv_heads=2, head_dim=32),
        gqa.GqaValueError,
        Status.ERROR_HEADS,
        3,
        2,
    )
