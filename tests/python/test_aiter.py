"""gqa.aiter: AITER's names as its page has them: order, defaults, layouts, results, and what is refused, without
PyTorch."""

import inspect
import re

import gqa
import gqa.aiter as aiter
import numpy as np
import pytest

from conftest import Producer, attention_float64, check, make_qkv, run_python

SIGNATURES = [  # of the page, but for seq_lengths, which it has not
    "flash_attn_func(query, key, value, causal=False, softmax_scale=None)",
    "flash_attn_with_kvcache(query, kv_cache, page_table, block_size, causal=True, *, seq_lengths=None)",
    "grouped_query_attention(query, key, value, num_groups, causal=False)",
    "multi_query_attention(query, key, value, causal=False)",
    "variable_length_attention(query, key, value, seq_lengths, max_seq_len)",
]


@pytest.mark.parametrize("line", SIGNATURES, ids=[line.partition("(")[0] for line in SIGNATURES])
def test_signature(line):
    theirs = {}
    exec(f"def {line}: pass", {}, theirs)
    ((name, expected),) = theirs.items()
    ours = inspect.signature(getattr(aiter, name)).parameters.values()
    assert [(p.name, p.kind, p.default) for p in ours] == [
        (p.name, p.kind, p.default) for p in inspect.signature(expected).parameters.values()
    ]
    assert all(p.annotation is not p.empty for p in ours) and getattr(aiter, name).__doc__


def test_names():
    assert sorted(aiter.__all__) == sorted(line.partition("(")[0] for line in SIGNATURES)


# ---- dense


def test_flash_attn_func():
    q, k, v = make_qkv(batch=2, q_len=5, kv_len=9, q_heads=4, kv_heads=2)
    check(aiter.flash_attn_func(q, k, v), attention_float64(q, k, v)[0])
    check(aiter.flash_attn_func(q, k, v, True, 0.3), attention_float64(q, k, v, True, scale=0.3)[0])
    named = aiter.flash_attn_func(query=q, key=k, value=v, softmax_scale=0.3, causal=True)
    check(named, attention_float64(q, k, v, True, scale=0.3)[0])


def test_heads_of_groups():
    """Query head h reads key head h // group."""
    q, k, v = make_qkv(batch=2, q_heads=6, kv_heads=2)
    expected, masked = (attention_float64(q, k, v, causal)[0] for causal in (False, True))
    check(aiter.grouped_query_attention(q, k, v, 3), expected)
    check(aiter.grouped_query_attention(q, k, v, num_groups=3, causal=True), masked)
    check(aiter.grouped_query_attention(q[:, :, :2], k, v, 1), attention_float64(q[:, :, :2], k, v)[0])


def test_one_head_of_keys():
    q, k, v = make_qkv(batch=2, q_heads=4, kv_heads=1)
    check(aiter.multi_query_attention(q, k, v), attention_float64(q, k, v)[0])
    check(aiter.multi_query_attention(q, k, v, True), attention_float64(q, k, v, True)[0])


# ---- caches

TABLE = np.array([[5, 0, 2], [3, 5, 1]], np.int32)  # both sequences have block 5
SIZE = 4
WIDTH = SIZE * TABLE.shape[1]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def by_sequence(cache, table=TABLE):
    """(batch, tokens, heads, head_dim) of blocks (num_blocks, heads, block_size, head_dim)."""
    return cache[table].transpose(0, 1, 3, 2, 4).reshape(len(table), -1, cache.shape[1], cache.shape[3])


def test_one_cache_is_keys_and_values_both():
    q, cache = normal(2, 3, 4, 32, seed=1), normal(6, 2, SIZE, 32)
    tokens = by_sequence(cache)
    out = aiter.flash_attn_with_kvcache(q, cache, TABLE, SIZE)
    check(out, attention_float64(q, tokens, tokens, True)[0])  # causal without a word of it
    out = aiter.flash_attn_with_kvcache(q, cache, TABLE, block_size=SIZE, causal=False)
    check(out, attention_float64(q, tokens, tokens)[0])


@pytest.mark.parametrize("both", ["tuple", "list", "one tensor"])
def test_keys_and_values_apart(both):
    q, k, v = normal(2, 3, 4, 32, seed=1), normal(6, 2, SIZE, 32), normal(6, 2, SIZE, 32, seed=2)
    cache = {"tuple": (k, v), "list": [k, v], "one tensor": np.stack([k, v])}[both]
    out = aiter.flash_attn_with_kvcache(q, cache, TABLE, SIZE)
    check(out, attention_float64(q, by_sequence(k), by_sequence(v), True)[0])


