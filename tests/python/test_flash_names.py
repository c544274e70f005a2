"""gqa.flash_attn, flash_attn_interface and flash_attn_cute: each version's order, defaults, results and words, and what
is refused, without PyTorch."""

import inspect

import gqa
import gqa.flash_attn as two
import gqa.flash_attn_cute as four
import gqa.flash_attn_interface as three
import numpy as np
import pytest

from conftest import attention_float64, check, make_qkv

USUAL_2 = (
    "dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, "
    "deterministic=False, return_attn_probs=False"
)
DESCALES = "q_descale=None, k_descale=None, v_descale=None"
USUAL_3 = (
    f"softmax_scale=None, causal=False, qv=None, {DESCALES}, window_size=(-1, -1), attention_chunk=0, softcap=0.0, "
    "num_splits=1, pack_gqa=None, deterministic=False, sm_margin=0, return_attn_probs=False"
)
LISTS = "cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k"
USUAL_4 = (
    "softmax_scale=None, causal=False, window_size=(None, None), learnable_sink=None, softcap=0.0, num_splits=1, "
    "pack_gqa=None, deterministic=False, score_mod=None, score_mod_bwd=None, mask_mod=None"
)
BACKWARD_4 = "gather_bwd_recompute_p=False, gather_bwd_token_chunk=None"

# As flash_attn 2.8, FlashAttention-3's flash_attn_interface and flash-attn-4 4.0.0b36's flash_attn.cute have them.
SIGNATURES = {
    two: [
        f"flash_attn_func(q, k, v, {USUAL_2})",
        f"flash_attn_qkvpacked_func(qkv, {USUAL_2})",
        f"flash_attn_kvpacked_func(q, kv, {USUAL_2})",
        f"flash_attn_varlen_func(q, k, v, {LISTS}, {USUAL_2}, block_table=None)",
        f"flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, {USUAL_2})",
        f"flash_attn_varlen_kvpacked_func(q, kv, {LISTS}, {USUAL_2})",
        "flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, "
        "cache_seqlens=None, cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, "
        "causal=False, window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0, "
        "return_softmax_lse=False)",
    ],
    three: [
        f"flash_attn_func(q, k, v, {USUAL_3})",
        f"flash_attn_qkvpacked_func(qkv, softmax_scale=None, causal=False, {DESCALES}, window_size=(-1, -1), "
        "attention_chunk=0, softcap=0.0, deterministic=False, num_heads_q=None, sm_margin=0, return_attn_probs=False)",
        f"flash_attn_varlen_func(q, k, v, {LISTS}, seqused_q=None, seqused_k=None, {USUAL_3})",
        "flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, qv=None, rotary_cos=None, rotary_sin=None, "
        "cache_seqlens=None, cache_batch_idx=None, cache_leftpad=None, page_table=None, cu_seqlens_q=None, "
        f"cu_seqlens_k_new=None, max_seqlen_q=None, rotary_seqlens=None, {DESCALES}, softmax_scale=None, "
        "causal=False, window_size=(-1, -1), attention_chunk=0, softcap=0.0, rotary_interleaved=True, "
        "scheduler_metadata=None, num_splits=0, pack_gqa=None, sm_margin=0, return_softmax_lse=False)",
        "flash_attn_combine(out_partial, lse_partial, out=None, out_dtype=None)",
        "get_scheduler_metadata(batch_size, max_seqlen_q, max_seqlen_k, num_heads_q, num_heads_kv, headdim, "
        "cache_seqlens, qkv_dtype=DTYPE, headdim_v=None, cu_seqlens_q=None, cu_seqlens_k_new=None, cache_leftpad=None, "
        "page_size=None, max_seqlen_k_new=0, causal=False, window_size=(-1, -1), attention_chunk=0, has_softcap=False, "
        "num_splits=0, pack_gqa=None, sm_margin=0)",
    ],
    four: [
        f"flash_attn_func(q, k, v, qv=None, gather_kv_indices=None, {USUAL_4}, aux_tensors=None, aux_scalars=None, "
        f"block_sparse_tensors=None, block_sparse_tensors_bwd=None, return_lse=False, {BACKWARD_4})",
        "flash_attn_varlen_func(q, k, v, qv=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None, "
        "max_seqlen_k=None, min_seqlen_k=None, seqused_q=None, seqused_k=None, gather_kv_indices=None, "
        f"page_table=None, {USUAL_4}, block_sparse_tensors=None, aux_tensors=None, aux_scalars=None, return_lse=False, "
        f"scheduler_metadata=None, seqlen_k_per_split=None, disable_scheduler_metadata=False, {BACKWARD_4})",
    ],
}
EACH = [(module, line) for module, lines in SIGNATURES.items() for line in lines]


