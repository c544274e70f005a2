"""flash_attn_func: FlashAttention's name and argument names, so that a program changes its import only.

Owns: which of its arguments mean something here, and the refusal of the others. Never: computes.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

from . import _defaults
from ._cache import Cache, window_of
from ._call import attend


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Tuple[Optional[int], Optional[int]] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    return_softmax_lse: bool = False,
    num_splits: int = 0,
    pack_gqa: Optional[bool] = None,
    sink: Any = None,
) -> Any:
    """flash_attn.flash_attn_func: q (batch, q_len, q_heads, head_dim), k and v (batch, kv_len, kv_heads, head_dim).

    Returns out; with return_softmax_lse (out, softmax_lse); with return_attn_probs (out, softmax_lse, None), as
    FlashAttention does without dropout. deterministic concerns the backward pass; num_splits and pack_gqa are the
    tuner's to choose. window_size: (left, right): query i stands at key kv_len - q_len + i and sees that many
    keys before and after it; -1 or None: all; causal makes right 0. softcap: scores s become softcap * tanh(s / softcap)
    before the mask; 0.0: none. dropout_p and alibi_slopes raise NotImplementedError where they ask for more.

    sink: (q_heads) float32 on q's device, or None: the number of a query head joins its rows' softmax as exp(sink) beside
    the exponentials of scores, and adds no value; the log-sum-exp includes it.
    """
    _refuse("dropout_p", dropout_p, dropout_p == 0.0, "0.0")
    _refuse("alibi_slopes", alibi_slopes, alibi_slopes is None, "None")
    with_lse = return_softmax_lse or return_attn_probs
    window = window_of(window_size)
    cache = None if window is None else Cache(None, None, window)
    result = attend(_defaults.core_of, q, k, v, causal, softmax_scale, None, with_lse, cache, softcap, sink)
    return (*result, None) if return_attn_probs else result


def _refuse(name: str, value: Any, is_default: bool, default: str) -> None:
    if not is_default:
        raise NotImplementedError(f"flash_attn_func was given {name}={value!r}; gqa computes {name}={default} only")
