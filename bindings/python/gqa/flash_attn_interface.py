"""FlashAttention-3's functions, with the arguments, defaults and results of its flash_attn_interface: the fourth
argument of flash_attn_func is softmax_scale.

With return_attn_probs they return (out, softmax_lse); flash_attn_with_kvcache with return_softmax_lse (out,
softmax_lse, out_accum, softmax_lse_accum), the last two without an element, as there without splits; a row that sees no
key has the log-sum-exp -inf. qv, descales and attention_chunk raise NotImplementedError where they ask for more than
their defaults; num_splits, pack_gqa, sm_margin and scheduler_metadata are the tuner's to choose, deterministic concerns
the backward pass. Errors as gqa.flash_attn_func's.

Owns: signatures, and what is refused. Never: computes. Threads: any.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

from . import _flash_forms as forms
from ._dtypes import float32
from ._errors import Status, error_for
from ._kinds import CALL
from ._kvcache import flash_attn_with_kvcache as _with_kvcache
from ._merge import merge_states
from ._refused import refuse_given
from ._scheduler import get_scheduler_metadata

__all__ = [
    "flash_attn_combine",
    "flash_attn_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "get_scheduler_metadata",
]

Window = Tuple[Optional[int], Optional[int]]

_NAMES = {"scale": "softmax_scale", "return_lse": "return_attn_probs"}


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    qv: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    window_size: Window = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: Optional[bool] = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Any:
    """q (batch, q_len, q_heads, head_dim), k and v (batch, kv_len, kv_heads, head_dim or head_dim_v), float32,
    float16 or bfloat16; the rest as gqa.flash_attn_func's. Returns out, or (out, softmax_lse), softmax_lse
    (batch, q_heads, q_len) float32.
    """
    forms.refuse_order_3("flash_attn_func", softmax_scale, causal, qv)
    descales = {"q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale}
    refuse_given("flash_attn_func", attention_chunk, qv=qv, **descales)
    with_lse = CALL["return_attn_probs"]("return_attn_probs", return_attn_probs)
    out, lse = forms.dense(q, k, v, softmax_scale, causal, window_size, softcap, with_lse, _NAMES)
    return (out, lse) if with_lse else out


def flash_attn_qkvpacked_func(
    qkv: Any,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    window_size: Window = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    deterministic: bool = False,
    num_heads_q: Optional[int] = None,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_func of one tensor, (batch, length, 3, heads, head_dim), or with num_heads_q (batch, length,
    num_heads_q and twice kv_heads, head_dim)."""
    name = "flash_attn_qkvpacked_func"
    refuse_given(name, attention_chunk, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    with_lse = CALL["return_attn_probs"]("return_attn_probs", return_attn_probs)
    q, k, v = forms.parts("qkv", qkv, 3, 5) if num_heads_q is None else _by_heads(qkv, num_heads_q)
    out, lse = forms.dense(q, k, v, softmax_scale, causal, window_size, softcap, with_lse, _NAMES)
    return (out, lse) if with_lse else out


def _by_heads(qkv: Any, q_heads: int) -> Tuple[Any, Any, Any]:
    shape = tuple(qkv.shape)
    if len(shape) == 5:
        return forms.parts("qkv", qkv, 3, 5)
    kv_heads, odd = divmod(shape[2] - q_heads, 2) if len(shape) == 4 else (0, 0)
    if odd or kv_heads < 1:
        raise error_for(
            Status.ERROR_SHAPE,
            f"qkv is {shape} and num_heads_q {q_heads}; expected (batch, length, num_heads_q + 2 kv_heads, head_dim)",
        )
    at = q_heads + kv_heads
    return qkv[:, :, :q_heads], qkv[:, :, q_heads:at], qkv[:, :, at:]


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
    window_size: Window = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: Optional[bool] = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Any:
    """gqa.flash_attn_varlen_func. Returns out, or (out, softmax_lse), softmax_lse (q_heads, total_q) float32."""
    descales = {"q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale}
    refuse_given("flash_attn_varlen_func", attention_chunk, qv=qv, **descales)
    with_lse = CALL["return_attn_probs"]("return_attn_probs", return_attn_probs)
    out, lse = forms.packed(
        q,
        k,
        v,
        softmax_scale,
        causal,
        window_size,
        softcap,
        with_lse,
        {"cache_seqlens": "seqused_k", **_NAMES},
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
        seqused_q=seqused_q,
        seqused_k=seqused_k,
    )
    return (out, lse) if with_lse else out


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
    window_size: Window = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    scheduler_metadata: Any = None,
    num_splits: int = 0,
    pack_gqa: Optional[bool] = None,
    sm_margin: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """gqa.flash_attn_with_kvcache. Returns out, or with return_softmax_lse (out, softmax_lse, out_accum,
    softmax_lse_accum)."""
    result = _with_kvcache(
        q,
        k_cache,
        v_cache,
        k,
        v,
        qv,
        rotary_cos,
        rotary_sin,
        cache_seqlens,
        cache_batch_idx,
        cache_leftpad,
        page_table,
        cu_seqlens_q,
        cu_seqlens_k_new,
        max_seqlen_q,
        rotary_seqlens,
        q_descale,
        k_descale,
        v_descale,
        softmax_scale,
        causal,
        window_size,
        attention_chunk,
        softcap,
        rotary_interleaved,
        scheduler_metadata,
        num_splits,
        pack_gqa,
        sm_margin,
        return_softmax_lse,
    )
    return (
        (*result, forms.none_of(result[0], float32), forms.none_of(result[0], float32))
        if return_softmax_lse
        else result
    )


def flash_attn_combine(out_partial: Any, lse_partial: Any, out: Any = None, out_dtype: Any = None) -> Tuple[Any, Any]:
    """out_partial (parts, batch, q_len, heads, head_dim), lse_partial (parts, batch, q_len, heads), float32: merges
    what attention gave on parts of the keys, as gqa.merge_states does. Of PyTorch's tensors. out: a tensor to write, of
    out_dtype; out_dtype None: out_partial's. Returns (out, lse), lse (batch, q_len, heads)."""
    merged, lse = merge_states(list(out_partial), [part.swapaxes(-1, -2) for part in lse_partial])
    if out is not None:
        out.copy_(merged)
    elif out_dtype is not None:
        merged = merged.to(out_dtype)
    return (merged if out is None else out), lse.swapaxes(-1, -2)
