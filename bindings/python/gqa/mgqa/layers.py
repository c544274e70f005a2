"""MGQA and MGQALayers: the package's attention layer and its stack of layers (mgqa.attention there).

Owns: what a layer is made of, the names in its state dict, and how a stack is run on a cache. Never: computes
attention.
Threads: any number may call one stack, each on a cache of its own.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union

import torch

from .._errors import Status, error_for
from .._kinds import flag, number, shown, size
from ..nn import GroupedQueryAttention, KVCache
from . import _taken
from ._heads import RegroupedLinear
from .intermediates import LayerIntermediates

__all__ = ["MGQA", "FeedForward", "LayerIntermediates", "MGQALayers"]

_FIRST_ROOM = 64  # tokens of a cache that grows


class MGQA(GroupedQueryAttention):
    """The package's attention layer: gqa.nn.GroupedQueryAttention whose query head h attends to key head h % kv_heads.
    The state dict has to_q, to_k, to_v and to_out, as the package has them.

    dim_head is 64 whatever dim / heads. kv_heads: None for heads; one_kv_head: 1. value_dim_head: None for dim_head.
    max_attend_past: tokens before its own that a query sees; None for all. flash changes nothing. All else is refused
    but at its default."""

    PROJECTIONS = ("to_q", "to_k", "to_v", "to_out")

    def __init__(
        self,
        dim: int,
        dim_head: int = 64,
        heads: int = 8,
        causal: bool = False,
        flash: bool = False,
        *,
        kv_heads: Optional[int] = None,
        one_kv_head: bool = False,
        value_dim_head: Optional[int] = None,
        max_attend_past: Optional[int] = None,
        **others: Any,
    ) -> None:
        _taken.only("MGQA", _taken.ATTENTION, others)
        flag("flash", flash)
        if flag("one_kv_head", one_kv_head):
            if kv_heads is not None:
                raise error_for(
                    Status.ERROR_OPTION,
                    f"kv_heads is {shown(kv_heads)} beside one_kv_head=True; expected one of the two",
                )
            kv_heads = 1
        window = None if max_attend_past is None else (max_attend_past, -1)
        super().__init__(dim, heads, kv_heads, dim_head, head_dim_v=value_dim_head, causal=causal, window=window)

    def _projection(self, name: str, inputs: int, outputs: int, **more: Any) -> torch.nn.Linear:
        if name in ("to_q", "to_out"):
            axis = 0 if name == "to_q" else 1
            more.pop("bias")
            return RegroupedLinear(inputs, outputs, axis, self.heads, self.kv_heads, **more)
        return super()._projection(name, inputs, outputs, **more)

    def forward(
        self, x: torch.Tensor, context: Any = None, *, cache: Optional[KVCache] = None, **others: Any
    ) -> torch.Tensor:
        """As gqa.nn.GroupedQueryAttention's; what else the package takes is refused but at its default."""
        _taken.only("MGQA.forward", _taken.ATTENTION_CALL, {"context": context, **others})
        return super().forward(x, cache=cache)


class FeedForward(torch.nn.Module):
    """dim -> dim * mult -> dim, with GELU between."""

    def __init__(self, dim: int, mult: float = 4, no_bias: bool = False, **others: Any) -> None:
        _taken.only("FeedForward", _taken.FEED_FORWARD, others)
        super().__init__()
        inner, bias = int(dim * number("mult", mult)), not flag("no_bias", no_bias)
        widened = torch.nn.Sequential(torch.nn.Linear(dim, inner, bias=bias), torch.nn.GELU())
        # Where the package has a dropout, whose place counts in names.
        self.ff = torch.nn.Sequential(widened, torch.nn.Identity(), torch.nn.Linear(inner, dim, bias=bias))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ff(x)


