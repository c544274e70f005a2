"""Appending through flash_attn_with_kvcache: new keys in dense and paged caches, rotation, rows of the cache, padding."""

import gqa
import numpy as np
import pytest

BATCH, MOST, NEW, Q_HEADS, KV_HEADS, DIM = 4, 48, 3, 4, 2, 64
LENGTHS = [40, 0, 17, 45]  # the last one's new keys end with the cache
PAST = 0x7FFFFFFF


def rotated(x, cos, sin, positions, interleaved):
    """float64; x: (rows, heads, dim), positions: of each row."""
    half = cos.shape[1]
    x, out = x.astype(np.float64), x.astype(np.float64)
    c, s = (t.astype(np.float64)[positions][:, None, :] for t in (cos, sin))
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    out[..., first] = x[..., first] * c - x[..., second] * s
    out[..., second] = x[..., first] * s + x[..., second] * c
    return out


class Case:
    """Sequences in a cache of more rows than sequences, NaN wherever no key is."""

    def __init__(self, leftpad=(0, 0, 0, 0), rows=(0, 1, 2, 3), cache_rows=BATCH, new=(NEW,) * BATCH, q_len=NEW):
        generator = np.random.default_rng(5)

        def normal(*shape):
            return generator.standard_normal(shape).astype(np.float16)

        self.leftpad, self.rows, self.new = list(leftpad), list(rows), list(new)
        self.q = normal(BATCH, q_len, Q_HEADS, DIM)
        self.k_new, self.v_new = (normal(BATCH, max(new), KV_HEADS, DIM) for _ in range(2))
        self.k, self.v = (np.full((cache_rows, MOST, KV_HEADS, DIM), np.nan, np.float16) for _ in range(2))
        for b, length in enumerate(LENGTHS):
            used = slice(self.leftpad[b], length)
            for cache in (self.k, self.v):
                cache[self.rows[b], used] = normal(length - self.leftpad[b], KV_HEADS, DIM)
        angles = generator.uniform(-3, 3, (MOST + 8, 16))
        self.cos, self.sin = np.cos(angles).astype(np.float16), np.sin(angles).astype(np.float16)
        self.lengths = np.array(LENGTHS, np.int32)

    def expected(self, causal, rotary=None, starts=LENGTHS, window=False):
        """(out, keys, values): of each sequence's the new ones with them; rotary: None or whether interleaved; window:
        there is one, that hides nothing."""
        outs, keys, values = [], [], []
        for b, length in enumerate(LENGTHS):
            n, used = self.new[b], slice(self.leftpad[b], length)
            q, k_new = self.q[b].astype(np.float64), self.k_new[b, :n].astype(np.float64)
            if rotary is not None:
                steps = np.arange(len(q)) if causal or window else np.zeros(len(q), int)
                q = rotated(self.q[b], self.cos, self.sin, starts[b] + steps, rotary).astype(np.float16)
                k_new = rotated(self.k_new[b, :n], self.cos, self.sin, starts[b] + np.arange(n), rotary)
                k_new = k_new.astype(np.float16)
            keys.append(np.concatenate([self.k[self.rows[b], used], k_new]).astype(np.float64))
            values.append(np.concatenate([self.v[self.rows[b], used], self.v_new[b, :n]]).astype(np.float64))
            outs.append(attention(q.astype(np.float64), keys[-1], values[-1], causal))
        return np.stack(outs), keys, values

    def attend(self, **more):
        """Appends to the dense cache, and attends."""
        return gqa.flash_attn_with_kvcache(
            self.q, self.k, self.v, self.k_new, self.v_new, cache_seqlens=self.lengths, **more
        )


def attention(q, k, v, causal):
    out = np.zeros((len(q), Q_HEADS, DIM))
    for i in range(len(q)):
        seen = max(0, len(k) - len(q) + i + 1) if causal else len(k)
        for h in range(Q_HEADS) if seen else ():
            g = h // (Q_HEADS // KV_HEADS)
            scores = k[:seen, g] @ q[i, h] / np.sqrt(DIM)
            weights = np.exp(scores - scores.max())
            out[i, h] = weights @ v[:seen, g] / weights.sum()
    return out


