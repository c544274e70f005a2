"""flash_attn_with_kvcache: FlashAttention-3's name and argument names for attention on a key/value cache.

Owns: which of its arguments mean something here. Never: computes, or reads a tensor's numbers. Threads: any.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

from . import _defaults
from ._arguments import APPEND, KVCACHE
from ._call import attend
from ._handle import Handle
from ._kinds import CALL
from ._options import ALL_KEYS, Append, Cache, maximum, of_scores, window_of
from ._refused import refuse_given

_NAME = "flash_attn_with_kvcache"
_NAMES = {  # its arguments by the library's names
    "k": "k_cache",
    "v": "v_cache",
    "k_new": "k",
    "v_new": "v",
    "scale": "softmax_scale",
    "return_lse": "return_softmax_lse",
}


def flash_attn_with_kvcache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    k: Any = None,
    v: Any = None,
    qv: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    cache_seqlens: Union[None, int, Any] = None,
    cache_batch_idx: Any = None,
    cache_leftpad: Any = None,
    page_table: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k_new: Any = None,
    max_seqlen_q: Optional[int] = None,
    rotary_seqlens: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Optional[Tuple[Optional[int], Optional[int]]] = ALL_KEYS,
    attention_chunk: int = 0,
    softcap: Optional[float] = 0.0,
    rotary_interleaved: bool = True,
    scheduler_metadata: Any = None,
    num_splits: int = 0,
    pack_gqa: Optional[bool] = None,
    sm_margin: int = 0,
    return_softmax_lse: bool = False,
    *,
    handle: Optional[Handle] = None,
    sink: Any = None,
    score_scale: Any = None,
    bias: Any = None,
    out: Any = None,
) -> Any:
    """flash_attn_interface.flash_attn_with_kvcache: queries of each sequence on its cached keys, in a decode step, a
    chunk of a prefill, or a prefill.

    q: (batch, q_len, q_heads, head_dim), float32, float16 or bfloat16; any number of queries.
    k_cache, v_cache: (batch, kv_len, kv_heads, head_dim or head_dim_v), of q's dtype; or with page_table
        (pages, page, kv_heads, ...), for any page size from 1.
    cache_seqlens: keys that each sequence has: (batch) int32 on q's device, or one number for all; None: kv_len.
        Numbers below 0 count as 0, those above kv_len as kv_len.
    page_table: (batch, pages a sequence) int32 on q's device: key j of sequence b is
        k_cache[page_table[b, j // page], j % page]. Sequences may share pages; kv_len is page times its columns.
    cu_seqlens_q, max_seqlen_q: q is packed, (total_q, q_heads, head_dim), and out with it: sequence b has rows
        cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1, at most max_seqlen_q; q_len below is their number. lse is then
        (q_heads, total_q).
    causal: query i stands at key length - q_len + i of its own sequence and sees the keys up to that.
    window_size: (left, right): it sees that many keys before and after it; -1 or None: all. causal makes right 0.
    softmax_scale: None for 1/sqrt(head_dim). softcap: a score s becomes softcap * tanh(s / softcap) before the mask;
        0.0 or None: none. Calls that differ in its number only compile and tune nothing.
    sink: (q_heads) float32 on q's device, or None: the number of a query head joins its rows' softmax as exp(sink) beside
    the exponentials of scores, and adds no value; the log-sum-exp includes it.
    score_scale, bias: as flash_attn_func's, of kv_len keys, which with page_table is page times its columns; column j of
    a bias is key j of its sequence. Packed queries' score_scale has a number for each head. A bias is refused beside
    k or cu_seqlens_q.
    out: a tensor to write, or None.
    Cached keys past a length, pages that no length reaches and entries of page_table past a length are never used: they
    may hold anything. The numbers are read on the device as the work runs; with GQA_CHECKED=1 in the environment, or a
    handle made with checked=True, each call looks at them first. handle: a gqa.Handle; None: the device's shared one.

    Returns out (batch, q_len, q_heads, head_dim_v), of q's framework; with return_softmax_lse (out, lse), lse (batch,
    q_heads, q_len) float32, without the partial results of splits that follow in FlashAttention-3. A row that sees no
    key gives 0 and -inf. Like gqa.attention it raises GqaValueError, GqaTypeError or GqaError.

    k, v: (batch, new, kv_heads, head_dim or head_dim_v), or with cu_seqlens_k_new (total_new, kv_heads, ...): written into
        the cache from slot cache_seqlens[b] on, which must be given then, and attended to: cache_seqlens itself is not
        changed. What has no room is not written.
    rotary_cos, rotary_sin: (positions, rotary_dim / 2), of q's dtype, rotary_dim a multiple of 16: new keys are written
        as rotated by their slot (or from rotary_seqlens[b] on), and queries are rotated: by that of the first new key and
        those after it with causal or a window, whatever it hides, else all by that of the first. rotary_interleaved:
        pairs are neighbours; False: element i and i + rotary_dim / 2. A position past the last row takes the last,
        and is refused where cache_seqlens is one number, and by a handle made with checked=True.
    cache_batch_idx: (batch) int32: sequence b lies in k_cache[cache_batch_idx[b]], or in that row of page_table, which
        may have more or fewer rows than there are sequences. cache_leftpad: (batch) int32: the first slot of each
        sequence, whose cache_seqlens counts from slot 0; pages then follow each other without a gap.

    There is no backward pass: where a torch input requires a gradient, out's raises NotImplementedError.
    num_splits, pack_gqa, sm_margin and scheduler_metadata are the tuner's to choose. qv, descales and attention_chunk
    raise NotImplementedError where they are given; rotary_seqlens means nothing without rotary_cos.

        table = torch.tensor([[7, 2, 5], [0, 4, 6]], dtype=torch.int32)      # 2 sequences, pages of 16
        lengths = torch.tensor([40, 33], dtype=torch.int32)
        out = gqa.flash_attn_with_kvcache(q, k_pages, v_pages, cache_seqlens=lengths, page_table=table, causal=True)
    """
    if not (qv is q_descale is k_descale is v_descale is None) or type(attention_chunk) is not int or attention_chunk:
        refuse_given(
            _NAME, attention_chunk, qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale
        )
    append, window = None, window_of(window_size)
    unset = k is v is rotary_cos is rotary_sin is cache_batch_idx is cache_leftpad is cu_seqlens_k_new is None
    if not unset:
        append = Append(
            k,
            v,
            cu_seqlens_k_new,
            rotary_cos,
            rotary_sin,
            None if rotary_cos is None else rotary_seqlens,
            CALL["rotary_interleaved"]("rotary_interleaved", rotary_interleaved),
            cache_batch_idx,
            cache_leftpad,
            bool(causal) or window is not None,
        )
    most = maximum("max_seqlen_q", max_seqlen_q, cu_seqlens_q)
    cache = Cache(cache_seqlens, page_table, window, cu_seqlens_q, None, None, most, 0, append)
    core_of = _defaults.served_by(handle)
    lse = return_softmax_lse
    return attend(
        core_of,
        q,
        k_cache,
        v_cache,
        causal,
        softmax_scale,
        out,
        lse,
        cache,
        softcap,
        sink,
        late=True,
        arrays=of_scores(score_scale, bias),
        names=_NAMES,
        operator=KVCACHE if k is None else APPEND,
    )
