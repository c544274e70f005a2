"""Hugging Face Transformers 5: import gqa.transformers makes "gqa" an attention implementation.

    import gqa.transformers
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="gqa", dtype=torch.bfloat16)

It registers two functions of that name: of attention, and of the masks that go with it. What gqa does not compute (a
gradient, float64, dropout, ...) is left to Transformers' "sdpa", or the model's own eager function where that has no
soft cap or sink, and counted by reason in gqa.door_report()["transformers"]. docs/integrations.md says what is taken.

Owns: the attention function, and what it leaves to whom. Never: computes, or reads a number of a device. Threads: any.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Tuple

import torch
import transformers

from . import _defaults, _doors, _flash_forms, _sdpa_call
from ._call import attend
from ._errors import FATAL, GqaError, Status, error_for
from ._options import Cache

if not hasattr(transformers, "AttentionMaskInterface"):
    raise ImportError(f"gqa.transformers needs transformers 5, this is {transformers.__version__}")

from . import _transformers_masks as masks  # noqa: E402

NAME = "gqa"

_NAMES = {"q": "query", "k": "key", "v": "value", "bias": "attention_mask", "scale": "scaling", "sink": "s_aux"}


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Optional[torch.Tensor],
    dropout: float = 0.0,
    scaling: Optional[float] = None,
    is_causal: Optional[bool] = None,
    **kwargs: Any,
) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
    """Transformers' attention function of "gqa". query (batch, q_heads, q_len, head_dim), key (batch, kv_heads, kv_len,
    head_dim), value (batch, kv_heads, kv_len, head_dim_v). attention_mask: what mask() gave, or four dimensions of the
    user's own, bool or added to scores. sliding_window: keys that a query sees, its own among them. softcap, s_aux (a
    sink a query head), position_bias and cu_seq_lens_q, cu_seq_lens_k, max_length_q, max_length_k: as Transformers has
    them. Returns ((batch, q_len, q_heads, head_dim_v), None)."""
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    code = masks.decoded(attention_mask, query.shape[0] * query.shape[2], key.shape[2])
    window = kwargs.get("sliding_window") if causal else None
    if code.slides and window is None:  # a model that tells its mask alone
        window = _window_of(module)
    code = _told_packed(code, query, kwargs)
    reason = _obstacle(query, key, value, dropout, scaling, kwargs)
    if reason is None:
        if torch.compiler.is_dynamo_compiling():
            _doors.count(_doors.TRANSFORMERS)
            return _answer(query, key, value, code, causal, window, scaling, kwargs), None
        try:
            out = _answer(query, key, value, code, causal, window, scaling, kwargs)
            _doors.count(_doors.TRANSFORMERS)
            return out, None
        except GqaError as error:
            if error.status in FATAL:
                raise
            reason = f"gqa refuses: {error.status.name}"
    _doors.count(_doors.TRANSFORMERS, reason)
    return _left(module, query, key, value, code, dropout, scaling, causal, window, kwargs)


def _window_of(module: torch.nn.Module) -> int:
    window = getattr(module, "sliding_window", None) or getattr(getattr(module, "config", None), "sliding_window", None)
    if window is None:
        raise error_for(
            Status.ERROR_OPTION,
            f"a layer {type(module).__name__} has a mask with a sliding window, and says no sliding_window; expected it as "
            'an argument, or in its config: this model needs attn_implementation="sdpa"',
        )
    return int(window)


def _told_packed(code: masks.Decoded, query: torch.Tensor, kwargs: Dict[str, Any]) -> masks.Decoded:
    """Where the caller says how sequences are packed, that holds, and no mask is looked at."""
    told: List[Any] = [kwargs.get(name) for name in ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")]
    if any(x is None for x in told):
        return code
    if code.lengths is not None:
        raise error_for(
            Status.ERROR_OPTION, "cu_seq_lens_q is given beside a cache or padding; expected packed sequences, without"
        )
    return masks.Decoded(code.slides, starts=told[0], most=told[2])


def _obstacle(
    query: Any, key: Any, value: Any, dropout: float, scaling: Optional[float], kwargs: Dict[str, Any]
) -> Optional[str]:
    """Why gqa does not answer."""
    if query.shape[0] != key.shape[0]:
        return "batches that differ"
    found = _sdpa_call.obstacle(query, key, value, None, dropout, False, scaling, True)
    found = found or _sdpa_call.of_derivatives(kwargs.get("s_aux"), kwargs.get("position_bias"))
    return None if found is None else found.reason


# ---- gqa's answer


def _answer(
    query: Any,
    key: Any,
    value: Any,
    code: masks.Decoded,
    causal: bool,
    window: Optional[int],
    scaling: Optional[float],
    kwargs: Dict[str, Any],
) -> torch.Tensor:
    q, k, v = (_rows(x).transpose(1, 2) for x in (query, key, value))
    softcap, sink = kwargs.get("softcap"), kwargs.get("s_aux")
    sink = None if sink is None else sink.float()
    sides = (-1, -1) if window is None else (window - 1, 0)
    usual = (scaling, causal, sides, softcap, False, _NAMES, sink, _doors.TRANSFORMERS)
    bias = kwargs.get("position_bias")
    if code.scores is not None or bias is not None:
        # A mask of scores says all: causality and windows, too.
        own = code.scores is None and code.lengths is None and code.starts is None
        scores = _scores(code, bias, query, key, causal, window)
        cache = Cache(None, None, sides) if own and window is not None else None
        numbers = (own and causal, scaling, None, False, cache, softcap, sink)
        return attend(
            _defaults.core_of, q, k, v, *numbers, arrays={"bias": scores}, names=_NAMES, door=_doors.TRANSFORMERS
        )
    if code.starts is not None:
        return _packed(q, k, v, code, usual)
    if code.lengths is not None:
        if code.first is not None and not _alike(k, v):  # without a cache: projections and rotation lay them out
            k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (k, v))
        lists: Dict[str, Any] = {"cache_seqlens": code.lengths, "cache_leftpad": code.first}
        return _flash_forms.cached(q, k, v, *usual, **lists)[0]
    return _flash_forms.dense(q, k, v, *usual)[0]


def _alike(k: torch.Tensor, v: torch.Tensor) -> bool:
    """Whether a sequence's first slot is as many rows off in both, which a call with first slots needs."""
    rows, odd = divmod(k.stride(0), k.stride(1))
    return odd == 0 and v.stride(0) == rows * v.stride(1)


