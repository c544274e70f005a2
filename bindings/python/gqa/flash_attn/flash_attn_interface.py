"""flash_attn.flash_attn_interface of FlashAttention 2.8: its functions, whose fourth argument is dropout_p.

With return_attn_probs they return (out, softmax_lse, S_dmask), S_dmask without an element, as there without dropout; a
row that sees no key has the log-sum-exp +inf. dropout_p above 0 and alibi_slopes raise NotImplementedError;
deterministic concerns the backward pass, num_splits is the tuner's to choose. A head_dim that is not gqa's own, up to
256, costs a copy of q, k and v with zeros, of PyTorch's tensors. Errors as gqa.flash_attn_func's.

Owns: signatures, and what is refused. Never: computes. Threads: any.
"""

from __future__ import annotations

from typing import Any, NoReturn, Optional, Tuple, Union

from .. import _flash_forms as forms
from .._kinds import CALL

Window = Tuple[Optional[int], Optional[int]]

_NAMES = {"scale": "softmax_scale", "return_lse": "return_attn_probs"}
_KVCACHE_NAMES = {
    "k": "k_cache",
    "v": "v_cache",
    "k_new": "k",
    "v_new": "v",
    "page_table": "block_table",
    "scale": "softmax_scale",
    "return_lse": "return_softmax_lse",
}


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """q (batch, q_len, q_heads, head_dim), k and v (batch, kv_len, kv_heads, head_dim), float32, float16 or bfloat16;
    the rest as gqa.flash_attn_func's. Returns out, or (out, softmax_lse, S_dmask), softmax_lse (batch, q_heads, q_len)
    float32.
    """
    return _dense(
        "flash_attn_func",
        q,
        k,
        v,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        return_attn_probs,
    )


def flash_attn_qkvpacked_func(
    qkv: Any,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_func of one tensor (batch, length, 3, heads, head_dim): q, k and v."""
    q, k, v = forms.parts("qkv", qkv, 3, 5)
    return _dense(
        "flash_attn_qkvpacked_func",
        q,
        k,
        v,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        return_attn_probs,
    )


def flash_attn_kvpacked_func(
    q: Any,
    kv: Any,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_func with k and v as one tensor (batch, kv_len, 2, kv_heads, head_dim)."""
    k, v = forms.parts("kv", kv, 2, 5)
    return _dense(
        "flash_attn_kvpacked_func",
        q,
        k,
        v,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        return_attn_probs,
    )


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Any = None,
) -> Any:
    """q (total_q, q_heads, head_dim), k and v (total_k, kv_heads, head_dim): sequences one after another, which begin
    at cu_seqlens_q and cu_seqlens_k, (sequences + 1) int32; no longer than max_seqlen_q and max_seqlen_k.
    block_table: (sequences, pages a sequence) int32: k and v are then (pages, page, kv_heads, head_dim), any page size,
    and cu_seqlens_k says how many keys each sequence has. Returns as flash_attn_func, softmax_lse (q_heads, total_q).
    """
    return _packed(
        "flash_attn_varlen_func",
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        return_attn_probs,
        block_table,
    )


