"""A layer's call of attention: on the keys of the same call, or on a cache that they are appended to.

Owns: what a layer's options are to gqa's functions, and that a gradient is refused when it is asked for, whichever
input wants one. Never: computes. Threads: any; torch.compile traces through here.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch

from .. import _flash_forms
from .cache import KVCache

# Arguments by the library's names.
_NAMES: Dict[str, str] = {"sink": "sinks"}
_CACHE_NAMES: Dict[str, str] = {
    **_NAMES,
    "k": "cache.k",
    "v": "cache.v",
    "k_new": "k",
    "v_new": "v",
    "cache_seqlens": "cache.lengths",
    "page_table": "cache.page_table",
    "rotary_cos": "the rope's cos",
    "rotary_sin": "the rope's sin",
}


class Scores(NamedTuple):
    """What a layer does to its scores."""

    causal: bool
    window: Tuple[int, int]
    scale: Optional[float]
    softcap: float
    sinks: Optional[torch.Tensor]  # (heads,)

    def numbers(self) -> Tuple[Optional[float], bool, Tuple[int, int], float, bool]:
        """In _flash_forms' order; the last is that no log-sum-exp is asked for."""
        return self.scale, self.causal, self.window, self.softcap, False

    def sink(self) -> Optional[torch.Tensor]:
        return None if self.sinks is None else self.sinks.float()


class Turned(NamedTuple):
    """A rope's tables, each (positions, dims / 2) of the keys' dtype."""

    cos: torch.Tensor
    sin: torch.Tensor
    interleaved: bool


def dense(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scores: Scores, names: Dict[str, str] = _NAMES
) -> torch.Tensor:
    """(batch, tokens, heads, head_dim) each; returns (batch, tokens, heads, head_dim_v). names: what the caller's
    caller calls the library's arguments."""
    out, _ = _flash_forms.dense(q, k, v, *scores.numbers(), names, scores.sink(), late=True)
    return out


def cached(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cache: KVCache, turned: Optional[Turned], scores: Scores
) -> torch.Tensor:
    """The same of queries and new keys and values of as many tokens, behind those of a cache, which is written."""
    cache.refuse_more(k.shape[1])
    cos, sin, interleaved = (None, None, True) if turned is None else turned
    out, _ = _flash_forms.cached(
        q,
        cache.k,
        cache.v,
        *scores.numbers(),
        _CACHE_NAMES,
        scores.sink(),
        cache_seqlens=cache.lengths,
        page_table=cache.page_table,
        new=(k, v, None, cos, sin, None),
        rotary_interleaved=interleaved,
    )
    return out
