"""flash_attn_func: FlashAttention-2's name and order of arguments, and FlashAttention-3's by name, so that a program
changes its import only.

Owns: which of its arguments mean something here, and the refusal of the others. Never: computes.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

from . import _defaults
from ._call import attend
from ._flash_forms import refuse_alibi, refuse_dropout, refuse_order_2
from ._handle import Handle
from ._kinds import CALL
from ._options import ALL_KEYS, of_scores, windowed
from ._refused import refuse_given

_NAMES = {"scale": "softmax_scale", "return_lse": "return_softmax_lse"}  # its arguments by the library's names


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Optional[Tuple[Optional[int], Optional[int]]] = ALL_KEYS,
    softcap: Optional[float] = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    return_softmax_lse: bool = False,
    num_splits: int = 0,
    pack_gqa: Optional[bool] = None,
    sm_margin: int = 0,
    qv: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    attention_chunk: int = 0,
    sink: Any = None,
    score_scale: Any = None,
    bias: Any = None,
    out: Any = None,
    handle: Optional[Handle] = None,
) -> Any:
    """flash_attn.flash_attn_func: q (batch, q_len, q_heads, head_dim), k and v (batch, kv_len, kv_heads, head_dim).
    Its order of arguments is FlashAttention-2's; flash_attn_varlen_func and flash_attn_with_kvcache have
    FlashAttention-3's. The modules gqa.flash_attn, gqa.flash_attn_interface and gqa.flash_attn_cute have all functions of
    a version in that version's order.

    Returns out; with return_softmax_lse (out, softmax_lse); with return_attn_probs (out, softmax_lse, None), as
    FlashAttention does without dropout. deterministic concerns the backward pass; num_splits, pack_gqa and sm_margin
    are the tuner's to choose. window_size: (left, right): query i stands at key kv_len - q_len + i and sees that many
    keys before and after it; -1 or None: all; causal makes right 0. softcap: scores s become softcap * tanh(s / softcap)
    before the mask; 0.0 or None: none. dropout_p, alibi_slopes, and FlashAttention-3's qv, descales and attention_chunk raise
    NotImplementedError where they ask for more.

    sink: (q_heads) float32 on q's device, or None: the number of a query head joins its rows' softmax as exp(sink) beside
    the exponentials of scores, and adds no value; the log-sum-exp includes it.
    score_scale: (q_heads) or (batch or 1, q_heads or 1, q_len) float32 on q's device, or None: a factor of each head's or
    row's scores, before softcap.
    bias: (batch or 1, q_heads or 1, q_len or 1, kv_len) of q's dtype or float32 on q's device, or None: added to the
    capped scores before the mask, as attn_mask is in PyTorch's scaled_dot_product_attention; -inf hides a key, and a
    finite number, the dtype's least too, counts as any other. NaN and infinities in keys and values that no row may see
    never show, but where the mask hides a key from some rows only, or -inf of a bias hides it, they may show in the rows
    that do not see it (0 times NaN), as in FlashAttention-2. softcap, score_scale and bias: at most two of them.
    out: a tensor to write, or None. handle: a gqa.Handle; None: the device's shared one.
    """
    name = "flash_attn_func"
    refuse_order_2(name, dropout_p, softmax_scale, causal)
    refuse_dropout(name, dropout_p)
    refuse_alibi(name, alibi_slopes)
    refuse_given(name, attention_chunk, qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    with_lse = return_softmax_lse or CALL["return_attn_probs"]("return_attn_probs", return_attn_probs)
    result = attend(
        _defaults.served_by(handle),
        q,
        k,
        v,
        causal,
        softmax_scale,
        out,
        with_lse,
        windowed(window_size),
        softcap,
        sink,
        arrays=of_scores(score_scale, bias),
        names=_NAMES,
    )
    return (*result, None) if return_attn_probs else result
