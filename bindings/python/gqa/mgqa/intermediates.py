"""What a decoder keeps between calls: keys and values of each attention layer.

Owns: their memory, which grows, and how many tokens are in it. Never: copies keys but to grow. Threads: one, one call
at a time.
"""

from __future__ import annotations

from typing import Any, List, Sequence

import torch

from .._errors import Status, error_for
from .._kinds import count
from ..nn import GroupedQueryAttention, KVCache


class LayerIntermediates:
    """Keys and values of the tokens that a decoder has seen, as return_intermediates gives them and `cache` takes them.
    A call writes its tokens' into it, and it is then longer: the package makes a new one instead. `length` is how many
    tokens of each sequence it has. The package's hiddens and attention maps are not in it.

    layers: the attention layers, in order. batch: sequences. room: tokens there is memory for at first."""

    def __init__(self, layers: Sequence[GroupedQueryAttention], batch: int, room: int) -> None:
        self.batch, self.length = batch, 0
        self._caches: List[KVCache] = [layer.new_cache(batch, room) for layer in layers]

    def truncate(self, tokens: int) -> None:
        """Forgets the tokens past the first so many, as after a draft that was refused."""
        kept = count("tokens", tokens)
        if kept > self.length:
            raise error_for(Status.ERROR_SIZE, f"tokens is {kept}; expected 0 to {self.length}, which the cache has")
        self.length = kept

    def ready(self, batch: int, tokens: int) -> List[KVCache]:
        """Each layer's cache, for a call of so many new tokens of so many sequences."""
        if batch != self.batch:
            raise error_for(
                Status.ERROR_SHAPE,
                f"x has batch {batch}, but the cache {self.batch}; expected the sequences it was made of",
            )
        room, needed = self._caches[0].room, self.length + tokens
        if needed > room:
            self._grow(max(needed, 2 * room))
        lengths = torch.full((batch,), self.length, dtype=torch.int32, device=self._caches[0].k.device)
        for cache in self._caches:
            cache.lengths = lengths
        return self._caches

    def _grow(self, room: int) -> None:
        for cache in self._caches:
            cache.k, cache.v = (self._grown(x, room) for x in (cache.k, cache.v))

    def _grown(self, tensor: torch.Tensor, room: int) -> torch.Tensor:
        wider: Any = tensor.new_empty((tensor.shape[0], room, *tensor.shape[2:]))
        wider[:, : self.length] = tensor[:, : self.length]
        return wider

    def __repr__(self) -> str:
        return (
            f"gqa.mgqa LayerIntermediates({len(self._caches)} layers, {self.length} tokens of {self.batch} sequences)"
        )
