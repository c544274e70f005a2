"""FlashAttention-4's functions, with the arguments, defaults and results of flash_attn.cute: the fourth argument of
flash_attn_func is qv, and both functions return (out, lse), lse None unless return_lse is True.

The word for a window without an end is None. A row that sees no key has the log-sum-exp -inf, or that of its sink. qv,
gather_kv_indices, score_mod, mask_mod and block_sparse_tensors raise NotImplementedError where they are given;
num_splits, pack_gqa, scheduler_metadata, disable_scheduler_metadata, seqlen_k_per_split and min_seqlen_k are the
tuner's to choose; deterministic, score_mod_bwd, block_sparse_tensors_bwd and those of gather_bwd concern the backward
pass; aux_tensors and aux_scalars mean nothing without a score_mod or mask_mod. Errors as gqa.flash_attn_func's.

Owns: signatures, and what is refused. Never: computes. Threads: any.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

from . import _flash_forms as forms
from ._dtypes import float32
from ._errors import Status, error_for
from ._kinds import CALL, shown

__all__ = ["flash_attn_func", "flash_attn_varlen_func"]

Window = Tuple[Optional[int], Optional[int]]

_NAMES = {"scale": "softmax_scale", "sink": "learnable_sink"}


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    qv: Any = None,
    gather_kv_indices: Any = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (None, None),
    learnable_sink: Any = None,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: Optional[bool] = None,
    deterministic: bool = False,
    score_mod: Optional[Callable[..., Any]] = None,
    score_mod_bwd: Optional[Callable[..., Any]] = None,
    mask_mod: Optional[Callable[..., Any]] = None,
    aux_tensors: Any = None,
    aux_scalars: Any = None,
    block_sparse_tensors: Any = None,
    block_sparse_tensors_bwd: Any = None,
    return_lse: bool = False,
    gather_bwd_recompute_p: bool = False,
    gather_bwd_token_chunk: Optional[int] = None,
) -> Tuple[Any, Any]:
    """q (batch, q_len, q_heads, head_dim), k and v (batch, kv_len, kv_heads, head_dim or head_dim_v), float32,
    float16 or bfloat16. learnable_sink: (q_heads), float16, bfloat16 or float32, a score beside each row's that adds no
    value. The rest as gqa.flash_attn_func's. Returns (out, lse), lse (batch, q_heads, q_len) float32 or None."""
    name = "flash_attn_func"
    forms.refuse_order_4(name, qv, gather_kv_indices)
    _refuse(name, qv, gather_kv_indices, score_mod, mask_mod, block_sparse_tensors)
    with_lse = CALL["return_lse"]("return_lse", return_lse)
    sink, window = _sink(learnable_sink), _window(window_size)
    return forms.dense(q, k, v, softmax_scale, causal, window, softcap, with_lse, _NAMES, sink)


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    qv: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    min_seqlen_k: Optional[int] = None,
    seqused_q: Any = None,
    seqused_k: Any = None,
    gather_kv_indices: Any = None,
    page_table: Any = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (None, None),
    learnable_sink: Any = None,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: Optional[bool] = None,
    deterministic: bool = False,
    score_mod: Optional[Callable[..., Any]] = None,
    score_mod_bwd: Optional[Callable[..., Any]] = None,
    mask_mod: Optional[Callable[..., Any]] = None,
    block_sparse_tensors: Any = None,
    aux_tensors: Any = None,
    aux_scalars: Any = None,
    return_lse: bool = False,
    scheduler_metadata: Any = None,
    seqlen_k_per_split: Optional[int] = None,
    disable_scheduler_metadata: bool = False,
    gather_bwd_recompute_p: bool = False,
    gather_bwd_token_chunk: Optional[int] = None,
) -> Tuple[Any, Any]:
    """q (total_q, q_heads, head_dim) with cu_seqlens_q, else (batch, q_len, ...); k and v likewise with cu_seqlens_k,
    or with page_table, (sequences, pages a sequence) int32, (pages, page, kv_heads, head_dim), of which each sequence
    has seqused_k keys. max_seqlen_q, max_seqlen_k: None for the most there can be, as many as there are rows; tell
    them, for kernels are tuned for them. seqused_q, seqused_k: (sequences) int32: how many of a sequence's rows are used.
    Returns (out, lse), lse (q_heads, total_q) or (batch, q_heads, q_len) float32, or None."""
    name = "flash_attn_varlen_func"
    forms.refuse_order_4(name, qv, cu_seqlens_q)
    if qv is not None and len(getattr(qv, "shape", ())) == 1:
        raise error_for(
            Status.ERROR_OPTION,
            f"{name} was given qv with one dimension, as cu_seqlens_q stands in the order of FlashAttention-2 and 3; "
            f"name the arguments, or take gqa.flash_attn.{name} or gqa.flash_attn_interface.{name}",
        )
    _refuse(name, qv, gather_kv_indices, score_mod, mask_mod, block_sparse_tensors)
    with_lse = CALL["return_lse"]("return_lse", return_lse)
    usual = (q, k, v, softmax_scale, causal, _window(window_size), softcap, with_lse)
    sink, most_q = _sink(learnable_sink), _most(max_seqlen_q, q)
    if page_table is None:
        names = {**_NAMES, "cache_seqlens": "seqused_k"}
        lists = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k, "max_seqlen_q": most_q}
        lists.update(seqused_q=seqused_q, seqused_k=seqused_k, max_seqlen_k=_most(max_seqlen_k, k))
        return forms.packed(*usual, names, sink, **lists)
    for at, given, instead in (
        ("cu_seqlens_k", cu_seqlens_k, "give seqused_k, the keys of each sequence"),
        ("seqused_q", seqused_q, "give cu_seqlens_q, the rows of each sequence"),
    ):
        if given is not None:
            raise error_for(Status.ERROR_OPTION, f"{at} is given with page_table; expected None: {instead}")
    names = {**_NAMES, "cache_seqlens": "seqused_k"}
    pages = {"cache_seqlens": seqused_k, "page_table": page_table, "cu_seqlens_q": cu_seqlens_q, "max_seqlen_q": most_q}
    return forms.cached(*usual, names, sink, **pages)


def _refuse(
    name: str, qv: Any, gather_kv_indices: Any, score_mod: Any, mask_mod: Any, block_sparse_tensors: Any
) -> None:
    forms.only(
        name,
        qv=(qv, None),
        gather_kv_indices=(gather_kv_indices, None),
        score_mod=(score_mod, None),
        mask_mod=(mask_mod, None),
        block_sparse_tensors=(block_sparse_tensors, None),
    )


def _window(given: Any) -> Any:
    if isinstance(given, (tuple, list)) and len(given) == 2 and tuple(given) != (-1, -1) and -1 in tuple(given):
        meant = tuple(None if side == -1 else side for side in given)
        raise error_for(
            Status.ERROR_OPTION,
            f"window_size is {shown(given)}; FlashAttention-4's word for a side without an end is None: {meant}",
        )
    return given


def _sink(given: Any) -> Any:
    """As float32, which the library takes."""
    if given is None or str(getattr(given, "dtype", "")).rpartition(".")[2] == float32.name:
        return given
    if hasattr(given, "float"):
        return given.float()
    return given.astype(float32.name) if hasattr(given, "astype") else given


def _most(given: Optional[int], rows: Any) -> int:
    """The most rows that a packed sequence may have."""
    return rows.shape[0] if given is None else given
