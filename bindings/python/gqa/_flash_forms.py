"""What the versions of FlashAttention have in common once their names and orders are told apart: one call of gqa's, and
what it gives back.

Owns: rows that are made contiguous, head dims that are padded, how a packed tensor is taken apart, the lists of a call,
and the refusals that versions share. Never: computes; imports torch. Threads: any; torch.compile traces through here.
"""

from __future__ import annotations

from typing import Any, Dict, NoReturn, Optional, Tuple

from . import _defaults, _modes
from ._arguments import APPEND, ATTENTION, KVCACHE, VARLEN
from ._call import attend
from ._dtypes import DType, float32
from ._errors import Status, error_for
from ._frameworks import KINDS, adopt
from ._kinds import CALL, HEAD_DIMS, shown
from ._options import Append, Cache, maximum, window_of, windowed
from ._refused import refuse

NOTHING_NEW = (None,) * 6
Names = Dict[str, str]  # what a function calls the library's arguments
Pair = Tuple[Any, Any]  # out, and its log-sum-exp or None


# ---- calls


def dense(
    q: Any,
    k: Any,
    v: Any,
    scale: Optional[float],
    causal: bool,
    window_size: Any,
    softcap: Optional[float],
    with_lse: bool,
    names: Names,
    sink: Any = None,
    door: Optional[str] = None,
    late: bool = False,
) -> Pair:
    """(batch, length, heads, head_dim) each. late: gradients are refused when they are asked for."""
    cache = windowed(window_size)
    return _attended(q, k, v, scale, causal, softcap, with_lse, names, sink, cache, ATTENTION, door, late)


def packed(
    q: Any,
    k: Any,
    v: Any,
    scale: Optional[float],
    causal: bool,
    window_size: Any,
    softcap: Optional[float],
    with_lse: bool,
    names: Names,
    sink: Any = None,
    door: Optional[str] = None,
    **lists: Any,
) -> Pair:
    """(total, heads, head_dim), or as dense() where its cu_seqlens are None."""
    starts_q, starts_k = lists["cu_seqlens_q"], lists["cu_seqlens_k"]
    cache = Cache(
        lists.get("seqused_k"),
        None,
        window_of(window_size),
        starts_q,
        starts_k,
        lists.get("seqused_q"),
        maximum("max_seqlen_q", lists["max_seqlen_q"], starts_q),
        maximum("max_seqlen_k", lists["max_seqlen_k"], starts_k),
    )
    return _attended(q, k, v, scale, causal, softcap, with_lse, names, sink, cache, VARLEN, door, True)


def cached(
    q: Any,
    k: Any,
    v: Any,
    scale: Optional[float],
    causal: bool,
    window_size: Any,
    softcap: Optional[float],
    with_lse: bool,
    names: Names,
    sink: Any = None,
    door: Optional[str] = None,
    *,
    cache_seqlens: Any = None,
    page_table: Any = None,
    cu_seqlens_q: Any = None,
    max_seqlen_q: Optional[int] = None,
    new: Tuple[Any, Any, Any, Any, Any, Any] = NOTHING_NEW,
    rotary_interleaved: bool = True,
    cache_batch_idx: Any = None,
    cache_leftpad: Any = None,
) -> Pair:
    """k and v are caches, of pages where there is a table. new: k, v, cu_seqlens_k_new, rotary_cos, rotary_sin,
    rotary_seqlens."""
    window, append = window_of(window_size), None
    if cache_batch_idx is not None or cache_leftpad is not None or any(x is not None for x in new):
        interleaved = CALL["rotary_interleaved"]("rotary_interleaved", rotary_interleaved)
        advances = bool(causal) or window is not None
        append = Append(*new, interleaved, cache_batch_idx, cache_leftpad, advances)
    most = maximum("max_seqlen_q", max_seqlen_q, cu_seqlens_q)
    cache = Cache(cache_seqlens, page_table, window, cu_seqlens_q, max_seqlen_q=most, append=append)
    operator = KVCACHE if new[0] is None else APPEND
    return _attended(q, k, v, scale, causal, softcap, with_lse, names, sink, cache, operator, door, True)


def _attended(
    q: Any,
    k: Any,
    v: Any,
    scale: Optional[float],
    causal: bool,
    softcap: Optional[float],
    with_lse: bool,
    names: Names,
    sink: Any,
    cache: Optional[Cache],
    operator: str,
    door: Optional[str],
    late: bool,
) -> Pair:
    width = None
    if operator in (ATTENTION, VARLEN):
        q, k, v, scale, width = ready(q, k, v, scale)
    else:  # a cache is never copied
        q = _rows(q)
    result = attend(
        _defaults.core_of,
        q,
        k,
        v,
        causal,
        scale,
        None,
        with_lse,
        cache,
        softcap,
        sink,
        late=late,
        names=names,
        operator=operator,
        door=door,
    )
    out, lse = result if with_lse else (result, None)
    return (out if width is None else out[..., :width]), lse


def of_torch(tensor: Any) -> bool:
    return _modes._torch is not None and isinstance(tensor, _modes._torch.Tensor)


def ready(q: Any, k: Any, v: Any, scale: Optional[float]) -> Tuple[Any, Any, Any, Optional[float], Optional[int]]:
    """PyTorch's tensors as there are kernels of, at the cost of a copy where they are not; the scale that belongs to
    them; how much of out's last dimension then counts, None being all. Others as they are."""
    return _padded(_rows(q), _rows(k), _rows(v), scale) if of_torch(q) else (q, k, v, scale, None)


