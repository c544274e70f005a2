"""merge_states: attention on disjoint sets of keys, merged into attention on all of them.

Owns: making what is missing, and the order of these steps. Never: computes, or checks shapes: the library does.
Threads: any.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Tuple

from . import _defaults, _gqa, _modes
from ._call import refined
from ._dtypes import float32
from ._errors import Status, error_for
from ._export import exported
from ._frameworks import KINDS, adopt
from ._handle import Handle
from ._kinds import several


def merge_states(
    outs: Iterable[Any],
    lses: Iterable[Any],
    *,
    out: Any = None,
    lse: Any = None,
    handle: Optional[Handle] = None,
) -> Tuple[Any, Any]:
    """Merges what attention gave on disjoint sets of keys: for a prefix that sequences share (cascades), for keys that
    are spread over devices (context parallelism).

    outs: any number of tensors, (batch, q_len, q_heads, head_dim_v), or of packed sequences (total_q, q_heads,
        head_dim_v); float16, bfloat16 or float32, all of one dtype. Any head_dim_v.
    lses: as many, (batch, q_heads, q_len) or (q_heads, total_q) float32: natural logs, as return_lse and
        return_softmax_lse give them. A part that saw no key of a row has -inf there, or +inf, FlashAttention-2's mark
        of it; its out is not read there.
        One tensor whose first dimension counts the parts does for either.
    out, lse: tensors to write, that share no memory with a part, but may be the first one's: out=outs[0], lse=lses[0]
        merges in place. handle: a gqa.Handle; None: the device's shared one.

    Returns (out, lse): lse = log(sum of exp(lses)), out = sum of exp(lses - lse) * outs, of outs' dtype; 0 and -inf for
    a row that no part saw a key of. With a sink, give it to the calls of one part only. On a GPU its kernel is compiled
    at the first call and cached; a call may be captured from then on. More than 32 parts are merged in rounds there,
    and out is rounded to its dtype once a round. Raises GqaValueError, GqaTypeError or GqaError.

        prefix = gqa.attention(q, k[:, :512], v[:, :512], return_lse=True)
        own = gqa.attention(q, k[:, 512:], v[:, 512:], causal=True, return_lse=True)
        out, lse = gqa.merge_states(*zip(prefix, own))
    """
    parts, sums = _listed("outs", outs), _listed("lses", lses)
    if len(parts) != len(sums) or not parts:
        raise error_for(
            Status.ERROR_SHAPE,
            f"there are {len(parts)} outs and {len(sums)} lses; expected as many of each, and at least one",
        )
    if _modes.active(parts[0]):
        return _modes.operators().merge(parts, sums, out, lse, handle)
    return merge(parts, sums, out, lse, _defaults.served_by(handle))


def merge(
    parts: "list[Any]", sums: "list[Any]", out: Any, lse: Any, core_of: Callable[[str], _gqa.Handle]
) -> Tuple[Any, Any]:
    """merge_states(), by the library itself."""
    parts, sums = _adopted(parts, "outs"), _adopted(sums, "lses")
    try:
        first = parts[0]
        kind = KINDS[type(first)]
        kind.refuse(*parts)
        if out is None:
            out = kind.empty(first, tuple(first.shape))
        if lse is None:
            lse = kind.empty_of(first, tuple(sums[0].shape), float32)
        stream = kind.stream(first)
        core_of(kind.device(first)).merge_states(
            [exported(part, kind, stream, f"outs[{at}]") for at, part in enumerate(parts)],
            [exported(part, kind, stream, f"lses[{at}]") for at, part in enumerate(sums)],
            exported(out, kind, stream, "out"),
            exported(lse, kind, stream, "lse"),
            stream,
        )
        return out, lse
    except Exception as error:
        named = {f"{name}[{at}]": x for name, given in (("outs", parts), ("lses", sums)) for at, x in enumerate(given)}
        raise refined(error, named) from error.__cause__


_listed = several(lambda _, tensor: tensor, "[first, second]")


def _adopted(tensors: "list[Any]", name: str) -> "list[Any]":
    return [
        tensor if type(tensor) in KINDS else adopt(tensor, f"{name}[{at}]") for at, tensor in enumerate(tensors)
    ]