class MGQALayers(torch.nn.Module):
    """depth times attention and feed-forward, each on a LayerNorm of what comes in and added to it, and a last
    LayerNorm.

    attn_...: arguments of MGQA, as attn_kv_heads=2 or attn_dim_head=32; ff_...: of the feed-forward, ff_mult and
    ff_no_bias. All else that the package takes is refused but at its default, by name (NotImplementedError)."""

    def __init__(self, dim: int, depth: int, heads: int = 8, causal: bool = False, **kwargs: Any) -> None:
        super().__init__()
        attention, feed_forward = _begun("attn_", kwargs), _begun("ff_", kwargs)
        name = type(self).__name__
        own = {key: value for key, value in kwargs.items() if not key.startswith(("attn_", "ff_"))}
        _taken.only(name, _taken.LAYERS, own)
        _refuse_parts(name, attention, feed_forward)
        self.dim, self.depth, self.causal = size("dim", dim), size("depth", depth), flag("causal", causal)
        self.layers = torch.nn.ModuleList()
        for _ in range(self.depth):
            for block in (MGQA(dim, heads=heads, causal=causal, **attention), FeedForward(dim, **feed_forward)):
                self.layers.append(torch.nn.ModuleList([torch.nn.ModuleList([torch.nn.LayerNorm(dim)]), block]))
        self.final_norm = torch.nn.LayerNorm(dim)

    def forward(
        self,
        x: torch.Tensor,
        context: Any = None,
        *,
        cache: Optional[LayerIntermediates] = None,
        cache_age: int = 1,
        return_hiddens: bool = False,
        **others: Any,
    ) -> Union[torch.Tensor, Tuple[torch.Tensor, LayerIntermediates]]:
        """x (batch, tokens, dim) -> as x, on its device and stream.

        return_hiddens: (out, intermediates), which the next call takes as cache: x then has all tokens so far, out the
        new ones', which are those past the cache's. cache_age: 1, or the number of new ones. What else the package
        takes is refused but at its default."""
        self.refuse_others({"context": context, **others})
        if cache is None and not return_hiddens:
            return self.run(x, None)
        if cache is None:
            cache = self.new_cache(x.shape[0], max(_FIRST_ROOM, x.shape[1]))
        out = self.run(x[:, self.seen(cache, x.shape[1], cache_age) :], cache)
        return (out, cache) if return_hiddens else out

    def refuse_others(self, given: Dict[str, Any]) -> None:
        _taken.only(f"{type(self).__name__}.forward", _taken.LAYERS_CALL, given)

    def new_cache(self, batch: int, room: int) -> LayerIntermediates:
        """An empty one; only for what is causal."""
        if not self.causal:
            raise error_for(
                Status.ERROR_OPTION,
                f"{type(self).__name__} was made with causal=False, and later tokens would change those of a cache; expected "
                "a Decoder, or a call without cache and return_intermediates",
            )
        return LayerIntermediates([block for _, block in self.layers if isinstance(block, MGQA)], batch, room)

    def seen(self, cache: LayerIntermediates, tokens: int, cache_age: int = 1) -> int:
        """How many of so many tokens a cache has."""
        new = tokens - cache.length
        if new < 1:
            raise error_for(
                Status.ERROR_SIZE,
                f"x has {tokens} tokens, but the cache {cache.length}; expected all tokens so far, the cache's and the new "
                "ones",
            )
        if size("cache_age", cache_age) not in (1, new):
            raise error_for(
                Status.ERROR_OPTION,
                f"cache_age is {cache_age}; expected 1, or {new}: x has so many tokens more than the cache",
            )
        return cache.length

    def run(self, x: torch.Tensor, cache: Optional[LayerIntermediates]) -> torch.Tensor:
        """All layers, of new tokens alone; the cache then has them, too."""
        tokens = x.shape[1]
        caches: List[Any] = [] if cache is None else list(cache.ready(x.shape[0], tokens))
        for (norm,), block in self.layers:
            more = {"cache": caches.pop(0)} if caches and isinstance(block, MGQA) else {}
            x = x + block(norm(x), **more)
        if cache is not None:
            cache.length += tokens
        return self.final_norm(x)


def _begun(prefix: str, given: Dict[str, Any]) -> Dict[str, Any]:
    return {name[len(prefix) :]: value for name, value in given.items() if name.startswith(prefix)}


_SERVED = (("dim_head", "flash", "kv_heads", "one_kv_head", "value_dim_head", "max_attend_past"), ("mult", "no_bias"))


def _refuse_parts(function: str, attention: Dict[str, Any], feed_forward: Dict[str, Any]) -> None:
    """What MGQA and the feed-forward would refuse, by the names that the caller has for it."""
    parts = (("attn_", _taken.ATTENTION, attention), ("ff_", _taken.FEED_FORWARD, feed_forward))
    for (prefix, table, given), served in zip(parts, _SERVED):
        _taken.only(function, table, {name: value for name, value in given.items() if name not in served}, prefix)