def flash_attn_varlen_qkvpacked_func(
    qkv: Any,
    cu_seqlens: Any,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_varlen_func of one tensor (total, 3, heads, head_dim): q, k and v."""
    q, k, v = forms.parts("qkv", qkv, 3, 4)
    return _packed(
        "flash_attn_varlen_qkvpacked_func",
        q,
        k,
        v,
        cu_seqlens,
        cu_seqlens,
        max_seqlen,
        max_seqlen,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        return_attn_probs,
    )


def flash_attn_varlen_kvpacked_func(
    q: Any,
    kv: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_varlen_func with k and v as one tensor (total_k, 2, kv_heads, head_dim)."""
    k, v = forms.parts("kv", kv, 2, 4)
    return _packed(
        "flash_attn_varlen_kvpacked_func",
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        return_attn_probs,
    )


def flash_attn_with_kvcache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    k: Any = None,
    v: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    cache_seqlens: Union[None, int, Any] = None,
    cache_batch_idx: Any = None,
    cache_leftpad: Any = None,
    block_table: Any = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Any = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """gqa.flash_attn_with_kvcache, whose page_table is block_table here; pages of any size. Returns out, or with
    return_softmax_lse (out, softmax_lse)."""
    name = "flash_attn_with_kvcache"
    forms.refuse_alibi(name, alibi_slopes)
    with_lse = CALL["return_softmax_lse"]("return_softmax_lse", return_softmax_lse)
    out, lse = forms.cached(
        q,
        k_cache,
        v_cache,
        softmax_scale,
        causal,
        window_size,
        softcap,
        with_lse,
        _KVCACHE_NAMES,
        cache_seqlens=cache_seqlens,
        page_table=block_table,
        new=(k, v, None, rotary_cos, rotary_sin, None),
        rotary_interleaved=rotary_interleaved,
        cache_batch_idx=cache_batch_idx,
        cache_leftpad=cache_leftpad,
    )
    return (out, forms.empty_rows_up(lse)) if with_lse else out


# ---- what these functions share


def _dense(
    name: str,
    q: Any,
    k: Any,
    v: Any,
    dropout_p: Any,
    scale: Any,
    causal: Any,
    window_size: Any,
    softcap: Any,
    alibi_slopes: Any,
    return_attn_probs: Any,
) -> Any:
    with_lse = _checked(name, dropout_p, scale, causal, alibi_slopes, return_attn_probs)
    out, lse = forms.dense(q, k, v, scale, causal, window_size, softcap, with_lse, _NAMES)
    return (out, forms.empty_rows_up(lse), forms.none_of(out)) if with_lse else out


def _packed(
    name: str,
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: Any,
    max_seqlen_k: Any,
    dropout_p: Any,
    scale: Any,
    causal: Any,
    window_size: Any,
    softcap: Any,
    alibi_slopes: Any,
    return_attn_probs: Any,
    block_table: Any = None,
) -> Any:
    with_lse = _checked(name, dropout_p, scale, causal, alibi_slopes, return_attn_probs)
    usual = (q, k, v, scale, causal, window_size, softcap, with_lse)
    if block_table is None:
        lists = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
        out, lse = forms.packed(*usual, _NAMES, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, **lists)
    else:
        out, lse = forms.cached(
            *usual,
            {**_NAMES, "page_table": "block_table", "cache_seqlens": "cu_seqlens_k"},
            cache_seqlens=forms.lengths(cu_seqlens_k),
            page_table=block_table,
            cu_seqlens_q=cu_seqlens_q,
            max_seqlen_q=max_seqlen_q,
        )
    return (out, forms.empty_rows_up(lse), forms.none_of(out)) if with_lse else out


def _checked(name: str, dropout_p: Any, scale: Any, causal: Any, alibi_slopes: Any, return_attn_probs: Any) -> bool:
    """Whether a log-sum-exp is wanted."""
    forms.refuse_order_2(name, dropout_p, scale, causal)
    forms.refuse_dropout(name, dropout_p)
    forms.refuse_alibi(name, alibi_slopes)
    return CALL["return_attn_probs"]("return_attn_probs", return_attn_probs)


# ---- what libraries take from here that call it below autograd (diffusers' context parallelism)


def _flash_attn_forward(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: Any,
    return_softmax: bool,
) -> Tuple[Any, Any, Any, Any]:
    """Returns (out, softmax_lse, S_dmask, rng_state), the last two without an element."""
    out, lse, mask = _dense(
        "_flash_attn_forward",
        q,
        k,
        v,
        dropout_p,
        softmax_scale,
        causal,
        (window_size_left, window_size_right),
        softcap,
        alibi_slopes,
        True,
    )
    return out, lse, mask, forms.none_of(out)


def _flash_attn_backward(*args: Any, **keywords: Any) -> NoReturn:
    """gqa computes no gradients."""
    raise NotImplementedError("gqa computes no gradients; call under torch.no_grad() or detach() the inputs")


_wrapped_flash_attn_forward = _flash_attn_forward
_wrapped_flash_attn_backward = _flash_attn_backward
