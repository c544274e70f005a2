"""What an inference engine hands to flash_attn_with_kvcache beyond a plain cache: views of caches of any order, windows
in tensors, and FlashAttention-3's plan and hints.
"""

import functools
import inspect

import gqa
import numpy as np
import pytest

from conftest import check
from test_cache import Case, check_both

# flash_attn_interface.get_scheduler_metadata, in its order.
PLAN = {
    **dict.fromkeys(
        ["batch_size", "max_seqlen_q", "max_seqlen_k", "num_heads_q", "num_heads_kv", "headdim", "cache_seqlens"],
        inspect.Parameter.empty,
    ),
    "qkv_dtype": gqa.bfloat16,
    "headdim_v": None,
    "cu_seqlens_q": None,
    "cu_seqlens_k_new": None,
    "cache_leftpad": None,
    "page_size": None,
    "max_seqlen_k_new": 0,
    "causal": False,
    "window_size": (-1, -1),
    "attention_chunk": 0,
    "has_softcap": False,
    "num_splits": 0,
    "pack_gqa": None,
    "sm_margin": 0,
}


def test_there_is_nothing_to_plan():
    parameters = inspect.signature(gqa.get_scheduler_metadata).parameters.values()
    assert list((p.name, p.default) for p in parameters) == list(PLAN.items())
    t = Case()
    hints = dict(num_splits=3, pack_gqa=True, sm_margin=8)
    plan = gqa.get_scheduler_metadata(4, 2, 48, 4, 2, 32, t.lengths, t.q.dtype, page_size=16, causal=True, **hints)
    assert plan is None
    given = dict(cache_seqlens=t.lengths, page_table=t.table, causal=True)
    given["rotary_seqlens"] = t.lengths  # as FlashAttention-3's own tests give it where nothing rotates
    out = gqa.flash_attn_with_kvcache(t.q, t.k_pages, t.v_pages, **given, scheduler_metadata=plan, **hints)
    check(out, t.expected(True)[0])


def heads_first(pages):
    """Pages of shape (pages, page, kv_heads, d), which lie as (pages, kv_heads, page, d)."""
    return np.ascontiguousarray(pages.swapaxes(1, 2)).swapaxes(1, 2)


def in_one_tensor(k, v, order):
    """Keys and values as views of one; order: its axes, of (pages, 2, page, kv_heads, d)."""
    both = np.ascontiguousarray(np.stack((k, v), axis=1).transpose(order)).transpose(np.argsort(order))
    return both[:, 0], both[:, 1]


def rows_apart(pages):
    return np.concatenate((pages, np.full_like(pages, np.nan)), -1)[..., : pages.shape[-1]]


LAYOUTS = {
    "heads before keys": lambda k, v: (heads_first(k), heads_first(v)),
    "keys and values of a page": lambda k, v: in_one_tensor(k, v, (0, 1, 2, 3, 4)),
    "keys and values of a page, heads first": lambda k, v: in_one_tensor(k, v, (0, 1, 3, 2, 4)),
    "a key beside its value": lambda k, v: in_one_tensor(k, v, (0, 2, 3, 1, 4)),
    "rows apart": lambda k, v: (rows_apart(k), rows_apart(v)),
}


@pytest.mark.parametrize("q_len", [1, 20])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_caches_are_read_where_they_lie(layout, q_len):
    t = Case(q_len)
    pages = LAYOUTS[layout](t.k_pages, t.v_pages)
    assert all(not x.flags.c_contiguous and not x.flags.owndata and x.strides[-1] == 2 for x in pages)
    given = dict(cache_seqlens=t.lengths, page_table=t.table, causal=True, return_softmax_lse=True)
    check_both(gqa.flash_attn_with_kvcache(t.q, *pages, **given), t.expected(True))
    dense = LAYOUTS[layout](t.k, t.v)
    check(gqa.flash_attn_with_kvcache(t.q, *dense, cache_seqlens=t.lengths, causal=True), t.expected(True)[0])


def test_a_window_may_be_a_tensor():
    """As in FlashAttention-3's own tests."""
    t = Case()
    given = dict(cache_seqlens=t.lengths, page_table=t.table, return_softmax_lse=True)
    attend = functools.partial(gqa.flash_attn_with_kvcache, t.q, t.k_pages, t.v_pages, **given)
    check_both(attend(window_size=np.array([5, 3])), t.expected(False, (5, 3)))
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    check_both(attend(window_size=torch.tensor([7, 0])), t.expected(False, (7, 0)))