def _packed(q: Any, k: Any, v: Any, code: masks.Decoded, usual: Tuple[Any, ...]) -> torch.Tensor:
    flat = [x.flatten(0, 1) for x in (q, k, v)]
    lists: Dict[str, Any] = {"cu_seqlens_q": code.starts, "cu_seqlens_k": code.starts}
    out, _ = _flash_forms.packed(*flat, *usual, **lists, max_seqlen_q=code.most, max_seqlen_k=code.most)
    return out.unflatten(0, tuple(q.shape[:2]))


def _scores(
    code: masks.Decoded, bias: Optional[torch.Tensor], query: Any, key: Any, causal: bool, window: Optional[int]
) -> torch.Tensor:
    """What is added to scores, of query's type or float32."""
    mask = code.scores
    if mask is None and (code.lengths is not None or code.starts is not None):
        mask = masks.allowed(code, query.shape, key.shape[2], causal, window, query.device)
    if mask is not None and mask.dtype in (torch.bool, torch.int64, torch.uint8):
        mask = masks.bias_of(mask.bool(), query.dtype)
    scores: Any = mask if bias is None else bias if mask is None else mask + bias
    if scores.dtype not in (query.dtype, torch.float32):
        scores = scores.to(query.dtype)
    scores = scores.expand(*scores.shape[:3], key.shape[2])
    return scores if scores.stride(-1) == 1 else scores.contiguous()


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


# ---- what is left to others


def _left(
    module: torch.nn.Module,
    query: Any,
    key: Any,
    value: Any,
    code: masks.Decoded,
    dropout: float,
    scaling: Optional[float],
    causal: bool,
    window: Optional[int],
    kwargs: Dict[str, Any],
) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
    """By Transformers' sdpa, in whose masks windows and lengths stand; it has neither soft caps nor sinks."""
    q_len, kv_len = query.shape[2], key.shape[2]
    mask = code.scores
    aligned = q_len in (1, kv_len) and code.lengths is None and code.starts is None
    if mask is None and not (aligned and (window is None or window >= kv_len)):
        mask = masks.allowed(code, query.shape, kv_len, causal, window, query.device)
    if kwargs.get("softcap") is None and kwargs.get("s_aux") is None:
        others = {name: value for name, value in kwargs.items() if name != "softcap"}
        sdpa = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS["sdpa"]
        return sdpa(module, query, key, value, mask, dropout=dropout, scaling=scaling, is_causal=causal, **others)
    eager = getattr(sys.modules.get(type(module).__module__), "eager_attention_forward", None)
    if eager is None:
        raise error_for(
            Status.ERROR_OPTION,
            f"gqa does not answer a layer {type(module).__name__} that has a soft cap or a sink, and its model has no "
            "eager function; gqa.door_report() has the reason",
        )
    if mask is None and causal and q_len > 1:
        mask = masks.allowed(code, query.shape, kv_len, causal, window, query.device)
    if mask is not None and mask.dtype is torch.bool:
        least = torch.finfo(query.dtype).min  # eager functions have no rows of -inf
        mask = torch.zeros(mask.shape, dtype=query.dtype, device=mask.device).masked_fill_(~mask, least)
    return eager(module, query, key, value, mask, dropout=dropout, scaling=scaling, **kwargs)


transformers.AttentionInterface.register(NAME, attention_forward)
transformers.AttentionMaskInterface.register(NAME, masks.mask)