def _rows(tensor: Any) -> Any:
    """Its last dimension contiguous, as FlashAttention makes it."""
    return tensor.contiguous() if of_torch(tensor) and tensor.dim() and tensor.stride(-1) != 1 else tensor


def _padded(q: Any, k: Any, v: Any, scale: Optional[float]) -> Tuple[Any, Any, Any, Optional[float], Optional[int]]:
    """With zeros to the next head dims that there are kernels of."""
    if not (of_torch(k) and of_torch(v) and q.dim() and q.shape[-1] == k.shape[-1] and v.dim()):
        return q, k, v, scale, None  # the library says what is wrong
    own, width = q.shape[-1], v.shape[-1]
    if own in HEAD_DIMS and width in HEAD_DIMS:
        return q, k, v, scale, None
    to, v_to = (next((d for d in HEAD_DIMS if d >= x), x) for x in (own, width))
    if to != own:
        pad = _modes._torch.nn.functional.pad
        q, k, scale = pad(q, (0, to - own)), pad(k, (0, to - own)), own**-0.5 if scale is None else scale
    if v_to == width:
        return q, k, v, scale, None
    return q, k, _modes._torch.nn.functional.pad(v, (0, v_to - width)), scale, width


# ---- tensors


def parts(name: str, tensor: Any, count: int, rank: int) -> Tuple[Any, ...]:
    """The parts of one tensor of q, k and v, or k and v: (..., count, heads, head_dim)."""
    shape = tuple(tensor.shape)
    if len(shape) != rank or shape[-3] != count:
        leading = "batch, length" if rank == 5 else "tokens of all sequences"
        raise error_for(Status.ERROR_SHAPE, f"{name} is {shape}; expected ({leading}, {count}, heads, head_dim)")
    return tuple(tensor[..., at, :, :] for at in range(count))


def lengths(starts: Any) -> Any:
    """Lengths of the sequences between these starts: a tensor, which is not read."""
    return starts[1:] - starts[:-1]


def none_of(tensor: Any, dtype: Optional[DType] = None) -> Any:
    """A tensor of no element, of its dtype or another, beside it."""
    if of_torch(tensor):
        return tensor.new_empty((0,), dtype=_modes._torch.float32 if dtype is float32 else tensor.dtype)
    tensor = tensor if type(tensor) in KINDS else adopt(tensor, "q")
    kind = KINDS[type(tensor)]
    return kind.empty(tensor, (0,)) if dtype is None else kind.empty_of(tensor, (0,), dtype)


def empty_rows_up(lse: Any) -> Any:
    """FlashAttention-2's log-sum-exp of rows that see no key: +inf, where it is -inf here."""
    if of_torch(lse):
        return lse.masked_fill(lse == -float("inf"), float("inf"))
    if not hasattr(lse, "__setitem__"):
        raise error_for(
            Status.ERROR_OPTION,
            "a log-sum-exp of this framework's tensors cannot be changed here; expected NumPy, PyTorch or CuPy tensors,"
            " or gqa.attention(return_lse=True), whose rows without a key have -inf",
        )
    lse[lse == -float("inf")] = float("inf")
    return lse


# ---- refusals


def only(function: str, **given: Tuple[Any, Any]) -> None:
    """Refuses what gqa computes at its default alone: name=(given, default)."""
    for name, (value, default) in given.items():
        if value is not default and not (type(value) is type(default) and value == default):
            refuse(function, name, value, shown(default))


def refuse_dropout(function: str, dropout_p: Any) -> None:
    if CALL["dropout_p"]("dropout_p", dropout_p) != 0.0:
        refuse(function, "dropout_p", dropout_p, "0.0", "leave it out; of a model: model.eval()")


def refuse_alibi(function: str, alibi_slopes: Any) -> None:
    if alibi_slopes is not None:
        refuse(function, "alibi_slopes", alibi_slopes, "None", "give gqa.flash_attn_func a bias")


_ORDERS = {
    2: ("gqa.flash_attn", "dropout_p, softmax_scale, causal"),
    3: ("gqa.flash_attn_interface", "softmax_scale, causal, qv"),
    4: ("gqa.flash_attn_cute", "qv, gather_kv_indices, softmax_scale"),
}


def refuse_order_2(function: str, dropout_p: Any, softmax_scale: Any, causal: Any) -> None:
    """Refuses another's order where the function has FlashAttention-2's: a scale, or None, stands at dropout_p then."""
    if isinstance(softmax_scale, bool) and dropout_p != 0.0:
        _refuse_order(function, 2, 3)
    if dropout_p is None and softmax_scale is None and isinstance(causal, float):
        _refuse_order(function, 2, 4)


def refuse_order_3(function: str, softmax_scale: Any, causal: Any, qv: Any) -> None:
    if isinstance(causal, float) or isinstance(qv, bool):
        _refuse_order(function, 3, 2)
    if isinstance(qv, float):
        _refuse_order(function, 3, 4)


def refuse_order_4(function: str, qv: Any, second: Any) -> None:
    """second: what follows qv."""
    if isinstance(second, bool):
        _refuse_order(function, 4, 3)
    if isinstance(qv, (int, float)):
        _refuse_order(function, 4, 2 if qv == 0 else 3)


def _refuse_order(function: str, own: int, meant: int) -> NoReturn:
    raise error_for(
        Status.ERROR_OPTION,
        f"{function} was called in FlashAttention-{meant}'s order, and this one has FlashAttention-{own}'s "
        f"(q, k, v, {_ORDERS[own][1]}, ...); name the arguments, or take {_ORDERS[meant][0]}.{function}",
    )
