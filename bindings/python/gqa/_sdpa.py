"""PyTorch's scaled_dot_product_attention by name and meaning, and the switch that sends PyTorch's own calls of it here.

Owns: these functions as users see them. Never: imports torch: what a call means is in _sdpa_call.py. Threads: any.
"""

from __future__ import annotations

from typing import Any, Optional

from . import _modes


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Any:
    """torch.nn.functional.scaled_dot_product_attention of PyTorch tensors, float32, float16 or bfloat16.

    query (..., q_heads, q_len, head_dim), key (..., kv_heads, kv_len, head_dim), value (..., kv_heads, kv_len,
    head_dim_v), any number of leading dimensions, or none and no heads; returns (..., q_heads, q_len, head_dim_v).
    head_dim and head_dim_v: 16, 32, 64, 80, 96, 112, 128, 192 or 256.
    attn_mask: of a shape that broadcasts to (..., q_heads, q_len, kv_len), bool (True: takes part), or of query's dtype
    or float32 (added to scaled scores); or one of torch.nn.attention.bias. A row whose keys are all hidden gives 0.
    is_causal: query i sees keys j <= i, whatever the lengths (gqa.attention's causal aligns last with last); not with
    attn_mask. scale: None for 1/sqrt(head_dim). enable_gqa: kv_heads may be any divisor of q_heads, not only 1 or all.
    Raises NotImplementedError for dropout_p above 0 and where forward-mode derivatives are asked for, GqaValueError or
    GqaTypeError for what else is not computed, gradients included; GqaError where the device fails.
    """
    return _of_torch().sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def use_as_sdpa() -> Any:
    """Sends calls of torch.nn.functional.scaled_dot_product_attention to gqa, as a context manager or a decorator:

        with gqa.use_as_sdpa():
            model(tokens)

        @gqa.use_as_sdpa()
        def step(tokens): ...

    inside and outside of compiled functions, in this thread; nn.MultiheadAttention's too. What gqa does not
    compute (float64, dropout, gradients, other head dims, ...) is PyTorch's as before; gqa.door_report()["use_as_sdpa"]
    counts such calls by reason. A shape that is not ready is guessed, not tuned, unless gqa.configure says otherwise.
    """
    return _of_torch().SdpaMode()


def _of_torch() -> Any:
    """The module gqa.torch."""
    return _modes.operators() or _modes.needed()
