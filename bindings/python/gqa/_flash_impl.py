"""gqa as an implementation of PyTorch's own FlashAttention operators on CUDA, under the name "gqa": of those that
scaled_dot_product_attention ends in where PyTorch chooses FlashAttention, and of torch.nn.attention.varlen's.

Owns: these operators' kernels while torch.nn.attention.activate_flash_attention_impl("gqa") holds; PyTorch's kernel
answers what gqa does not. Never: activates itself. Threads: any; activating is the process's.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import torch

from . import _call, _defaults, _doors, _sdpa_call
from ._errors import FATAL, GqaError
from ._options import Cache

_Pair = Tuple[torch.Tensor, torch.Tensor]
_within = threading.local()  # .old: a kernel of PyTorch's runs, whose own calls are its own


class _Lists(NamedTuple):
    """What sequences of their own lengths have; windows."""

    cum_seq_q: Any = None
    cum_seq_k: Any = None
    max_q: int = 0
    max_k: int = 0
    left: Optional[int] = None
    right: Optional[int] = None
    seqused_k: Any = None
    block_table: Any = None

    def window(self) -> Optional[Tuple[int, int]]:
        left, right = (-1 if side is None else side for side in (self.left, self.right))
        return None if left == right == -1 else (left, right)


# ---- the kernels: each is called with PyTorch's own, the dispatch keys, and the operator's arguments


def _sdpa(
    old: Any,
    keys: Any,
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: Optional[float] = None,
) -> Any:
    """_scaled_dot_product_flash_attention: (batch, heads, tokens, dim); is_causal aligns last with last."""

    def call() -> Any:
        q, k, v = (x.transpose(1, 2) for x in (query, key, value))
        out, lse = _forward(q, k, v, is_causal, scale, _Lists(), None)
        return (out.transpose(1, 2), lse, None, None, query.size(2), key.size(2), *_unused(query))

    def olds() -> Any:
        return old.call_boxed(keys, query, key, value, dropout_p, is_causal, return_debug_mask, scale=scale)

    return _answered(lambda: _obstacle(query, key, value, dropout_p, scale, return_debug_mask), call, olds)


def _flash(
    old: Any,
    keys: Any,
    query: Any,
    key: Any,
    value: Any,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: Optional[float] = None,
    window_size_left: Optional[int] = None,
    window_size_right: Optional[int] = None,
    seqused_k: Any = None,
    block_table: Any = None,
    **more: Any,
) -> Any:
    """_flash_attention_forward: (batch, tokens, heads, dim), or packed. more: what other versions of PyTorch have."""
    packed = (cum_seq_q, cum_seq_k, max_q, max_k)
    lists = _Lists(*packed, window_size_left, window_size_right, seqused_k, block_table)

    def call() -> Any:
        return (*_forward(query, key, value, is_causal, scale, lists, None), *_unused(query))

    def olds() -> Any:
        flags, named = (dropout_p, is_causal, return_debug_mask), _named(lists, more)
        return old.call_boxed(keys, query, key, value, *packed, *flags, scale=scale, **named)

    return _answered(lambda: _obstacle(query, key, value, dropout_p, scale, return_debug_mask, lists, more), call, olds)


def _flash_into(
    old: Any,
    keys: Any,
    out: Any,
    query: Any,
    key: Any,
    value: Any,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: Optional[float] = None,
    window_size_left: Optional[int] = None,
    window_size_right: Optional[int] = None,
    seqused_k: Any = None,
    block_table: Any = None,
    **more: Any,
) -> Any:
    """_flash_attention_forward_no_dropout_inplace: the same, which writes out and returns the log-sum-exp."""
    packed = (cum_seq_q, cum_seq_k, max_q, max_k)
    lists = _Lists(*packed, window_size_left, window_size_right, seqused_k, block_table)

    def call() -> Any:
        return _forward(query, key, value, is_causal, scale, lists, out)[1]

    def olds() -> Any:
        flags, named = (dropout_p, is_causal, return_debug_mask), _named(lists, more)
        return old.call_boxed(keys, out, query, key, value, *packed, *flags, scale=scale, **named)

    return _answered(lambda: _obstacle(query, key, value, dropout_p, scale, return_debug_mask, lists, more), call, olds)


_KERNELS: Dict[str, Callable[..., Any]] = {
    "_scaled_dot_product_flash_attention": _sdpa,
    "_flash_attention_forward": _flash,
    "_flash_attention_forward_no_dropout_inplace": _flash_into,
}


def _named(lists: _Lists, more: Dict[str, Any]) -> Dict[str, Any]:
    """What the operator is given by name; of what this PyTorch may not have, what somebody gave."""
    given = {"window_size_left": lists.left, "window_size_right": lists.right, "seqused_k": lists.seqused_k, **more}
    return given if lists.block_table is None else {**given, "block_table": lists.block_table}


def _unused(query: Any) -> Tuple[Any, Any, Any]:
    """The state of a dropout that there is not, and its mask."""
    state = torch.zeros(2, dtype=torch.uint64, device=query.device)
    return state, torch.zeros((), dtype=torch.uint64, device=query.device), query.new_empty(0)


# ---- who answers


def _answered(obstacle: Callable[[], Optional[str]], call: Callable[[], Any], olds: Callable[[], Any]) -> Any:
    if getattr(_within, "old", False):
        return olds()
    reason = obstacle()
    if reason is None:
        try:
            answer = call()
            _doors.count(_doors.FLASH_IMPL)
            return answer
        except GqaError as error:
            if error.status in FATAL:
                raise
            reason = f"gqa refuses: {error.status.name}"
    _doors.count(_doors.FLASH_IMPL, reason)
    _within.old = True
    try:
        return olds()
    finally:
        _within.old = False


def _obstacle(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float,
    scale: Optional[float],
    debug: bool,
    lists: _Lists = _Lists(),
    more: Dict[str, Any] = {},  # never written
) -> Optional[str]:
    found = _sdpa_call.obstacle_of_parts(query, key, value, dropout_p, scale)
    if found is not None:
        return found.reason
    if debug:
        return "return_debug_mask"
    if query.stride(-1) != 1 or query.shape[-1] != value.shape[-1]:
        return "a layout of out that is not query's"
    if lists.block_table is not None and (lists.seqused_k is None or lists.cum_seq_q is None):
        return "block_table without seqused_k and cum_seq_q"
    for name, given in more.items():  # alibi_slopes, num_splits and what is yet to come
        if given is not None:
            return name
    return None


def _forward(q: Any, k: Any, v: Any, causal: bool, scale: Optional[float], lists: _Lists, out: Any) -> _Pair:
    """out lies as q does, as PyTorch's does. An empty row's log-sum-exp is +inf, which is what its backward takes."""
    window = lists.window()
    starts_k = lists.cum_seq_k if lists.block_table is None else None
    most_q = 0 if lists.cum_seq_q is None else lists.max_q
    most_k = 0 if starts_k is None else lists.max_k
    cache = Cache(lists.seqused_k, lists.block_table, window, lists.cum_seq_q, starts_k, None, most_q, most_k)
    out = torch.empty_like(q) if out is None else out
    numbers = (causal, scale, out, True, cache, 0.0, None, False, None)
    out, lse = _call.compute(_defaults.core_of, q, k, v, *numbers, _sdpa_call.NAMES, _doors.FLASH_IMPL)
    if lists != _Lists() or (causal and q.shape[1] > k.shape[1]):
        lse.masked_fill_(lse == -torch.inf, torch.inf)
    return out, lse


# ---- the implementation "gqa"


class _Active:
    """What PyTorch keeps until another implementation is activated, or its own is restored."""

    def __init__(self) -> None:
        self._library: Optional[torch.library.Library] = torch.library.Library("aten", "IMPL", "CUDA")
        for name, kernel in _KERNELS.items():
            if hasattr(torch.ops.aten, name):
                old = torch.library.get_kernel(f"aten::{name}", "CUDA")
                self._library.impl(name, functools.partial(kernel, old), "CUDA", with_keyset=True)

    def remove(self) -> None:
        if self._library is not None:
            self._library._destroy()
        self._library = None


def register() -> None:
    """Makes "gqa" known to torch.nn.attention; active it is when somebody activates it."""
    torch.nn.attention.register_flash_attention_impl("gqa", register_fn=_Active)
