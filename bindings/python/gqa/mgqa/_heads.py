"""A projection whose heads lie in another order in memory than in its state dict.

The package's query head h uses key head h % kv_heads, gqa's functions h // group: head r * kv_heads + j there is head
j * group + r here. The weights lie as gqa has them, so that a call copies nothing; state dicts have the package's
order.

Owns: that permutation. Never: touches a weight in a forward pass. Threads: as torch.nn.Linear.
"""

from __future__ import annotations

from typing import Any

import torch


class RegroupedLinear(torch.nn.Linear):
    """torch.nn.Linear without bias. Along `axis` (0: outputs, 1: inputs) of its weight stand `heads` heads, in groups
    of heads / kv_heads side by side, in its state dict kv_heads apart. state_dict() then has copies of the weight, not
    itself; parameters() has the weight as it lies."""

    def __init__(self, inputs: int, outputs: int, axis: int, heads: int, kv_heads: int, **made: Any) -> None:
        super().__init__(inputs, outputs, bias=False, **made)
        self.axis, self.group, self.kv_heads = axis, heads // kv_heads, kv_heads

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        name = f"{prefix}weight"
        destination[name] = self._turned(destination[name], self.kv_heads, self.group)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *more: Any) -> None:
        name = f"{prefix}weight"
        if getattr(state_dict.get(name), "shape", None) == self.weight.shape:  # else it is refused, as it is
            state_dict = {**state_dict, name: self._turned(state_dict[name], self.group, self.kv_heads)}
        super()._load_from_state_dict(state_dict, prefix, *more)

    def _turned(self, weight: torch.Tensor, outer: int, inner: int) -> torch.Tensor:
        """Heads that are `outer` times `inner`, as `inner` times `outer`."""
        if outer == 1 or inner == 1:
            return weight
        return (
            weight.unflatten(self.axis, (outer, inner, -1))
            .transpose(self.axis, self.axis + 1)
            .flatten(self.axis, self.axis + 2)
        )
