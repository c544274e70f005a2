"""Rotary position embeddings (RoPE) of a layer: which dimensions turn, how fast, and for how many positions.

Owns: the tables of cosines and sines. Never: rotates; the call that appends keys does. Threads: any; a Rope is a
constant.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import torch

from .._errors import Status, error_for
from .._kinds import shown, size


class Rope(NamedTuple):
    """positions: rows of the tables: no token stands further on. base: 10000.0, of Llama-3 500000.0. dims: how many
    dimensions of each head turn, the first ones; None for all. interleaved: pairs are neighbours; False, as Llama and
    Mistral have it: element i and i + dims / 2. frequencies: (dims / 2) radians a token, as lengthened contexts have
    their own; None for base ** (-2 i / dims)."""

    positions: int
    base: float = 10000.0
    dims: Optional[int] = None
    interleaved: bool = False
    frequencies: Any = None

    def tables(self, head_dim: int) -> Tuple[torch.Tensor, torch.Tensor]:
        """(cos, sin), each (positions, dims / 2) float64 on the CPU. Raises GqaValueError or GqaTypeError."""
        dims = head_dim if self.dims is None else size("rope.dims", self.dims)
        if dims > head_dim or dims % 2:
            raise error_for(
                Status.ERROR_OPTION, f"rope.dims is {dims}; expected an even number up to head_dim, which is {head_dim}"
            )
        places = torch.arange(size("rope.positions", self.positions), dtype=torch.float64, device="cpu")
        angles = torch.outer(places, self._speeds(dims))
        return angles.cos(), angles.sin()

    def _speeds(self, dims: int) -> torch.Tensor:
        if self.frequencies is None:
            steps = torch.arange(0, dims, 2, dtype=torch.float64, device="cpu")
            return torch.pow(torch.tensor(float(self.base), dtype=torch.float64, device="cpu"), -steps / dims)
        given = torch.as_tensor(self.frequencies, dtype=torch.float64, device="cpu")
        if tuple(given.shape) != (dims // 2,):
            raise error_for(
                Status.ERROR_SHAPE,
                f"rope.frequencies is {shown(tuple(given.shape))}; expected ({dims // 2},), one for each pair of {dims} "
                "dimensions",
            )
        return given