def check_cache(case, k, v, keys, values):
    """Every slot of the caches: old keys and new ones, NaN elsewhere."""
    expected_k, expected_v = (np.full(x.shape, np.nan) for x in (k, v))
    for b in range(BATCH):
        used = slice(case.leftpad[b], case.leftpad[b] + len(keys[b]))
        expected_k[case.rows[b], used], expected_v[case.rows[b], used] = keys[b], values[b]
    np.testing.assert_allclose(k.astype(np.float64), expected_k, atol=4e-3)  # a rotated key is off by its rounding
    np.testing.assert_array_equal(v.astype(np.float64), expected_v)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rotary", [None, False, True])
def test_dense(causal, rotary):
    case = Case()
    expected, keys, values = case.expected(causal, rotary)
    rotation = {} if rotary is None else {"rotary_cos": case.cos, "rotary_sin": case.sin, "rotary_interleaved": rotary}
    q = case.q.copy()
    out = case.attend(causal=causal, **rotation)
    np.testing.assert_allclose(out, expected, atol=4e-3)
    check_cache(case, case.k, case.v, keys, values)
    np.testing.assert_array_equal(q, case.q)
    np.testing.assert_array_equal(case.lengths, LENGTHS)


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_long_prompt(interleaved):
    """So many rows that a GPU's warps take all heads of one."""
    generator, rows = np.random.default_rng(7), 4200
    q, k_new, v_new = (
        generator.standard_normal((1, n, heads, DIM)).astype(np.float16)
        for n, heads in ((1, Q_HEADS), (rows, KV_HEADS), (rows, KV_HEADS))
    )
    k, v = (np.full((1, rows + 8, KV_HEADS, DIM), np.nan, np.float16) for _ in range(2))
    angles = generator.uniform(-3, 3, (rows, 16))
    cos, sin = np.cos(angles).astype(np.float16), np.sin(angles).astype(np.float16)
    out = gqa.flash_attn_with_kvcache(
        q, k, v, k_new, v_new, rotary_cos=cos, rotary_sin=sin, cache_seqlens=0, rotary_interleaved=interleaved
    )
    keys = rotated(k_new[0], cos, sin, np.arange(rows), interleaved).astype(np.float16)
    np.testing.assert_allclose(k[0, :rows].astype(np.float64), keys.astype(np.float64), atol=4e-3)
    np.testing.assert_array_equal(v[0, :rows], v_new[0])
    assert np.isnan(k[0, rows:]).all() and np.isnan(v[0, rows:]).all()
    first = rotated(q[0], cos, sin, np.zeros(1, int), interleaved)
    expected = attention(first, keys.astype(np.float64), v_new[0].astype(np.float64), False)
    np.testing.assert_allclose(out[0], expected, atol=4e-3)


@pytest.mark.parametrize("window", [(MOST, MOST), (-1, 2**31 - 1), (None, NEW)])
def test_a_window_rotates_each_query_by_its_own_position_whatever_it_hides(window):
    case = Case()
    expected, keys, values = case.expected(False, True, window=True)
    out = case.attend(rotary_cos=case.cos, rotary_sin=case.sin, window_size=window)
    np.testing.assert_allclose(out, expected, atol=4e-3)
    check_cache(case, case.k, case.v, keys, values)


