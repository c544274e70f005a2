"""What all contestants of a serving case read, and the answer in a wider type that they are held against.

Owns: pages, tables and starts; the tolerance. Never: calls a library, times.
"""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple, Tuple

import torch

from .reference import wider
from .serving_cases import ServingCase

# Two roundings of a sequence's largest value; a page left out or a neighbour's is more. For float32, less than what
# terms of fewer bits would give.
_TOLERANCE = {"bfloat16": 2.0**-7, "float16": 2.0**-7, "float32": 2.0**-15}
_SCORES = 1 << 28  # that are in memory at once


class Inputs(NamedTuple):
    """A packed case's q, k and v are (tokens, heads, head_dim), and there are no pages."""

    q: torch.Tensor  # (batch, q_len, q_heads, head_dim)
    k: torch.Tensor  # (pages, page, kv_heads, head_dim)
    v: torch.Tensor
    lengths: torch.Tensor  # (batch,), int32
    table: torch.Tensor  # (batch, pages of the longest), int32
    starts: torch.Tensor  # (batch + 1,), int32: where each sequence's queries begin


Call = Callable[[], torch.Tensor]
Prepare = Callable[[ServingCase, Inputs], Call]


def page_order(case: ServingCase) -> torch.Tensor:
    """The pages of the first sequence, then those of the second, ...: every page once, out of order."""
    source = torch.Generator().manual_seed(case.seed)
    return torch.randperm(sum(case.pages()), generator=source).to(torch.int32)


def make_inputs(case: ServingCase, device: str, seed: int) -> Inputs:
    """seed gives the elements; lengths and tables are the case's."""
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*size: int) -> torch.Tensor:
        made = torch.randn(size, device=device, dtype=torch.float32, generator=generator)
        return made.to(getattr(torch, case.dtype))

    lengths = torch.tensor(case.lengths(), dtype=torch.int32).to(device)
    starts = torch.tensor((0, *case.queries())).cumsum(0).to(torch.int32).to(device)
    if case.packed:
        q, k, v = (normal(sum(case.lengths()), heads, case.head_dim) for heads in (case.q_heads, *[case.kv_heads] * 2))
        return Inputs(q, k, v, lengths, torch.zeros(case.batch, 0, dtype=torch.int32, device=device), starts)
    counts = case.pages()
    table = torch.zeros(case.batch, max(counts), dtype=torch.int32)
    for row, pages in zip(table, page_order(case).split(counts)):
        row[: len(pages)] = pages
    cache = (sum(counts), case.page, case.kv_heads, case.head_dim)
    q = normal(case.batch, case.q_len, case.q_heads, case.head_dim)
    return Inputs(q, normal(*cache), normal(*cache), lengths, table.to(device), starts)


def rows_of(case: ServingCase, tensor: torch.Tensor, sequence: int) -> torch.Tensor:
    """A sequence's queries or outputs, (queries, heads, head_dim)."""
    if not case.packed:
        return tensor[sequence]
    before = sum(case.queries()[:sequence])
    return tensor[before : before + case.queries()[sequence]]


def gathered(case: ServingCase, inputs: Inputs, sequence: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """A sequence's keys and values, (heads, length, head_dim)."""
    if case.packed:
        keys, values = (rows_of(case, each, sequence).transpose(0, 1) for each in (inputs.k, inputs.v))
        return keys, values
    length, count = case.lengths()[sequence], case.pages()[sequence]
    pages = inputs.table[sequence, :count].long()
    keys, values = (cache[pages].flatten(0, 1)[:length].transpose(0, 1) for cache in (inputs.k, inputs.v))
    return keys, values


def seen(queries: int, length: int, device: torch.device) -> torch.Tensor:
    """Which keys a query sees, (queries, length)."""
    last = torch.arange(length - queries, length, device=device)
    return torch.arange(length, device=device)[None, :] <= last[:, None]


def _expected(case: ServingCase, inputs: Inputs, sequence: int) -> Iterator[torch.Tensor]:
    """What a sequence's queries give, some at a time."""
    keys, values = (each.to(wider(each.dtype)) for each in gathered(case, inputs, sequence))
    q = rows_of(case, inputs.q, sequence).to(keys.dtype).unflatten(1, (case.kv_heads, -1))
    mask = seen(len(q), keys.shape[1], q.device)
    for rows, visible in zip(*(each.split(max(1, _SCORES // (case.q_heads * keys.shape[1]))) for each in (q, mask))):
        scores = torch.einsum("qhgd,hkd->hgqk", rows, keys) * case.head_dim**-0.5
        scores.masked_fill_(~visible, float("-inf"))
        yield torch.einsum("hgqk,hkd->qhgd", scores.softmax(-1), values).flatten(1, 2)


def worst_error(case: ServingCase, inputs: Inputs, out: torch.Tensor) -> float:
    """The largest difference of out from a wider type's. Raises ArithmeticError where it is more than rounding."""
    worst, tolerance = 0.0, _TOLERANCE[case.dtype]
    for sequence in range(case.batch):
        expected = torch.cat([*_expected(case, inputs, sequence)])
        error, size = _largest(rows_of(case, out, sequence).to(expected.dtype) - expected), _largest(expected)
        if not error <= tolerance * size:
            raise ArithmeticError(
                f"wrong answer: sequence {sequence} of {case.lengths()[sequence]} keys is off by {error:.2g}, its"
                f" values reach {size:.2g}; expected at most {tolerance:.2g} of that"
            )
        worst = max(worst, error)
    return worst


def _largest(values: torch.Tensor) -> float:
    return float(values.abs().max())