def test_a_pair_whose_head_dims_differ():
    q, k, v = normal(2, 3, 4, 64), normal(6, 4, SIZE, 64), normal(6, 4, SIZE, 32, seed=2)
    out = aiter.flash_attn_with_kvcache(q, (k, v), TABLE, SIZE)
    assert out.shape == (2, 3, 4, 32)
    check(out, attention_float64(q, by_sequence(k), by_sequence(v), True)[0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_lengths_of_a_cache(dtype):
    """Tokens past them and blocks that none reaches may hold anything."""
    q, cache, table = normal(2, 2, 4, 32, seed=1), normal(6, 2, SIZE, 32), TABLE.copy()
    lengths = np.array([7, 12], dtype)
    table[0, 2] = 4  # a block that no length reaches
    cache[4] = cache[0, :, 3] = np.nan
    out = aiter.flash_attn_with_kvcache(q, cache, table, SIZE, seq_lengths=lengths)
    for row, length in enumerate(lengths):
        tokens = by_sequence(cache, table[row : row + 1])[:, :length]
        check(out[row : row + 1], attention_float64(q[row : row + 1], tokens, tokens, True)[0])


@pytest.mark.parametrize("length", [5, np.int32(5)])
def test_one_length_for_all(length):
    q, cache = normal(2, 2, 4, 32, seed=1), normal(6, 2, SIZE, 32)
    tokens = by_sequence(cache)[:, :5]
    out = aiter.flash_attn_with_kvcache(q, cache, TABLE, SIZE, seq_lengths=length)
    check(out, attention_float64(q, tokens, tokens, True)[0])


def test_a_row_that_sees_no_key_is_0():
    q, cache = normal(2, 3, 4, 32, seed=1), normal(6, 2, SIZE, 32)
    out = aiter.flash_attn_with_kvcache(q, cache, TABLE, SIZE, seq_lengths=np.array([1, 0], np.int32))
    assert (out[0, :2] == 0).all() and (out[0, 2] != 0).any() and (out[1] == 0).all()


def test_a_cache_is_read_where_it_lies(monkeypatch):
    cache = np.stack([normal(6, 2, SIZE, 32), normal(6, 2, SIZE, 32, seed=1)])
    seen = []
    monkeypatch.setattr(aiter.forms, "cached", lambda q, k, v, *args, **keywords: seen.extend([k, v]) or (q, None))
    aiter.flash_attn_with_kvcache(normal(2, 3, 4, 32), cache, TABLE, SIZE)
    for at, tokens_first in enumerate(seen):
        assert np.shares_memory(tokens_first, cache[at]) and tokens_first.shape == (6, SIZE, 2, 32)


# ---- padded batches

LENGTHS = np.array([5, 0, 12, 9], np.int32)


def padded_qkv(tokens=12, fill=np.nan, **more):
    q, k, v = make_qkv(batch=4, q_len=tokens, kv_len=tokens, q_heads=4, kv_heads=2, **more)
    for row, length in enumerate(LENGTHS):
        for x in (q, k, v):
            x[row, length:] = fill
    return q, k, v


def padded_float64(q, k, v, lengths=LENGTHS):
    out = np.zeros((*q.shape[:3], v.shape[3]))
    for row, length in enumerate(lengths):
        if length:
            out[row, :length] = attention_float64(*(x[row : row + 1, :length] for x in (q, k, v)))[0]
    return out


@pytest.mark.parametrize("max_seq_len", [12, 64, np.int64(12)])
def test_padded_sequences(max_seq_len):
    """Rows past a length are 0, whatever padding holds; a bound may be above all lengths."""
    q, k, v = padded_qkv()
    out = aiter.variable_length_attention(q, k, v, LENGTHS, max_seq_len)
    check(out, padded_float64(q, k, v))
    assert (out[0, 5:] == 0).all() and (out[1] == 0).all() and (out[3, 9:] == 0).all()


def test_padded_sequences_by_name_and_of_other_integers():
    q, k, v = padded_qkv(head_dim=64, head_dim_v=32)
    out = aiter.variable_length_attention(
        query=q, key=k, value=v, seq_lengths=LENGTHS.astype(np.int64), max_seq_len=12
    )
    check(out, padded_float64(q, k, v))


def test_numbers_beyond_the_bounds():
    """A length above seq_len or max_seq_len counts as the lesser, one below 0 as 0."""
    q, k, v = padded_qkv(fill=1)
    for given, bound, meant in (
        ([99, -3, 12, 13], 12, [12, 0, 12, 12]),
        ([99, -3, 6, 8], 7, [7, 0, 6, 7]),
        ([5, 0, 12, 9], 0, [0, 0, 0, 0]),
    ):
        for dtype in (np.int32, np.int64):
            out = aiter.variable_length_attention(q, k, v, np.array(given, dtype), bound)
            check(out, padded_float64(q, k, v, meant))


def test_padded_sequences_in_another_order_of_memory():
    """Heads before tokens, and every other batch."""
    q, k, v = padded_qkv()
    turned = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (q, k, v)]
    check(aiter.variable_length_attention(*turned, LENGTHS, 12), padded_float64(q, k, v))
    apart = [np.repeat(x, 2, axis=0)[::2] for x in (q, k, v)]
    check(aiter.variable_length_attention(*apart, LENGTHS, 12), padded_float64(q, k, v))


def test_no_sequence_and_no_token():
    q, k, v = padded_qkv()
    assert aiter.variable_length_attention(q[:0], k[:0], v[:0], LENGTHS[:0], 12).shape == (0, 12, 4, 32)
    none = (x[:, :0] for x in (q, k, v))
    assert aiter.variable_length_attention(*none, LENGTHS, 0).shape == (4, 0, 4, 32)


# ---- what is refused, in words of the function that was called


def calls():
    q, k, v = make_qkv(batch=2, q_heads=4, kv_heads=2)
    cache, padded, n = normal(6, 2, SIZE, 32), padded_qkv(), LENGTHS
    one = k[:, :, :1]
    return {
        "flash_attn_func": {"query": q, "key": k, "value": v},
        "flash_attn_with_kvcache": {"query": q, "kv_cache": cache, "page_table": TABLE, "block_size": SIZE},
        "grouped_query_attention": {"query": q, "key": k, "value": v, "num_groups": 2},
        "multi_query_attention": {"query": q, "key": one, "value": one},
        "variable_length_attention": {
            **dict(zip(("query", "key", "value"), padded)),
            "seq_lengths": n,
            "max_seq_len": 12,
        },
    }


CALLS = calls()
FLASH, KVCACHE, GROUPED, MULTI, PADDED = CALLS
REFUSED = [
    (FLASH, "query", lambda x: x[0], "query has 3 dimensions, .*; expected 4: .batch, length, heads"),
    (FLASH, "key", lambda x: x[:1], "key has batch 1, but query has batch 2: they must be equal"),
    (FLASH, "value", lambda x: x[:, :5], "value has kv_len 5, but key has kv_len 16"),
    (FLASH, "key", lambda x: x[..., :16], "key has head_dim 16, but query has head_dim 32"),
    (FLASH, "query", lambda x: x[:, :, :3], "key has kv_heads 2, but query has q_heads 3"),
    (FLASH, "value", lambda x: x.astype(np.float32), "value is float32, but query is float16"),
    (FLASH, "query", lambda x: x.tolist(), "query is a list; expected an array or tensor"),
    (FLASH, "causal", lambda x: 0.0, "causal is 0.0, as dropout_p .*Name the arguments, or take gqa.flash"),
    (FLASH, "causal", lambda x: "yes", "causal is 'yes'; expected True or False"),
    (FLASH, "softmax_scale", lambda x: "half", "softmax_scale is 'half'; expected a number"),
    (FLASH, "softmax_scale", lambda x: -1.0, "softmax_scale is -1.0; expected a number above 0"),
    (KVCACHE, "query", lambda x: x[0], "query has 3 dimensions, .*; expected 4: .batch, seq_len"),
    (KVCACHE, "query", lambda x: x[..., :16], "kv_cache has head_dim 32, but query has head_dim 16"),
    (KVCACHE, "query", lambda x: x[:, :, :3], "kv_cache has kv_heads 2, but query has q_heads 3"),
    (KVCACHE, "kv_cache", lambda x: x[0], r"kv_cache is \(2, 4, 32\); expected .num_blocks, num_heads"),
    (KVCACHE, "kv_cache", lambda x: np.stack([x] * 3), r"kv_cache is \(3, 6, 2, 4, 32\); expected"),
    (KVCACHE, "kv_cache", lambda x: (x,), "kv_cache has 1 tensors; expected one .num_blocks, num_h"),
    (KVCACHE, "kv_cache", lambda x: (x, x[0]), r"kv_cache\[1\] has 3 dimensions, \(2, 4, 32\); expec"),
    (KVCACHE, "kv_cache", lambda x: (x, x[:5]), r"keys are \(6, .*values \(5, .*expected the same num"),
    (KVCACHE, "kv_cache", lambda x: (x, None), r"kv_cache\[1\] is a NoneType; expected an array"),
    (KVCACHE, "kv_cache", lambda x: Producer(x), "kv_cache is a Producer, which gqa cannot look at"),
    (KVCACHE, "kv_cache", lambda x: None, "kv_cache is a NoneType; expected an array or tensor"),
    (KVCACHE, "kv_cache", lambda x: x.astype(np.float32), "kv_cache is float32, but query is float16"),
    (KVCACHE, "page_table", lambda x: x.astype(np.int64), "page_table is int64; expected int32: convert"),
    (KVCACHE, "page_table", lambda x: x.astype(np.float16), "page_table is float16; expected int32"),
    (KVCACHE, "page_table", lambda x: x[0], "page_table has 1 dimensions, .3,.; expected 2: .batch, m"),
    (KVCACHE, "page_table", lambda x: x[:1], "page_table has 1 rows, but query has batch 2; expected"),
    (KVCACHE, "page_table", lambda x: None, "page_table is a NoneType"),
    (KVCACHE, "block_size", lambda x: 8, r"block_size is 8, but kv_cache has 4 tokens .*expected 4, i"),
    (KVCACHE, "block_size", lambda x: 2, r"expected 4, its third dim.*swapaxes\(1, 2\) turns it"),
    (KVCACHE, "block_size", lambda x: 4.0, "block_size is 4.0; expected a whole number"),
    (KVCACHE, "block_size", lambda x: 0, "block_size is 0; expected 1 to"),
    (KVCACHE, "seq_lengths", lambda x: np.ones(3, np.int32), r"seq_lengths is \(3,\); expected \(2,\), a"),
    (KVCACHE, "seq_lengths", lambda x: np.ones((2, 1), np.int32), r"seq_lengths is \(2, 1\); expected"),
    (KVCACHE, "seq_lengths", lambda x: np.ones(2, np.float32), "seq_lengths is float32; expected int32"),
    (KVCACHE, "seq_lengths", lambda x: 13, "seq_lengths is 13; expected 0 to 12"),
    (KVCACHE, "causal", lambda x: 2, "causal is 2; expected True or False"),
    (GROUPED, "num_groups", lambda x: 4, "num_groups is 4, but query has 4 heads and key 2; expected 2"),
    (GROUPED, "num_groups", lambda x: 1, "expected 2: the query heads of each key head, not the numb"),
    (GROUPED, "num_groups", lambda x: 2.5, "num_groups is 2.5; expected a whole number"),
    (GROUPED, "num_groups", lambda x: 0, "num_groups is 0; expected 1 to"),
    (GROUPED, "query", lambda x: x[:, :, :3], "key has kv_heads 2, but query has q_heads 3: q_heads mu"),
    (GROUPED, "query", lambda x: x[0], "query has 3 dimensions, .*; expected 4: .batch, seq_len"),
    (GROUPED, "key", lambda x: x[0], "key has 3 dimensions, .*; expected 4"),
    (GROUPED, "value", lambda x: x[:, :, :1], "value has kv_heads 1, but key has kv_heads 2"),
    (MULTI, "key", lambda x: np.repeat(x, 2, 2), "key has 2 heads; expected 1, which all of query's"),
    (MULTI, "value", lambda x: np.repeat(x, 2, 2), "value has 2 heads; expected 1"),
    (MULTI, "key", lambda x: x[:, :, 0], "key has 3 dimensions, .*; expected 4: .batch, seq_len, 1"),
    (MULTI, "query", lambda x: x[0], "query has 3 dimensions"),
    (PADDED, "query", lambda x: x[0], "query has 3 dimensions, .*; expected 4: .batch, seq_len"),
    (PADDED, "key", lambda x: x[:, :5], r"key is \(4, 5, 2, 32\) and query \(4, 12, 4, 32\); expec"),
    (PADDED, "value", lambda x: x[:3], r"value is \(3, 12, 2, 32\) and query .*the same batch"),
    (PADDED, "key", lambda x: x[..., :16], "key has head_dim 16, but query has head_dim 32"),
    (PADDED, "query", lambda x: x[:, :, :3], "key has kv_heads 2, but query has q_heads 3"),
    (PADDED, "query", lambda x: Producer(x), "query is a Producer, which gqa cannot look at"),
    (PADDED, "seq_lengths", lambda x: x[:3], r"seq_lengths is \(3,\); expected \(4,\), a length for"),
    (PADDED, "seq_lengths", lambda x: x[:, None], r"seq_lengths is \(4, 1\); expected \(4,\)"),
    (PADDED, "seq_lengths", lambda x: x.astype(np.float16), "seq_lengths is float16; expected int32"),
    (PADDED, "seq_lengths", lambda x: x.astype(np.uint8), "seq_lengths is uint8; expected int32"),
    (PADDED, "seq_lengths", lambda x: [5, 0, 12, 9], "seq_lengths is a list; expected an array"),
    (PADDED, "max_seq_len", lambda x: -1, "max_seq_len is -1; expected 0 to"),
    (PADDED, "max_seq_len", lambda x: None, "max_seq_len is None; expected a whole number"),
]
IDS = [f"{function}-{name}-{at}" for at, (function, name, *_) in enumerate(REFUSED)]


@pytest.mark.parametrize("function,name,worse,said", REFUSED, ids=IDS)
def test_refused(function, name, worse, said):
    given = CALLS[function]
    with pytest.raises(gqa.GqaError, match=said) as caught:
        getattr(aiter, function)(**{**given, name: worse(given.get(name))})
    assert isinstance(caught.value, (ValueError, TypeError)) and len(str(caught.value)) <= 400
    assert not re.search(r"\b(q|k|v|cache_seqlens|seqused_q|cu_seqlens_q)\b", str(caught.value))


def test_a_message_prints_no_long_shape():
    with pytest.raises(gqa.GqaValueError) as caught:
        aiter.flash_attn_with_kvcache(normal(2, 3, 4, 32), np.zeros((1,) * 60, np.float16), TABLE, SIZE)
    assert len(str(caught.value)) <= 400


def test_what_is_not_refused_there_is_right():
    """The calls that REFUSED makes worse."""
    for name, given in CALLS.items():
        assert np.isfinite(getattr(aiter, name)(**given)).all()


def test_a_layout_that_looks_swapped_is_told_of():
    run_python("""
import warnings
import numpy as np
import gqa, gqa.aiter
gqa.configure(tuning="guess")
x = np.ones((1, 2, 300, 32), np.float16)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    gqa.aiter.flash_attn_func(x, x, x)
(warning,) = [w for w in told if w.category is RuntimeWarning]
assert str(warning.message).startswith("query has 300 heads and 2 tokens; expected (batch, seq_len, num_heads,")
assert warning.filename == "<string>"
""")


# ---- tensors of no known framework, and no framework at all


def test_any_producer_where_no_view_is_taken():
    q, k, v = make_qkv(batch=2, q_heads=4, kv_heads=2)
    expected = attention_float64(q, k, v)[0]
    for out in (
        aiter.flash_attn_func(*map(Producer, (q, k, v))),
        aiter.grouped_query_attention(*map(Producer, (q, k, v)), 2),
    ):
        check(np.from_dlpack(out), expected)
    one = k[:, :, :1]
    out = aiter.multi_query_attention(Producer(q), Producer(one), Producer(one))
    check(np.from_dlpack(out), attention_float64(q, one, one)[0])
    cache, lengths = normal(6, 2, SIZE, 32), np.array([16, 3, 5], np.int32)
    out = aiter.flash_attn_with_kvcache(Producer(q), cache, Producer(TABLE), SIZE, seq_lengths=Producer(lengths[1:]))
    assert np.from_dlpack(out).shape == q.shape
    q, k, v = padded_qkv()
    check(aiter.variable_length_attention(q, k, v, Producer(LENGTHS), 12), padded_float64(q, k, v))


def test_importing_imports_no_framework():
    run_python("""
import sys
import gqa
assert "gqa.aiter" not in sys.modules
import gqa.aiter
assert not {"torch", "numpy", "cupy"} & set(sys.modules)
try:
    gqa.aiter.flash_attn_func(1, 2, 3)
except gqa.GqaTypeError as error:
    assert str(error).startswith("query is a int; expected an array or tensor"), error
else:
    raise AssertionError("not refused")
""")
