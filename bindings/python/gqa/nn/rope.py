"""Rotary position embeddings (RoPE): which dimensions of a head turn, how fast, and for how many positions.

Owns: the tables of cosines and sines. Never: rotates; the call that appends keys does. Threads: any may read one Rope;
moving or casting it is one thread's.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch

from .._errors import Status, error_for
from .._kinds import flag, number, shown, size


class Rope(torch.nn.Module):
    """Tables for layers that are given it: one Rope for all layers of a model is one pair of tables. They move and are
    cast with a layer, and are in no state dict.

    dims: how many dimensions of each head turn, the first ones: as a rule head_dim. Even; gqa's kernels take multiples of
        16.
    positions: rows of the tables: tokens stand at 0 to positions - 1.
    base: 10000.0, of Llama 3 500000.0. frequencies: (dims / 2) radians a position, as lengthened contexts have their
        own; None for base ** (-2 i / dims).
    interleaved: pairs are neighbours; False, as Llama and Mistral have it: element i and i + dims / 2.

    Raises GqaValueError or GqaTypeError."""

    def __init__(
        self,
        dims: int,
        positions: int,
        base: float = 10000.0,
        *,
        interleaved: bool = False,
        frequencies: Any = None,
        device: Any = None,
        dtype: Optional[torch.dtype] = None,
    ) -> None:
        super().__init__()
        self.dims, self.positions, self.base = size("dims", dims), size("positions", positions), number("base", base)
        self.interleaved = flag("interleaved", interleaved)
        if self.dims % 2:
            raise error_for(Status.ERROR_OPTION, f"dims is {dims}; expected an even number: dimensions turn in pairs")
        self.frequencies = None if frequencies is None else self._judged(frequencies)
        for name in ("cos", "sin"):
            made = torch.empty(self.positions, self.dims // 2, device=device, dtype=dtype)
            self.register_buffer(name, made, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fills the tables, as after to_empty() has given them memory."""
        for table, numbers in zip((self.cos, self.sin), self._tables()):
            table.copy_(numbers)

    def _tables(self) -> Tuple[torch.Tensor, torch.Tensor]:
        """In float64, on the CPU, so that far positions are as exact as near ones."""
        pairs = torch.arange(0, self.dims, 2, dtype=torch.float64, device="cpu")
        speeds = torch.pow(torch.full_like(pairs, self.base), -pairs / self.dims)
        if self.frequencies is not None:
            speeds = self.frequencies
        angles = torch.outer(torch.arange(self.positions, dtype=torch.float64, device="cpu"), speeds)
        return angles.cos(), angles.sin()

    def _judged(self, frequencies: Any) -> torch.Tensor:
        given = torch.as_tensor(frequencies, dtype=torch.float64, device="cpu")
        if tuple(given.shape) != (self.dims // 2,):
            raise error_for(
                Status.ERROR_SHAPE,
                f"frequencies is {shown(tuple(given.shape))}; expected ({self.dims // 2},), one for each pair of "
                f"{self.dims} dimensions",
            )
        return given

    def extra_repr(self) -> str:
        return f"dims={self.dims}, positions={self.positions}, base={self.base}, interleaved={self.interleaved}"
