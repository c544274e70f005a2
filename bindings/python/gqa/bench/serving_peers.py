"""Who attends over a paged cache or packed prompts: gqa, on the same pages or on contiguous keys, and the libraries of
serving_libraries; on a CPU PyTorch, sequence by sequence or on keys that lie in a dense tensor.

Owns: who runs where, and why the others do not. Never: times. What a serving engine does once a step for all layers
(FlashInfer's plan, FlashAttention-3's scheduler metadata) is done before the call that is timed; "fa3" without it is a
contestant of its own.
"""

from __future__ import annotations

import functools
from typing import Callable, Dict, Iterable, List, Tuple

import torch
import torch.nn.functional as functional

import gqa

from . import serving_libraries
from .serving_cases import ServingCase
from .serving_inputs import Call, Inputs, Prepare, gathered, make_inputs, page_order, rows_of, seen, worst_error

__all__ = ["contestants", "make_inputs", "names", "page_order", "worst_error"]

Contestant = Tuple[str, Prepare]


def contestants(
    device: str, handle: gqa.Handle, without: Iterable[str] = ()
) -> Tuple[List[Contestant], Dict[str, str]]:
    """Who runs on a device, and why each of the others does not."""
    here: List[Contestant] = [("gqa", _settled(_gqa(handle))), ("gqa-contiguous", _settled(_gqa_contiguous(handle)))]
    left_out: Dict[str, str] = {}
    for name, make in _others(device).items():
        if name in without:
            left_out[name] = "--without"
            continue
        try:
            here.append((name, _settled(make())))
        except (AttributeError, ImportError, OSError, RuntimeError) as error:
            left_out[name] = f"{type(error).__name__}: {error}"
    return here, left_out


def names(device: str) -> List[str]:
    """The contestants' names, beside gqa."""
    return [*_others(device)]


def _others(device: str) -> Dict[str, Callable[[], Prepare]]:
    if device == "cpu":
        return {"torch sdpa, gathered": lambda: _sdpa, "torch sdpa, dense": lambda: _sdpa_dense}
    return serving_libraries.known()


def _settled(prepare: Prepare) -> Prepare:
    """Runs the call once and spoils its answer, so that the answer checked later is a second call's: a plan or a
    counter that serves a single call does not pass."""

    def prepared(case: ServingCase, inputs: Inputs) -> Call:
        call = prepare(case, inputs)
        call().fill_(float("nan"))
        return call

    return prepared


# ---- gqa


def _gqa(handle: gqa.Handle) -> Prepare:
    def prepare(case: ServingCase, inputs: Inputs) -> Call:
        q, k, v, lengths, table, starts = inputs
        if case.packed:
            longest, attend = max(case.lengths()), functools.partial(gqa.flash_attn_varlen_func, handle=handle)
            return lambda: attend(q, k, v, starts, starts, longest, longest, causal=True)
        decode = functools.partial(gqa.flash_attn_with_kvcache, handle=handle)
        return lambda: decode(q, k, v, cache_seqlens=lengths, page_table=table, causal=True)

    return prepare


def _gqa_contiguous(handle: gqa.Handle) -> Prepare:
    """What the same keys cost without pages."""

    def prepare(case: ServingCase, inputs: Inputs) -> Call:
        k, v = _dense(case, inputs)
        attend = functools.partial(gqa.flash_attn_with_kvcache, handle=handle)
        return lambda: attend(inputs.q, k, v, cache_seqlens=inputs.lengths, causal=True)

    return prepare


def _dense(case: ServingCase, inputs: Inputs) -> Tuple[torch.Tensor, torch.Tensor]:
    """A case's keys and values as (batch, length, heads, head_dim)."""
    if case.packed or len(set(case.lengths())) > 1:
        raise ValueError("it takes caches whose lengths are equal")
    pairs = [gathered(case, inputs, sequence) for sequence in range(case.batch)]
    keys, values = (torch.stack([each.transpose(0, 1) for each in of]) for of in zip(*pairs))
    return keys, values


# ---- PyTorch on a CPU


def _sdpa(case: ServingCase, inputs: Inputs) -> Call:
    """All that PyTorch offers: each sequence's pages are copied together at every call."""
    pairs = zip(case.queries(), case.lengths())
    masks = [seen(queries, length, inputs.q.device) for queries, length in pairs]

    def one(sequence: int) -> torch.Tensor:
        keys, values = (each[None] for each in gathered(case, inputs, sequence))
        q, mask = rows_of(case, inputs.q, sequence).transpose(0, 1)[None], masks[sequence]
        attended = functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
        return attended[0].transpose(0, 1)

    join = torch.cat if case.packed else torch.stack
    return lambda: join([one(sequence) for sequence in range(case.batch)])


def _sdpa_dense(case: ServingCase, inputs: Inputs) -> Call:
    """What keys cost that lie together before the call."""
    keys, values = (each.transpose(1, 2) for each in _dense(case, inputs))
    q, mask = inputs.q.transpose(1, 2), None
    if case.q_len > 1:
        mask = seen(case.q_len, keys.shape[2], q.device)
    attend = functools.partial(functional.scaled_dot_product_attention, attn_mask=mask, enable_gqa=True)
    return lambda: attend(q, keys, values).transpose(1, 2)
