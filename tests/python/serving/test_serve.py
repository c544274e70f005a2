"""`gqa-cache warm --serve`: after it, a handle that may not tune serves every call of the range, by an engine's names,
and none beyond it."""

import subprocess

import gqa
import numpy as np
import pytest
from gqa.__main__ import find

MODEL = "llama-3-8b,tp=8"
Q_HEADS, KV_HEADS, DIM, PAGE = 4, 1, 128, 16
RANGE = f"batch=2..3,kv=30..40,page={PAGE},q=1..2,chunk=2..3,prefill=5..7,dtype=f16"
BATCHES, TABLES = (2, 3), (2, 3)  # columns of 16 keys: of 32 and 48


@pytest.fixture(scope="module", params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def handle(request, tmp_path_factory):
    """On a cache that the command has warmed, and that nothing is added to."""
    folder = tmp_path_factory.mktemp("serve")
    folder.chmod(0o700)
    db = str(folder / "cache.db")
    warm = ["warm", "--device", request.param, "--budget", "0.2", "--model", MODEL, "--serve", RANGE]
    program = find([])  # this installation's, wherever pip install put it: --target has no folder of scripts
    done = subprocess.run([program, "--db", db, *warm], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with gqa.Handle(request.param, cache_path=db, cache_mode="read-only", tuning="cached-only") as made:
        yield made


def there(handle, array):
    """The array where the handle computes."""
    if handle.device == "host":
        return array
    import torch

    return torch.from_numpy(array).cuda()


def zeros(handle, *shape):
    return there(handle, np.zeros((*shape, DIM), np.float16))


def starts(handle, batch, most):
    return there(handle, np.arange(batch + 1, dtype=np.int32) * most)


def on_cache(handle, batch, columns, *queries, **more):
    q, pages = zeros(handle, *queries, Q_HEADS), zeros(handle, columns * batch, PAGE, KV_HEADS)
    table = there(handle, np.arange(columns * batch, dtype=np.int32).reshape(batch, columns))
    lengths = there(handle, np.full(batch, 17, np.int32))
    return gqa.flash_attn_with_kvcache(
        q, pages, pages, cache_seqlens=lengths, page_table=table, causal=True, handle=handle, **more
    )


def packed_on_cache(handle, batch, columns, most):
    at = starts(handle, batch, most)
    return on_cache(handle, batch, columns, batch * most, cu_seqlens_q=at, max_seqlen_q=most)


def prompts(handle, batch, most):
    q, k = zeros(handle, batch * most, Q_HEADS), zeros(handle, batch * most, KV_HEADS)
    at = starts(handle, batch, most)
    return gqa.flash_attn_varlen_func(q, k, k, at, at, most, most, causal=True, handle=handle)


def test_every_call_of_the_range_is_served(handle):
    for batch in BATCHES:
        for columns in TABLES:
            for q_len in (1, 2):
                on_cache(handle, batch, columns, batch, q_len)
            for most in (2, 3):
                packed_on_cache(handle, batch, columns, most)
        for most in (5, 6, 7):
            prompts(handle, batch, most)


@pytest.mark.parametrize(
    "call",
    [
        lambda handle: on_cache(handle, 4, 2, 4, 1),
        lambda handle: on_cache(handle, 2, 4, 2, 1),
        lambda handle: on_cache(handle, 2, 2, 2, 3),
        lambda handle: on_cache(handle, 2, 2, 2, 1, return_softmax_lse=True),
        lambda handle: packed_on_cache(handle, 2, 2, 1),
        lambda handle: packed_on_cache(handle, 2, 2, 4),
        lambda handle: prompts(handle, 2, 9),
    ],
    ids=["batch", "columns", "queries", "lse", "a shorter chunk", "a longer chunk", "prompts"],
)
def test_a_call_beyond_it_is_not(handle, call):
    with pytest.raises(gqa.GqaError) as refused:
        call(handle)
    assert "NOT_CACHED" in refused.value.status.name
