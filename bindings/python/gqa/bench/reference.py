"""The same attention in a wider type, a few rows at a time, to hold results against: float32, of float32 float64.

Owns: the naive computation and the largest absolute difference. Never: is timed.
"""

from __future__ import annotations

from typing import Iterator, Tuple

import torch

from .peers import Inputs
from .shapes import Shape

_SCORES = 1 << 28  # elements of one block of scores: 1 GiB


def wider(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype is torch.float32 else torch.float32


def worst_error(shape: Shape, inputs: Inputs, out: torch.Tensor) -> float:
    """The largest absolute difference of out from the wider type's; NaN where out has one."""
    worst = torch.zeros((), device=out.device, dtype=wider(out.dtype))
    for batch, rows, expected in _blocks(shape, inputs):
        difference = (out[batch, rows].to(expected.dtype) - expected).abs()
        worst = torch.maximum(worst, difference.max())
    return float(worst)


def _blocks(shape: Shape, inputs: Inputs) -> Iterator[Tuple[int, slice, torch.Tensor]]:
    q, k, v = (each.to(wider(each.dtype)) for each in inputs)
    group = shape.q_heads // shape.kv_heads
    step = max(1, _SCORES // (shape.q_heads * shape.kv_len))
    keys = torch.arange(shape.kv_len, device=q.device)
    for batch in range(shape.batch):
        heads_k = k[batch].transpose(0, 1).repeat_interleave(group, 0)
        heads_v = v[batch].transpose(0, 1).repeat_interleave(group, 0)
        for start in range(0, shape.q_len, step):
            rows = slice(start, min(start + step, shape.q_len))
            heads_q = q[batch, rows].transpose(0, 1)
            scores = heads_q @ heads_k.transpose(1, 2) * shape.head_dim**-0.5
            if shape.causal:
                last = torch.arange(rows.start, rows.stop, device=q.device) + shape.kv_len - shape.q_len
                scores.masked_fill_(keys[None, :] > last[:, None], float("-inf"))
            weights = scores.softmax(-1).nan_to_num_()  # a row that sees no key gives 0
            yield batch, rows, (weights @ heads_v).transpose(0, 1)