@pytest.mark.parametrize("module,line", EACH, ids=[f"{m.__name__}.{s.partition('(')[0]}" for m, s in EACH])
def test_signature(module, line):
    """Names, order and defaults, as Transformers reads them with inspect.signature."""
    theirs = {}
    exec(f"def {line}: pass", {"DTYPE": gqa.bfloat16}, theirs)
    ((name, expected),) = theirs.items()
    ours = inspect.signature(getattr(module, name)).parameters.values()
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in ours)
    assert [(p.name, p.default) for p in ours] == [
        (p.name, p.default) for p in inspect.signature(expected).parameters.values()
    ]


def test_all_functions_of_a_version():
    for module, lines in SIGNATURES.items():
        assert sorted(module.__all__) == sorted(line.partition("(")[0] for line in lines)


# ---- dense


def test_dense_by_position():
    q, k, v = make_qkv(q_len=12, kv_len=20, q_heads=4, kv_heads=2)
    expected = attention_float64(q, k, v, True, scale=0.2, window=(5, 0), softcap=3.0)[0]
    check(two.flash_attn_func(q, k, v, 0.0, 0.2, True, (5, 0), 3.0), expected)
    check(three.flash_attn_func(q, k, v, 0.2, True, None, None, None, None, (5, 0), 0, 3.0), expected)
    check(four.flash_attn_func(q, k, v, None, None, 0.2, True, (5, 0), None, 3.0)[0], expected)


def test_results_of_each_version():
    """Two queries that see no key: 0, and a log-sum-exp in each version's words."""
    q, k, v = make_qkv(q_len=5, kv_len=3)
    expected, expected_lse = attention_float64(q, k, v, True)
    assert (expected_lse[0, :, :2] == -np.inf).all() and np.isfinite(expected_lse[0, :, 2:]).all()
    results = (
        two.flash_attn_func(q, k, v, causal=True, return_attn_probs=True),
        three.flash_attn_func(q, k, v, causal=True, return_attn_probs=True),
        four.flash_attn_func(q, k, v, causal=True, return_lse=True),
    )
    assert [len(result) for result in results] == [3, 2, 2]
    assert results[0][2].shape == (0,) and results[0][2].dtype == q.dtype
    for (out, lse, *_), empty in zip(results, (np.inf, -np.inf, -np.inf)):
        check(out, expected)
        assert lse.dtype == np.float32 and (lse[0, :, :2] == empty).all()
        check(lse[..., 2:], expected_lse[..., 2:])
    out, lse = four.flash_attn_func(q, k, v, causal=True)
    assert lse is None
    check(out, expected)


def test_window_words():
    q, k, v = make_qkv(q_len=12, kv_len=20)
    left = attention_float64(q, k, v, window=(4, -1))[0]
    check(two.flash_attn_func(q, k, v, window_size=(4, -1)), left)
    check(three.flash_attn_func(q, k, v, window_size=(4, -1)), left)
    check(four.flash_attn_func(q, k, v, window_size=(4, None))[0], left)
    check(four.flash_attn_func(q, k, v, window_size=(-1, -1))[0], attention_float64(q, k, v)[0])
    with pytest.raises(gqa.GqaValueError, match=r"word for a side without an end is None: \(4, None\)"):
        four.flash_attn_func(q, k, v, window_size=(4, -1))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_learnable_sink(dtype):
    q, k, v = make_qkv(q_len=5, kv_len=3)
    sink = np.array([0.5, -1.25], dtype)
    out, lse = four.flash_attn_func(q, k, v, causal=True, learnable_sink=sink, return_lse=True)
    expected, expected_lse = attention_float64(q, k, v, True, sink=sink)
    check(out, expected)
    check(lse, expected_lse)
    assert np.allclose(lse[0, :, 0], sink)


def test_tensors_of_q_k_and_v():
    q, k, v = make_qkv(q_len=16, kv_len=16, q_heads=2, kv_heads=2)
    expected, expected_lse = attention_float64(q, k, v, True)
    qkv, kv = np.stack([q, k, v], 2), np.stack([k, v], 2)
    out, lse, _ = two.flash_attn_qkvpacked_func(qkv, causal=True, return_attn_probs=True)
    check(out, expected)
    check(lse, expected_lse)
    check(two.flash_attn_kvpacked_func(q, kv, causal=True), expected)
    check(three.flash_attn_qkvpacked_func(qkv, None, True), expected)
    with pytest.raises(gqa.GqaValueError, match=r"qkv is \(1, 16, 2, 2, 32\); expected \(batch, length, 3, heads"):
        two.flash_attn_qkvpacked_func(kv)


