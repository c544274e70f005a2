"""One call: recognise the tensors, make what is missing, hand everything to the library; or to PyTorch's operators, where
PyTorch has to see the call.

Owns: the order of these steps, and what a refusal calls the arguments. Never: checks shapes, but for the rank it needs
to allocate. Threads: any.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence

from . import _doors, _gqa, _modes
from ._arguments import ATTENTION
from ._dtypes import float32
from ._errors import GqaError, Status, error_for, renamed
from ._export import exported
from ._frameworks import KINDS, adopt, refused_oddity
from ._kinds import CALL
from ._options import NO_LISTS, Cache
from ._warnings import LIKELY_HEADS, warn_of_layout


def attend(
    core_of: Callable[[str], _gqa.Handle],
    q: Any,
    k: Any,
    v: Any,
    causal: bool,
    scale: Optional[float],
    out: Any,
    return_lse: bool,
    cache: Optional[Cache] = None,
    softcap: Optional[float] = 0.0,
    sink: Any = None,
    late: bool = False,
    arrays: Optional[Dict[str, Any]] = None,
    names: Dict[str, str] = {},  # never written
    operator: str = ATTENTION,
    door: Optional[str] = None,
) -> Any:
    """core_of(device) gives the handle that serves a device. late: gradients are refused when they are asked for; where
    out is given, at once, as frameworks do. arrays: of scores, by their names in _gqa. names: what the function that was
    called has other names for than the library. operator: PyTorch's, where it has to see the call. door: whose call it
    is (_doors.py), if it is one's."""
    if type(causal) is not bool:
        causal = CALL["causal"]("causal", causal)
    if type(return_lse) is not bool:
        return_lse = CALL["return_lse"](names.get("return_lse", "return_lse"), return_lse)
    if scale is not None and not (type(scale) is float and 1e-30 < scale < 1e30):
        scale = CALL["scale"](names.get("scale", "scale"), scale)
    if type(softcap) is not float or (softcap != 0.0 and not 1e-30 < softcap < 1e30):
        softcap = CALL["softcap"]("softcap", softcap)
    if _modes.active(q):
        asked = Asked(q, k, v, causal, scale, out, return_lse, cache, softcap, sink, late, arrays, names, door)
        return _modes.operators().attend(operator, core_of, asked)
    return compute(core_of, q, k, v, causal, scale, out, return_lse, cache, softcap, sink, late, arrays, names, door)


class Asked(NamedTuple):
    """What compute() takes beside core_of, for those who hand it on. Itself it takes them one by one: a tuple costs a hit."""

    q: Any
    k: Any
    v: Any
    causal: bool
    scale: Optional[float]
    out: Any
    return_lse: bool
    cache: Optional[Cache]
    softcap: float
    sink: Any
    late: bool
    arrays: Optional[Dict[str, Any]]
    names: Dict[str, str]
    door: Optional[str]


def compute(
    core_of: Callable[[str], _gqa.Handle],
    q: Any,
    k: Any,
    v: Any,
    causal: bool,
    scale: Optional[float],
    out: Any,
    return_lse: bool,
    cache: Optional[Cache],
    softcap: float,
    sink: Any,
    late: bool,
    arrays: Optional[Dict[str, Any]],
    names: Dict[str, str],
    door: Optional[str] = None,
) -> Any:
    """attend(), of arguments that are of their kinds, by the library itself."""
    try:
        if type(q) not in KINDS:
            q = adopt(q, "q")
        if type(k) not in KINDS:
            k = adopt(k, "k")
        if type(v) not in KINDS:
            v = adopt(v, "v")
        kind, inputs = KINDS[type(q)], differentiable(q, k, v, cache, sink, arrays)
        if not late or out is not None:
            kind.refuse(*inputs)
        q_shape, v_shape = q.shape, v.shape
        check_ranks(q_shape, v_shape, cache)
        if q_shape[-2] > LIKELY_HEADS and "q" not in names:  # who has a name of its own for q has its own layout
            warn_of_layout("q", "(batch, tokens, heads, head_dim)", heads=q_shape[-2], tokens=q_shape[-3])
        result = kind.result(q, q_shape, v_shape[-1]) if out is None else out
        lse = kind.empty_of(q, (*q_shape[:-3], q_shape[-2], q_shape[-3]), float32) if return_lse else None
        stream, as_is = kind.stream(q), kind.as_is
        lengths, table, window, q_starts, k_starts, q_lengths, most_q, most_k, append = (
            NO_LISTS if cache is None else cache.exported(q, k.shape, kind, stream)
        )
        if arrays is not None:
            arrays = {name: exported(x, kind, stream, name) for name, x in arrays.items()}
        core = core_of(kind.device(q))
        seconds = core.run(
            q if type(q) in as_is else exported(q, kind, stream, "q"),
            k if type(k) in as_is else exported(k, kind, stream, "k"),
            v if type(v) in as_is else exported(v, kind, stream, "v"),
            result if type(result) in as_is else exported(result, kind, stream, "out"),
            None if lse is None else exported(lse, kind, stream, "lse"),
            scale or 0.0,  # the library's word for 1/sqrt(head_dim)
            causal,
            stream,
            softcap,
            None if sink is None else exported(sink, kind, stream, "sink"),
            lengths,
            table,
            window,
            q_starts,
            k_starts,
            q_lengths,
            most_q,
            most_k,
            append,
            arrays,
            0 if door is None else _doors.tuning(),  # 0: as the handle
        )
        if seconds and door is not None:
            _doors.missed(door, seconds)
        if late and out is None:
            result = kind.refuse_later(result, *inputs)
        return (result, lse) if return_lse else result
    except Exception as error:
        raise refined(error, {"q": q, "k": k, "v": v, "out": out}, names) from error.__cause__


def differentiable(
    q: Any, k: Any, v: Any, cache: Optional[Cache], sink: Any, arrays: Optional[Dict[str, Any]]
) -> Sequence[Any]:
    """What a framework may want gradients of."""
    append = None if cache is None else cache.append
    if sink is arrays is append is None:
        return q, k, v
    new = () if append is None else (append.k_new, append.v_new)
    return [x for x in (q, k, v, *new, sink, *(arrays or {}).values()) if x is not None]


def check_ranks(q_shape: Sequence[int], v_shape: Sequence[int], cache: Optional[Cache]) -> None:
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


def refined(error: Exception, tensors: Dict[str, Any], names: Dict[str, str] = {}) -> Exception:
    """What to raise for it: where a tensor is odd, that; of a refusal, what it says in `names`. tensors: by the library's
    names."""
    odd = refused_oddity(tensors)
    if odd is not None:
        return renamed(odd, names)
    if isinstance(error, GqaError) and error.status < Status.ERROR_NO_DEVICE:
        return renamed(error, names)
    return error
