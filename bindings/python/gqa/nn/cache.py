"""The keys and values that a layer has seen, dense or in pages.

Owns: a cache's parts, how much room it has, and how many tokens are in it. Never: copies keys; reads a number of a
device. Threads: one cache, one call at a time.
"""

from __future__ import annotations

from typing import Any, Optional, Union

import torch

from .._errors import Status, error_for


class KVCache:
    """One layer's cache. A layer writes the keys and values of its tokens behind those that are there, and leaves
    `lengths` as it is, so that layers may share it: advance() says that the tokens are in, once after the last layer.

    k, v: (batch, room, kv_heads, head_dim or head_dim_v), of the layer's dtype and device; or with page_table (pages,
        page, kv_heads, ...), for any page size from 1.
    lengths: tokens that each sequence has, before the call: one number for all, or (batch,) int32 beside k. A tensor is
        not read by the host: what has no room then is not written.
    page_table: (batch, columns) int32 beside k, or None: token j of sequence b is k[page_table[b, j // page], j %
        page]. Columns beyond a sequence's tokens may hold anything. gqa.PagePool makes tables.

    Raises GqaValueError where a page_table has not two dimensions."""

    __slots__ = ("k", "v", "lengths", "page_table")

    def __init__(
        self,
        k: torch.Tensor,
        v: torch.Tensor,
        lengths: Union[int, torch.Tensor] = 0,
        page_table: Optional[torch.Tensor] = None,
    ) -> None:
        if page_table is not None and page_table.dim() != 2:
            raise error_for(
                Status.ERROR_RANK,
                f"page_table has {page_table.dim()} dimensions, {tuple(page_table.shape)}; expected 2: (batch, columns)",
            )
        self.k, self.v, self.lengths, self.page_table = k, v, lengths, page_table

    @property
    def room(self) -> int:
        """Tokens that each sequence has room for."""
        tokens = int(self.k.shape[1])
        return tokens if self.page_table is None else tokens * int(self.page_table.shape[1])

    def advance(self, tokens: int) -> None:
        """The tokens of a call are in: each sequence has so many more. A tensor of lengths is written in place."""
        self.lengths += tokens

    def refuse_more(self, tokens: int) -> None:
        """Refuses so many new tokens of each sequence where their number is known here and has no room."""
        if isinstance(self.lengths, torch.Tensor):
            return
        if not 0 <= self.lengths <= self.room - tokens:
            raise error_for(
                Status.ERROR_SIZE,
                f"x has {tokens} tokens and the cache's length is {self.lengths}, of {self.room}; expected 0 to "
                f"{self.room} tokens with the new ones: make a cache with more room",
            )

    def __repr__(self) -> str:
        kind = "dense" if self.page_table is None else f"in pages of {self.k.shape[1]}"
        filled: Any = self.lengths if isinstance(self.lengths, int) else f"a tensor {tuple(self.lengths.shape)}"
        return f"gqa.nn.KVCache({kind}, room for {self.room} tokens, lengths {filled})"