def test_one_tensor_of_grouped_heads():
    q, k, v = make_qkv(q_heads=4, kv_heads=2)
    qkv = np.concatenate([q, k, v], 2)
    out, lse = three.flash_attn_qkvpacked_func(qkv, causal=True, num_heads_q=4, return_attn_probs=True)
    expected, expected_lse = attention_float64(q, k, v, True)
    check(out, expected)
    check(lse, expected_lse)
    with pytest.raises(gqa.GqaValueError, match="num_heads_q 5; expected"):
        three.flash_attn_qkvpacked_func(qkv, num_heads_q=5)


# ---- packed

STARTS_Q, STARTS_K = np.array([0, 3, 3, 9], np.int32), np.array([0, 8, 10, 12], np.int32)


def packed_qkv(kv_heads=2):
    q, k, v = make_qkv(q_len=9, kv_len=12, q_heads=4, kv_heads=kv_heads)
    return q[0], k[0], v[0]


def packed_float64(q, k, v, starts_q=STARTS_Q, starts_k=STARTS_K, **mask):
    pairs = list(zip(zip(starts_q[:-1], starts_q[1:]), zip(starts_k[:-1], starts_k[1:])))
    each = [attention_float64(q[None, a:b], k[None, c:d], v[None, c:d], **mask) for (a, b), (c, d) in pairs if b > a]
    return np.concatenate([out[0] for out, _ in each]), np.concatenate([lse[0] for _, lse in each], 1)


def test_packed_by_position():
    """The third sequence has six queries and two keys: four of them see none."""
    q, k, v = packed_qkv()
    expected, expected_lse = packed_float64(q, k, v, causal=True, scale=0.2)
    results = (
        two.flash_attn_varlen_func(q, k, v, STARTS_Q, STARTS_K, 6, 8, 0.0, 0.2, True, return_attn_probs=True),
        three.flash_attn_varlen_func(q, k, v, STARTS_Q, STARTS_K, 6, 8, None, None, 0.2, True, return_attn_probs=True),
        four.flash_attn_varlen_func(
            q, k, v, None, STARTS_Q, STARTS_K, 6, 8, None, None, None, None, None, 0.2, True, return_lse=True
        ),
    )
    assert [len(result) for result in results] == [3, 2, 2]
    finite = np.isfinite(expected_lse)
    assert finite.any() and not finite.all()
    for (out, lse, *_), empty in zip(results, (np.inf, -np.inf, -np.inf)):
        check(out, expected)
        assert (lse[~finite] == empty).all()
        check(lse[finite], expected_lse[finite])


def test_packed_tensors_of_q_k_and_v():
    q, k, v = (x[:9] for x in packed_qkv(kv_heads=4))
    expected = packed_float64(q, k, v, starts_k=STARTS_Q, causal=True)[0]
    qkv, kv = np.stack([q, k, v], 1), np.stack([k, v], 1)
    check(two.flash_attn_varlen_qkvpacked_func(qkv, STARTS_Q, 6, causal=True), expected)
    check(two.flash_attn_varlen_kvpacked_func(q, kv, STARTS_Q, STARTS_Q, 6, 6, causal=True), expected)
    with pytest.raises(gqa.GqaValueError, match=r"kv is \(9, 3, 4, 32\); expected \(tokens of all sequences, 2, heads"):
        two.flash_attn_varlen_kvpacked_func(q, qkv, STARTS_Q, STARTS_Q, 6, 6)


