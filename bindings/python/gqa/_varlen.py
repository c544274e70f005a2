"""flash_attn_varlen_func: FlashAttention-3's name and argument names for attention on packed sequences.

Owns: which of its arguments mean something here, and the refusal of the others. Never: computes, or reads a tensor's
numbers. Threads: any.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

from . import _defaults
from ._arguments import VARLEN
from ._call import attend
from ._handle import Handle
from ._options import ALL_KEYS, Cache, maximum, of_scores, window_of
from ._refused import refuse_given

# Its arguments by the library's names.
_NAMES = {"cache_seqlens": "seqused_k", "scale": "softmax_scale", "return_lse": "return_attn_probs"}


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    seqused_q: Any = None,
    seqused_k: Any = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    qv: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    window_size: Optional[Tuple[Optional[int], Optional[int]]] = ALL_KEYS,
    attention_chunk: int = 0,
    softcap: Optional[float] = 0.0,
    num_splits: int = 1,
    pack_gqa: Optional[bool] = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
    *,
    handle: Optional[Handle] = None,
    sink: Any = None,
    score_scale: Any = None,
    bias: Any = None,
    out: Any = None,
) -> Any:
    """flash_attn_interface.flash_attn_varlen_func: sequences of any lengths, one after another in a tensor.

    q: (total_q, q_heads, head_dim), float32, float16 or bfloat16. k, v: (total_k, kv_heads, head_dim or head_dim_v), of
        q's dtype.
    cu_seqlens_q, cu_seqlens_k: (sequences + 1) int32 on q's device: sequence b has rows cu_seqlens_q[b] to
        cu_seqlens_q[b + 1] - 1 of q, and of k and v likewise. It may have no query, no key, or more queries than keys.
        With cu_seqlens_q None q is (batch, q_len, ...), with cu_seqlens_k None k and v are (batch, kv_len, ...).
    max_seqlen_q, max_seqlen_k: no sequence has more; calls whose maxima are about as large share a tuned kernel. Where no
        sequence has a query or a key, total_q or total_k may be 0, too.
    seqused_q, seqused_k: (sequences) int32: how many of a sequence's rows are used; None, or more than it has: all.
    causal: query i of n stands at key keys - n + i of its own sequence and sees the keys up to that.
    window_size: (left, right): it sees that many keys before and after it; -1 or None: all. causal makes right 0.
    softmax_scale: None for 1/sqrt(head_dim). softcap: a score s becomes softcap * tanh(s / softcap) before the mask;
        0.0 or None: none. sink: (q_heads) float32 on q's device, or None: as flash_attn_func's.
    score_scale: (q_heads) float32 on q's device, or None: a factor of each head's scores. bias: as flash_attn_func's, and
        refused beside cu_seqlens_q or cu_seqlens_k.
    out: a tensor to write, or None.
    The lists are read on the device as the work runs; with GQA_CHECKED=1 in the environment, or a handle made with
    checked=True, each call looks at them first. handle: a gqa.Handle; None: the device's shared one.

    Returns out (total_q, q_heads, head_dim_v), of q's framework; with return_attn_probs (out, softmax_lse), softmax_lse
    (q_heads, total_q) float32. A row that sees no key gives 0 and -inf; rows that no sequence uses are not written. Like
    gqa.attention it raises GqaValueError, GqaTypeError or GqaError.

    num_splits, pack_gqa and sm_margin are the tuner's to choose; deterministic concerns the backward pass, which does
    not exist: where a torch input requires a gradient, out's backward raises NotImplementedError. qv, descales and
    attention_chunk raise it where they are given.

        starts = torch.tensor([0, 5, 5, 12], dtype=torch.int32)              # 5 tokens, none, and 7
        out = gqa.flash_attn_varlen_func(q, k, v, starts, starts, 7, 7, causal=True)
    """
    descales = {"q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale}
    refuse_given("flash_attn_varlen_func", attention_chunk, qv=qv, **descales)
    lists = Cache(
        seqused_k,
        None,
        window_of(window_size),
        cu_seqlens_q,
        cu_seqlens_k,
        seqused_q,
        maximum("max_seqlen_q", max_seqlen_q, cu_seqlens_q),
        maximum("max_seqlen_k", max_seqlen_k, cu_seqlens_k),
    )
    core_of, lse = _defaults.served_by(handle), return_attn_probs
    return attend(
        core_of,
        q,
        k,
        v,
        causal,
        softmax_scale,
        out,
        lse,
        lists,
        softcap,
        sink,
        late=True,
        arrays=of_scores(score_scale, bias),
        names=_NAMES,
        operator=VARLEN,
    )
