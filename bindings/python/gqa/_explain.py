"""gqa.explain: why a call of gqa.attention runs as it does, or is refused.

Owns: what the library's explanation is in Python. Never: tunes, compiles or launches. Threads: any.
"""

from __future__ import annotations

import json
from typing import Any, Dict, NamedTuple, Optional, Tuple

from . import _defaults
from ._call import refined
from ._dtypes import float32
from ._errors import GqaError
from ._export import exported
from ._frameworks import KINDS, adopt
from ._handle import Handle
from ._kinds import CALL
from ._options import ALL_KEYS, NO_LISTS, of_scores, windowed


class NearestCall(NamedTuple):
    """A call that is served, or served faster."""

    change: str  # what to change
    problem: str  # as gqa-cache writes it
    predicted_us: float  # by the cost model


class Explanation(NamedTuple):
    """What gqa.explain says; str() of it is text to read."""

    source: str  # "tuned" (measured in this process), "cache", "guess", "refused"
    kernel: str  # its family and parameters; "" where the call is refused
    reason: str
    evidence: Dict[str, float]  # median_us, spread_us, error, error_bound, predicted_us, candidates, gflop, megabytes, ...
    nearest: Optional[NearestCall]
    problem: str  # as gqa-cache writes it; "" where the tensors say none
    text: str

    def __str__(self) -> str:
        return self.text


def explain(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    scale: Optional[float] = None,
    window_size: Optional[Tuple[Optional[int], Optional[int]]] = ALL_KEYS,
    softcap: Optional[float] = 0.0,
    sink: Any = None,
    score_scale: Any = None,
    bias: Any = None,
    out: Any = None,
    return_lse: bool = False,
    handle: Optional[Handle] = None,
) -> Explanation:
    """Why gqa.attention of these arguments runs as it does: which kernel, where that comes from, what was measured, and
    the nearest call that is served, or that the cost model holds clearly faster. Tunes, compiles and launches nothing, and
    reads no tensor's numbers. What gqa.attention would refuse is an Explanation, too: source is "refused".

        print(gqa.explain(q, k, v, causal=True))
    """
    core_of = _defaults.served_by(handle)
    try:
        numbers = (
            CALL["scale"]("scale", scale),
            CALL["causal"]("causal", causal),
            CALL["softcap"]("softcap", softcap),
            CALL["return_lse"]("return_lse", return_lse),
        )
        cache, arrays = windowed(window_size), of_scores(score_scale, bias) or {}
        text, said = _asked(core_of, q, k, v, numbers, sink, cache, arrays, out)
    except (GqaError, NotImplementedError) as refusal:
        return Explanation("refused", "", str(refusal), {}, None, "", f"source    refused\nreason    {refusal}\n")
    made = json.loads(said)
    nearest = made["nearest"] and NearestCall(**made["nearest"])
    return Explanation(
        made["source"], made["kernel"], made["reason"], made["evidence"], nearest, made["problem"], text
    )


def _asked(
    core_of: Any, q: Any, k: Any, v: Any, numbers: Any, sink: Any, cache: Any, arrays: Dict[str, Any], out: Any
) -> Tuple[str, str]:
    """(text, JSON) of the library."""
    scale, causal, softcap, return_lse = numbers
    try:
        q, k, v = (x if type(x) in KINDS else adopt(x, name) for name, x in (("q", q), ("k", k), ("v", v)))
        kind = KINDS[type(q)]
        kind.refuse(q, k, v)
        stream, shape = kind.stream(q), tuple(q.shape)
        lse = kind.empty_of(q, (*shape[:-3], shape[-2], shape[-3]), float32) if return_lse and len(shape) == 4 else None

        def given(name: str, tensor: Any) -> Any:
            return None if tensor is None else exported(tensor, kind, stream, name)

        lists = NO_LISTS if cache is None else cache.exported(q, k.shape, kind, stream)
        said: Tuple[str, str] = core_of(kind.device(q)).explain(
            *(given(name, x) for name, x in (("q", q), ("k", k), ("v", v), ("out", out), ("lse", lse))),
            scale or 0.0,
            causal,
            stream,
            softcap,
            given("sink", sink),
            *lists,
            {name: given(name, x) for name, x in arrays.items()},
        )
        return said
    except Exception as error:
        raise refined(error, {"q": q, "k": k, "v": v, "out": out}) from error.__cause__