@pytest.mark.parametrize("page", [1, 7, 16])
def test_pages(page):
    case = Case()
    expected, keys, values = case.expected(True, True)
    width = -(-MOST // page)
    table = np.full((BATCH, width), PAST, np.int32)
    free = list(np.random.default_rng(2).permutation(BATCH * width + 1))
    pages = [np.full((len(free), page, KV_HEADS, DIM), np.nan, np.float16) for _ in range(2)]
    for b, length in enumerate(LENGTHS):
        for at in range(-(-(length + NEW) // page)):
            table[b, at] = free.pop()
            for to, cache in zip(pages, (case.k, case.v)):
                kept = cache[b, at * page : min(length, (at + 1) * page)]
                to[table[b, at], : len(kept)] = kept
    out = gqa.flash_attn_with_kvcache(
        case.q,
        *pages,
        case.k_new,
        case.v_new,
        cache_seqlens=case.lengths,
        page_table=table,
        rotary_cos=case.cos,
        rotary_sin=case.sin,
        causal=True,
    )
    np.testing.assert_allclose(out, expected, atol=4e-3)
    for to, rows in zip(pages, (keys, values)):
        for b, row in enumerate(rows):
            slots = np.concatenate([to[entry] for entry in table[b, : -(-len(row) // page)]])
            np.testing.assert_allclose(slots[: len(row)].astype(np.float64), row, atol=4e-3)
        used = sum(len(row) for row in rows)
        assert np.count_nonzero(~np.isnan(to[..., 0, 0])) == used, "written elsewhere"


@pytest.mark.parametrize("adds", [False, True])
def test_rows_and_padding(adds):
    case = Case(leftpad=(3, 0, 16, 40), rows=(5, 0, 3, 2), cache_rows=6, new=(NEW if adds else 0,) * BATCH)
    expected, keys, values = case.expected(True)
    new = (case.k_new, case.v_new) if adds else ()
    out = gqa.flash_attn_with_kvcache(
        case.q,
        case.k,
        case.v,
        *new,
        cache_seqlens=case.lengths,
        cache_batch_idx=np.array(case.rows, np.int32),
        cache_leftpad=np.array(case.leftpad, np.int32),
        causal=True,
    )
    np.testing.assert_allclose(out, expected, atol=4e-3)
    check_cache(case, case.k, case.v, keys, values)


def test_padding_counts_in_rotations():
    case = Case(leftpad=(3, 0, 16, 40))
    expected, keys, values = case.expected(True, True)
    padding = np.array(case.leftpad, np.int32)
    out = case.attend(rotary_cos=case.cos, rotary_sin=case.sin, cache_leftpad=padding, causal=True)
    np.testing.assert_allclose(out, expected, atol=4e-3)
    check_cache(case, case.k, case.v, keys, values)


def test_packed_queries_and_new_keys_with_rotations_of_their_own():
    """Rows of the batch that decode, that prefill, that wait."""
    case = Case(new=(1, 3, 0, 2))
    starts = [7, 0, 30, 2]
    expected, keys, values = case.expected(True, False, starts)
    # Queries are as many as new keys, the last ones of each row of expected.
    outs = []
    for b, n in enumerate(case.new):
        q = rotated(case.q[b, :n], case.cos, case.sin, starts[b] + np.arange(n), False).astype(np.float16)
        outs.append(attention(q.astype(np.float64), keys[b], values[b], True))
    packed = [np.concatenate([x[b, :n] for b, n in enumerate(case.new)]) for x in (case.q, case.k_new, case.v_new)]
    begins = np.cumsum([0, *case.new]).astype(np.int32)
    out, lse = gqa.flash_attn_with_kvcache(
        packed[0],
        case.k,
        case.v,
        *packed[1:],
        rotary_cos=case.cos,
        rotary_sin=case.sin,
        rotary_interleaved=False,
        rotary_seqlens=np.array(starts, np.int32),
        cache_seqlens=case.lengths,
        cu_seqlens_q=begins,
        cu_seqlens_k_new=begins,
        max_seqlen_q=3,
        causal=True,
        return_softmax_lse=True,
    )
    np.testing.assert_allclose(out, np.concatenate(outs), atol=4e-3)
    assert lse.shape == (Q_HEADS, 6) and np.isfinite(lse).all()
    check_cache(case, case.k, case.v, keys, values)


def test_what_has_no_room_is_not_written():
    case = Case()
    case.lengths[:] = [MOST, MOST - 1, 0, MOST + 5]
    case.k[np.isnan(case.k)] = case.v[np.isnan(case.v)] = 0
    before = case.k.copy()
    case.attend()
    before[1, MOST - 1], before[2, :NEW] = case.k_new[1, 0], case.k_new[2]
    np.testing.assert_array_equal(case.k, before)


def good_call():
    case = Case()
    return {
        "q": case.q,
        "k_cache": case.k,
        "v_cache": case.v,
        "k": case.k_new,
        "v": case.v_new,
        "rotary_cos": case.cos,
        "rotary_sin": case.sin,
        "cache_seqlens": case.lengths,
    }


@pytest.mark.parametrize(
    "change, says",
    [
        ({"v": None}, "k is given without v,"),
        ({"cache_seqlens": None}, "k is given without cache_seqlens"),
        ({"rotary_sin": None}, "rotary_cos is given without rotary_sin"),
        ({"k": None, "v": None}, "rotary_cos is given without k,"),
        ({"k": np.zeros((BATCH, NEW, 1, DIM), np.float16)}, "k has kv_heads 1"),
        ({"k": np.zeros((BATCH, NEW, KV_HEADS, DIM), np.float32)}, "k is float32"),
        ({"v": np.zeros((BATCH, NEW + 1, KV_HEADS, DIM), np.float16)}, "v has new 4"),
        ({"k": np.zeros((BATCH + 1, NEW, KV_HEADS, DIM), np.float16)}, "k has batch 5"),
        ({"rotary_cos": np.zeros((8, 12), np.float16), "rotary_sin": np.zeros((8, 12), np.float16)}, "rotary_dim 24"),
        ({"rotary_sin": np.zeros((8, 16), np.float16)}, "rotary_sin has positions 8"),
        ({"rotary_seqlens": np.zeros(3, np.int32)}, "rotary_seqlens has batch 3"),
        ({"cache_batch_idx": np.zeros(BATCH, np.int64)}, "cache_batch_idx is int64"),
        ({"cache_leftpad": np.zeros((BATCH, 1), np.int32)}, "cache_leftpad has 2 dimensions"),
        ({"cu_seqlens_k_new": np.zeros(BATCH + 1, np.int32)}, "k has 4 dimensions, expected 3"),
    ],
)
def test_bad_arguments(change, says):
    arguments = {**good_call(), **change}
    before = arguments["k_cache"].copy()
    with pytest.raises((gqa.GqaError, TypeError)) as caught:
        gqa.flash_attn_with_kvcache(**arguments)
    assert says in str(caught.value)
    np.testing.assert_array_equal(arguments["k_cache"], before)


@pytest.mark.parametrize("padded", [False, True])
def test_rows_of_the_table_and_padding_in_pages(padded):
    page, rows = 16, [5, 0, 3, 2]
    case = Case(leftpad=(3, 0, 16, 40) if padded else (0,) * BATCH)
    expected, keys, values = case.expected(True)
    table = np.full((6, MOST // page), PAST, np.int32)
    pages = [np.full((20, page, KV_HEADS, DIM), np.nan, np.float16) for _ in range(2)]
    free = list(np.random.default_rng(2).permutation(20))
    for b in range(BATCH):
        for at in range(MOST // page):
            table[rows[b], at] = free.pop()
            for to, cache in zip(pages, (case.k, case.v)):
                to[table[rows[b], at]] = cache[b, at * page : (at + 1) * page]
    padding = {"cache_leftpad": np.array(case.leftpad, np.int32)} if padded else {}
    out = gqa.flash_attn_with_kvcache(
        case.q,
        *pages,
        case.k_new,
        case.v_new,
        cache_seqlens=case.lengths,
        page_table=table,
        cache_batch_idx=np.array(rows, np.int32),
        causal=True,
        **padding,
    )
    np.testing.assert_allclose(out, expected, atol=4e-3)
    for to, row in zip(pages, (keys, values)):
        for b in range(BATCH):
            slots = np.concatenate([to[entry] for entry in table[rows[b]]])
            used = slice(case.leftpad[b], case.leftpad[b] + len(row[b]))
            np.testing.assert_array_equal(slots[used].astype(np.float64), row[b])


def test_overlaps_and_pages_with_gaps_are_refused():
    arguments = good_call()
    arguments["k"] = arguments["k_cache"][:, :NEW]
    with pytest.raises(gqa.GqaValueError, match="overlap"):
        gqa.flash_attn_with_kvcache(**arguments)
    arguments = good_call()
    apart = {name: np.zeros((8, 32, KV_HEADS, DIM), np.float16)[:, :16] for name in ("k_cache", "v_cache")}
    lists = {"page_table": np.zeros((BATCH, 3), np.int32), "cache_leftpad": np.zeros(BATCH, np.int32)}
    with pytest.raises(gqa.GqaValueError, match="follow each other without a gap"):
        gqa.flash_attn_with_kvcache(**{**arguments, **apart}, **lists)


def test_a_cache_that_cannot_be_written_is_refused():
    arguments = good_call()
    arguments["v_cache"].flags.writeable = False
    with pytest.raises((gqa.GqaError, BufferError), match="read-only|readonly|writable"):
        gqa.flash_attn_with_kvcache(**arguments)


def relaid(case, layout):
    """The case's caches, which lie otherwise: keys with heads first, or each row's keys and then its values."""
    rows, slots, heads, dim = case.k.shape
    if layout == "heads first":
        k = np.ascontiguousarray(case.k.swapaxes(1, 2)).swapaxes(1, 2)
        return k, case.v
    of_row = np.full((rows, slots * heads * (dim + 2 * dim)), np.nan, np.float16)
    step = of_row.itemsize
    k, v = (
        np.lib.stride_tricks.as_strided(
            of_row[:, at:], (rows, slots, heads, size), (of_row.strides[0], heads * size * step, size * step, step)
        )
        for at, size in ((0, dim), (slots * heads * dim, 2 * dim))
    )
    k[:], v[:] = case.k, np.concatenate([case.v, case.v], axis=3)
    return k, v


@pytest.mark.parametrize("layout", ["heads first", "keys, then values"])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_rows_of_keys_and_values_that_lie_otherwise(layout, adds, padded):
    leftpad = (3, 0, 16, 40) if padded else (0,) * BATCH
    case = Case(leftpad=leftpad, rows=(5, 0, 3, 2), cache_rows=6, new=(NEW if adds else 0,) * BATCH)
    expected, keys, values = case.expected(True)
    k, v = relaid(case, layout)
    new = (case.k_new, case.v_new if layout == "heads first" else np.concatenate([case.v_new] * 2, axis=3)) if adds else ()
    out = gqa.flash_attn_with_kvcache(
        case.q,
        k,
        v,
        *new,
        cache_seqlens=case.lengths,
        cache_batch_idx=np.array(case.rows, np.int32),
        cache_leftpad=np.array(leftpad, np.int32) if padded else None,
        causal=True,
    )
    for half in range(out.shape[3] // DIM):
        of = slice(half * DIM, (half + 1) * DIM)
        np.testing.assert_allclose(out[..., of], expected, atol=4e-3)
        check_cache(case, k, v[..., of], keys, values)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("adds", [False, True])
def test_a_cache_of_one_slot_a_row(padded, adds):
    generator = np.random.default_rng(3)
    rows, lengths = np.array([2, 0, 3], np.int32), np.array([1, 0, 0] if adds else [1, 1, 0], np.int32)
    padding = np.array([0, 0, 0] if adds else [0, 1, 0], np.int32)
    q = generator.standard_normal((3, 1, Q_HEADS, DIM)).astype(np.float16)
    k, v = (generator.standard_normal((4, 1, KV_HEADS, DIM)).astype(np.float16) for _ in range(2))
    new = [generator.standard_normal((3, 1, KV_HEADS, DIM)).astype(np.float16) for _ in range(2)] if adds else []
    before = v.copy()
    out = gqa.flash_attn_with_kvcache(
        q, k, v, *new, cache_seqlens=lengths, cache_batch_idx=rows, **({"cache_leftpad": padding} if padded else {})
    )
    if adds:  # the first has no room
        before[rows[1:]] = new[1][1:]
    np.testing.assert_array_equal(v, before)
    for b in range(3):
        seen = adds or lengths[b] - (padding[b] if padded else 0) > 0
        expected = np.repeat(before[rows[b], 0], Q_HEADS // KV_HEADS, axis=0) if seen else np.zeros((Q_HEADS, DIM))
        np.testing.assert_array_equal(out[b, 0], expected)


def test_without_a_query_new_keys_are_written():
    for packed in (False, True):
        case = Case()
        keys = case.expected(False, True)[1]
        values = case.expected(False)[2]
        q = case.q[:0, 0] if packed else case.q[:, :0]
        lists = {"cu_seqlens_q": np.zeros(BATCH + 1, np.int32), "max_seqlen_q": 0} if packed else {}
        out, lse = gqa.flash_attn_with_kvcache(
            q,
            case.k,
            case.v,
            case.k_new,
            case.v_new,
            rotary_cos=case.cos,
            rotary_sin=case.sin,
            cache_seqlens=case.lengths,
            return_softmax_lse=True,
            **lists,
        )
        assert out.shape == q.shape and lse.size == 0
        check_cache(case, case.k, case.v, keys, values)


@pytest.mark.parametrize("packed", [False, True])
def test_nothing_new_is_as_good_as_no_new_keys(packed):
    case = Case(new=(0,) * BATCH)
    expected, keys, values = case.expected(True, True)
    new = [np.zeros((0, KV_HEADS, DIM) if packed else (BATCH, 0, KV_HEADS, DIM), np.float16) for _ in range(2)]
    lists = {"cu_seqlens_k_new": np.zeros(BATCH + 1, np.int32)} if packed else {}
    rotation = {"rotary_cos": case.cos, "rotary_sin": case.sin}
    out = gqa.flash_attn_with_kvcache(
        case.q, case.k, case.v, *new, cache_seqlens=case.lengths, causal=True, **rotation, **lists
    )
    np.testing.assert_allclose(out, expected, atol=4e-3)
    check_cache(case, case.k, case.v, keys, values)


def test_without_a_sequence_nothing_is_done():
    case = Case()
    none = case.q[:0]
    out = gqa.flash_attn_with_kvcache(
        none, case.k[:0], case.v[:0], case.k_new[:0], case.v_new[:0], cache_seqlens=case.lengths[:0]
    )
    assert out.shape == none.shape
    rows, starts = case.q[:, 0].copy(), np.zeros(1, np.int32)
    out = np.full(rows.shape, 7, np.float16)  # whose rows no sequence has
    gqa.flash_attn_with_kvcache(
        rows, case.k, case.v, cu_seqlens_q=starts, max_seqlen_q=4, cache_seqlens=case.lengths[:0], out=out
    )
    gqa.flash_attn_varlen_func(rows, case.k[0], case.v[0], starts, starts, 4, 4, out=out)
    assert (out == 7).all()
    with pytest.raises(gqa.GqaValueError):
        gqa.flash_attn_with_kvcache(
            none, case.k[:0], case.v[:0], case.k_new, case.v_new, cache_seqlens=case.lengths[:0]
        )


def test_a_rotation_past_the_last_row_is_refused_where_it_is_seen():
    case = Case(q_len=1)
    short = {"rotary_cos": case.cos[:44], "rotary_sin": case.sin[:44]}
    says = r"cache_seqlens\[3\] is 45, and its tokens are rotated by position 45 to 47, expected 0 to 43: rotary_cos has 44"
    with gqa.Handle("host", cache_mode="off", tuning="guess", checked=True) as checked:
        with pytest.raises(gqa.GqaValueError, match=says):
            case.attend(handle=checked, **short)
        case.lengths[3] = 40
        case.attend(handle=checked, **{name: x[:43] for name, x in short.items()})
    one = {"cache_seqlens": 40, "k": case.k_new, "v": case.v_new, **short}
    gqa.flash_attn_with_kvcache(case.q, case.k, case.v, **{**one, "cache_seqlens": 41})
    with pytest.raises(gqa.GqaValueError, match="cache_seqlens is 42, and tokens are rotated by position 42 to 44"):
        gqa.flash_attn_with_kvcache(case.q, case.k, case.v, **{**one, "cache_seqlens": 42})
    long = np.zeros((BATCH, 5, Q_HEADS, DIM), np.float16)
    gqa.flash_attn_with_kvcache(long, case.k, case.v, **one)
    with pytest.raises(gqa.GqaValueError, match="position 40 to 44"):
        gqa.flash_attn_with_kvcache(long, case.k, case.v, **one, causal=True)
