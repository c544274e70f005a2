"""get_scheduler_metadata: FlashAttention-3's name and argument names for planning a call ahead.

Owns: the signature. Never: plans; a kernel reads lengths on the device and divides the work there. Threads: any.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

from ._dtypes import bfloat16


def get_scheduler_metadata(
    batch_size: int,
    max_seqlen_q: int,
    max_seqlen_k: int,
    num_heads_q: int,
    num_heads_kv: int,
    headdim: int,
    cache_seqlens: Any,
    qkv_dtype: Any = bfloat16,
    headdim_v: Optional[int] = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k_new: Any = None,
    cache_leftpad: Any = None,
    page_size: Optional[int] = None,
    max_seqlen_k_new: int = 0,
    causal: bool = False,
    window_size: Tuple[Optional[int], Optional[int]] = (-1, -1),
    attention_chunk: int = 0,
    has_softcap: bool = False,
    num_splits: int = 0,
    pack_gqa: Optional[bool] = None,
    sm_margin: int = 0,
) -> None:
    """flash_attn_interface.get_scheduler_metadata: takes its arguments, whatever they are, and returns None, which is
    what flash_attn_with_kvcache's scheduler_metadata may be: there is nothing to plan ahead. gqa.warm makes a shape
    ready."""
