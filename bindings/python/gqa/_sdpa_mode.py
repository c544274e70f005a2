"""The mode of gqa.use_as_sdpa: PyTorch's calls of scaled_dot_product_attention, answered by gqa where it can.

Owns: which calls these are, and their way back to PyTorch. Never: computes. Threads: the mode is of the thread that
enters it.
"""

from __future__ import annotations

import functools
import types
from typing import Any, Callable, Dict, Optional, Tuple

import torch
from torch.overrides import TorchFunctionMode

from . import _doors, _sdpa_call
from ._errors import FATAL, GqaError


def _unasked(function: Any) -> Any:
    """A function of torch.nn.functional without its question to modes: one that answers is not active within."""
    names = {**function.__globals__, "has_torch_function": lambda tensors: False}
    made = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


_multi_head = torch.nn.functional.multi_head_attention_forward
_multi_head_unasked = _unasked(_multi_head)


class SdpaMode(TorchFunctionMode):
    """gqa.use_as_sdpa()."""

    def __torch_function__(
        self, func: Any, classes: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        if func is torch.nn.functional.scaled_dot_product_attention:
            return scaled_dot_product_attention(*args, **(kwargs or {}))
        if func is _multi_head:  # nn.MultiheadAttention's, which calls it within
            with self:
                return _multi_head_unasked(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator."""

        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with SdpaMode():
                return function(*args, **kwargs)

        return within


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Any:
    """gqa's answer, or PyTorch's; the mode that calls this is not active within."""
    asked = (query, key, value, attn_mask)
    found = _sdpa_call.obstacle(*asked, dropout_p, is_causal, scale, enable_gqa)
    if found is None:
        if torch.compiler.is_dynamo_compiling():
            _doors.count(_doors.SDPA)
            return _sdpa_call.answer(*asked, is_causal, scale, _doors.SDPA)
        try:
            out = _sdpa_call.answer(*asked, is_causal, scale, _doors.SDPA)
            _doors.count(_doors.SDPA)
            return out
        except GqaError as error:
            if error.status in FATAL:
                raise
            reason = f"gqa refuses: {error.status.name}"
    else:
        reason = found.reason
    _doors.count(_doors.SDPA, reason)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return sdpa(*asked, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
