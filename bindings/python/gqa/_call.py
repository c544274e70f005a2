"""One call: recognise the tensors, make what is missing, hand everything to the library.

Owns: the order of these steps. Never: checks shapes, but for the rank it needs to allocate. Threads: any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Sequence

from . import _gqa
from ._dtypes import float32
from ._errors import Status, error_for
from ._frameworks import KINDS, Kind, adopt, not_exported

if TYPE_CHECKING:
    from ._cache import Cache


def attend(
    core_of: Callable[[str], _gqa.Handle],
    q: Any,
    k: Any,
    v: Any,
    causal: bool,
    scale: Optional[float],
    out: Any,
    return_lse: bool,
    cache: "Optional[Cache]" = None,
    softcap: float = 0.0,
    sink: Any = None,
    late: bool = False,
    arrays: Optional[Dict[str, Any]] = None,
) -> Any:
    """core_of(device) gives the handle that serves a device. late: gradients are refused when they are asked for; where
    out is given, at once, as frameworks do. arrays: of scores, by their names in _gqa."""
    if type(q) not in KINDS:
        q = adopt(q, "q")
    if type(k) not in KINDS:
        k = adopt(k, "k")
    if type(v) not in KINDS:
        v = adopt(v, "v")
    kind = KINDS[type(q)]
    if not late or out is not None:
        kind.refuse(q, k, v)
    q_shape, v_shape = q.shape, v.shape
    _check_ranks(q_shape, v_shape, cache)
    result = kind.empty(q, (*q_shape[:-1], v_shape[-1])) if out is None else out
    lse = kind.empty_of(q, (*q_shape[:-3], q_shape[-2], q_shape[-3]), float32) if return_lse else None
    stream = kind.stream(q)
    core_of(kind.device(q)).run(
        exported(q, kind, stream, "q"),
        exported(k, kind, stream, "k"),
        exported(v, kind, stream, "v"),
        exported(result, kind, stream, "out"),
        None if lse is None else exported(lse, kind, stream, "lse"),
        _scale(scale),
        bool(causal),
        stream,
        softcap,
        None if sink is None else exported(sink, kind, stream, "sink"),
        *(() if cache is None else cache.exported(q, k.shape, kind, stream)),
        **({name: exported(array, kind, stream, name) for name, array in arrays.items()} if arrays else {}),
    )
    if late and out is None:
        result = kind.refuse_later(result, q, k, v)
    return (result, lse) if return_lse else result


def _check_ranks(q_shape: Sequence[int], v_shape: Sequence[int], cache: "Optional[Cache]") -> None:
    q_packed = cache is not None and cache.cu_seqlens_q is not None
    v_packed = cache is not None and cache.cu_seqlens_k is not None
    if len(q_shape) != (3 if q_packed else 4):
        raise _wrong_rank("q", q_shape, q_packed)
    if len(v_shape) != (3 if v_packed else 4):
        raise _wrong_rank("v", v_shape, v_packed)


def _wrong_rank(name: str, shape: Sequence[int], packed: bool) -> BaseException:
    expected = "3: (tokens of all sequences, heads" if packed else "4: (batch, length, heads"
    return error_for(
        Status.ERROR_RANK, f"{name} has {len(shape)} dimensions, {tuple(shape)}; expected {expected}, head_dim)"
    )


def _scale(scale: Optional[float]) -> float:
    if scale is None:
        return 0.0  # the library's word for 1/sqrt(head_dim)
    if scale == 0:
        raise error_for(
            Status.ERROR_OPTION, "scale is 0, which would weigh all keys alike; pass None for 1/sqrt(head_dim)"
        )
    return scale


def exported(tensor: Any, kind: Kind, stream: int, name: str) -> Any:
    """What _gqa takes for this tensor; kind is the one that leads the call, on its stream."""
    own = KINDS.get(type(tensor))
    if own is None:
        tensor = adopt(tensor, name)
        own = KINDS[type(tensor)]
    try:
        return kind.export(tensor) if own is kind else own.export_to(tensor, stream)
    except (BufferError, RuntimeError, TypeError, ValueError) as cause:
        raise not_exported(tensor, name, cause)