def pages_of(k, starts, page=4, width=2):
    """k's sequences in pages of a cache, out of order, and their table."""
    table = np.array([[5, 0], [3, 3], [1, 4]], np.int32)
    pages = np.full((6, page, *k.shape[1:]), np.nan, k.dtype)
    for row, (a, b) in enumerate(zip(starts[:-1], starts[1:])):
        for at in range(b - a):
            pages[table[row, at // page], at % page] = k[a + at]
    return pages, table


def test_packed_queries_on_pages():
    q, k, v = packed_qkv()
    expected, expected_lse = packed_float64(q, k, v, causal=True)
    (k_pages, table), (v_pages, _) = pages_of(k, STARTS_K), pages_of(v, STARTS_K)
    out, lse, _ = two.flash_attn_varlen_func(
        q, k_pages, v_pages, STARTS_Q, STARTS_K, 6, 8, causal=True, return_attn_probs=True, block_table=table
    )
    check(out, expected)
    assert ((lse == np.inf) == (expected_lse == -np.inf)).all()
    used = np.diff(STARTS_K).astype(np.int32)
    out, lse = four.flash_attn_varlen_func(
        q, k_pages, v_pages, cu_seqlens_q=STARTS_Q, max_seqlen_q=6, seqused_k=used, page_table=table, causal=True
    )
    check(out, expected)
    assert lse is None
    with pytest.raises(gqa.GqaValueError, match="cu_seqlens_k is given with page_table; expected None: give seqused_k"):
        four.flash_attn_varlen_func(q, k_pages, v_pages, cu_seqlens_q=STARTS_Q, cu_seqlens_k=STARTS_K, page_table=table)


def test_packed_queries_on_a_batch_of_keys():
    """max_seqlen of None is the most there can be."""
    q = packed_qkv()[0]
    _, k, v = make_qkv(batch=3, kv_len=8, kv_heads=2)
    starts_k = np.arange(0, 25, 8)
    expected = packed_float64(q, k.reshape(24, 2, 32), v.reshape(24, 2, 32), starts_k=starts_k)[0]
    check(four.flash_attn_varlen_func(q, k, v, cu_seqlens_q=STARTS_Q)[0], expected)


# ---- caches


@pytest.mark.parametrize("module", [two, three])
def test_cache(module):
    q, k, v = make_qkv(batch=2, q_len=1, kv_len=24, q_heads=4, kv_heads=2)
    _, k_new, v_new = make_qkv(batch=2, q_len=1, kv_len=1, q_heads=4, kv_heads=2, seed=1)
    lengths = np.array([9, 17], np.int32)
    result = module.flash_attn_with_kvcache(
        q, k, v, k_new, v_new, cache_seqlens=lengths, causal=True, return_softmax_lse=True
    )
    assert len(result) == (2 if module is two else 4)
    for row, length in enumerate(lengths):
        assert (k[row, length] == k_new[row, 0]).all()
        kept = [x[row : row + 1, : length + 1] for x in (k, v)]
        expected, expected_lse = attention_float64(q[row : row + 1], *kept)
        check(result[0][row : row + 1], expected)
        check(result[1][row : row + 1], expected_lse)
    for accumulated in result[2:]:
        assert accumulated.shape == (0,) and accumulated.dtype == np.float32


def test_cache_of_pages_and_empty_rows():
    q, k, v = make_qkv(batch=2, q_len=2, kv_len=24, q_heads=4, kv_heads=2)
    pages, v_pages = k.reshape(12, 4, 2, 32), v.reshape(12, 4, 2, 32)
    table = np.arange(12, dtype=np.int32).reshape(2, 6)
    lengths = np.array([1, 20], np.int32)
    out, lse = two.flash_attn_with_kvcache(
        q, pages, v_pages, cache_seqlens=lengths, block_table=table, causal=True, return_softmax_lse=True
    )
    assert (lse[0, :, 0] == np.inf).all() and (out[0, 0] == 0).all()
    check(out[1:], attention_float64(q[1:], k[1:, :20], v[1:, :20], True)[0])
    assert len(three.flash_attn_with_kvcache(q, k, v, return_softmax_lse=True)) == 4
    with pytest.raises(gqa.GqaTypeError, match="block_table is int64, expected int32"):
        two.flash_attn_with_kvcache(q, pages, v_pages, cache_seqlens=lengths, block_table=table.astype(np.int64))


# ---- what is refused, and who is named


def test_an_order_of_another_version_is_named():
    q, k, v = make_qkv()
    for function, given, meant in (
        (gqa.flash_attn_func, (0.125, True), "FlashAttention-3's order, and this one has FlashAttention-2's"),
        (gqa.flash_attn_func, (None, True), "FlashAttention-3's order"),
        (
            two.flash_attn_func,
            (0.125, True),
            "FlashAttention-3's order.* take gqa.flash_attn_interface.flash_attn_func",
        ),
        (two.flash_attn_func, (None, None, 0.125, True), "FlashAttention-4's order"),
        (three.flash_attn_func, (0.0, 0.125, True), "FlashAttention-2's order"),
        (three.flash_attn_func, (0.0, None, True), "FlashAttention-2's order"),
        (three.flash_attn_func, (None, None, 0.125, True), "FlashAttention-4's order"),
        (four.flash_attn_func, (0.125, True), "FlashAttention-3's order"),
        (four.flash_attn_func, (None, True), "FlashAttention-3's order"),
        (four.flash_attn_func, (0.0, 0.125, True), "FlashAttention-2's order"),
    ):
        with pytest.raises(gqa.GqaValueError, match=meant) as caught:
            function(q, k, v, *given)
        assert len(str(caught.value)) <= 400
    q, k, v = packed_qkv()
    with pytest.raises(gqa.GqaValueError, match="qv with one dimension, as cu_seqlens_q"):
        four.flash_attn_varlen_func(q, k, v, STARTS_Q, STARTS_K, 6, 8)
    with pytest.raises(gqa.GqaValueError, match="FlashAttention-3's order"):
        two.flash_attn_varlen_func(q, k, v, STARTS_Q, STARTS_K, 6, 8, None, True)


ONES = np.ones(2, np.float32)
REFUSED = [
    (
        two.flash_attn_func,
        {"dropout_p": 0.1},
        "dropout_p=0.1; gqa computes dropout_p=0.0 only: leave it out; of a model",
    ),
    (two.flash_attn_func, {"alibi_slopes": ONES}, "alibi_slopes=a ndarray; gqa computes alibi_slopes=None only: give"),
    (three.flash_attn_func, {"qv": ONES}, "qv=a ndarray; gqa computes qv=None only"),
    (three.flash_attn_func, {"k_descale": ONES}, "k_descale=a ndarray"),
    (three.flash_attn_func, {"attention_chunk": 64}, "attention_chunk=64; gqa computes attention_chunk=0 only"),
    (four.flash_attn_func, {"qv": ONES}, "qv=a ndarray"),
    (four.flash_attn_func, {"gather_kv_indices": ONES}, "gather_kv_indices=a ndarray"),
    (four.flash_attn_func, {"score_mod": max}, "score_mod=a builtin_function_or_method"),
    (four.flash_attn_func, {"mask_mod": max}, "mask_mod=a builtin_function_or_method"),
    (four.flash_attn_func, {"block_sparse_tensors": (ONES,)}, "block_sparse_tensors=a tuple"),
]


@pytest.mark.parametrize("function,given,said", REFUSED, ids=[f"{f.__module__}-{[*g][0]}" for f, g, _ in REFUSED])
def test_what_is_not_computed_is_refused(function, given, said):
    with pytest.raises(NotImplementedError, match=f"flash_attn_func was given {said}"):
        function(*make_qkv(), **given)


def test_refusals_name_the_function_that_was_called():
    q, k, v = packed_qkv(kv_heads=4)
    kv = np.stack([k, v], 1)
    with pytest.raises(NotImplementedError, match="flash_attn_varlen_kvpacked_func was given dropout_p="):
        two.flash_attn_varlen_kvpacked_func(q, kv, STARTS_Q, STARTS_K, 6, 8, 0.1)
    with pytest.raises(NotImplementedError, match="flash_attn_with_kvcache was given alibi_slopes="):
        two.flash_attn_with_kvcache(*make_qkv(), alibi_slopes=ONES)
    with pytest.raises(gqa.GqaTypeError, match="softmax_scale is 'half'"):
        four.flash_attn_func(*make_qkv(), softmax_scale="half")
    with pytest.raises(gqa.GqaValueError, match="learnable_sink has"):
        four.flash_attn_func(*make_qkv(), learnable_sink=np.ones((2, 2), np.float32))
    with pytest.raises(gqa.GqaTypeError, match="return_lse is 'yes'"):
        four.flash_attn_func(*make_qkv(), return_lse="yes")


def test_what_concerns_the_backward_pass_or_the_tuner_is_taken():
    q, k, v = make_qkv()
    expected = attention_float64(q, k, v)[0]
    check(two.flash_attn_func(q, k, v, deterministic=True), expected)
    check(three.flash_attn_func(q, k, v, num_splits=4, pack_gqa=True, sm_margin=8, deterministic=True), expected)
    out, _ = four.flash_attn_func(q, k, v, num_splits=4, pack_gqa=False, score_mod_bwd=max, gather_bwd_recompute_p=True)
    check(out, expected)


def test_what_diffusers_takes_below_autograd():
    from gqa.flash_attn.flash_attn_interface import _wrapped_flash_attn_backward, _wrapped_flash_attn_forward

    q, k, v = make_qkv()
    out, lse, mask, rng = _wrapped_flash_attn_forward(q, k, v, 0.0, 0.2, True, -1, -1, 0.0, None, False)
    expected, expected_lse = attention_float64(q, k, v, True, scale=0.2)
    check(out, expected)
    check(lse, expected_lse)
    assert mask.shape == rng.shape == (0,)
    with pytest.raises(NotImplementedError, match="gqa computes no gradients"):
        _wrapped_flash_attn_backward(out, q, k, v, out, lse)
