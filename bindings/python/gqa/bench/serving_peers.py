"""Who attends over a paged cache: gqa, FlashInfer, its XQA, FlashAttention-3; on a CPU PyTorch, sequence by sequence.

Owns: the pages and tables that all of them share, how each is called on them, the float32 answer they are held
against. Never: times. What a serving engine does once a step for all layers (FlashInfer's plan, FlashAttention-3's
scheduler metadata) is done before the call that is timed; "fa3" without it is a contestant of its own.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Tuple

import torch
import torch.nn.functional as functional

import gqa

from .serving_cases import ServingCase

_WORKSPACE = 256 << 20  # bytes; what FlashInfer's documentation uses
_TOLERANCE = 2.0**-7  # of a sequence's largest value: two roundings of it; a page left out or a neighbour's is more


class Inputs(NamedTuple):
    q: torch.Tensor  # (batch, q_len, q_heads, head_dim)
    k: torch.Tensor  # (pages, page, kv_heads, head_dim)
    v: torch.Tensor
    lengths: torch.Tensor  # (batch,), int32
    table: torch.Tensor  # (batch, pages of the longest), int32


Call = Callable[[], torch.Tensor]
Prepare = Callable[[ServingCase, Inputs], Call]
Contestant = Tuple[str, Prepare]


def page_order(case: ServingCase) -> torch.Tensor:
    """The pages of the first sequence, then those of the second, ...: every page once, out of order."""
    source = torch.Generator().manual_seed(case.seed)
    return torch.randperm(sum(case.pages()), generator=source).to(torch.int32)


def make_inputs(case: ServingCase, device: str, seed: int) -> Inputs:
    """seed gives the elements; lengths and tables are the case's."""
    generator = torch.Generator(device).manual_seed(seed)
    counts = case.pages()
    table = torch.zeros(case.batch, max(counts), dtype=torch.int32)
    for row, pages in zip(table, page_order(case).split(counts)):
        row[: len(pages)] = pages

    def normal(*size: int) -> torch.Tensor:
        made = torch.randn(size, device=device, dtype=torch.float32, generator=generator)
        return made.to(getattr(torch, case.dtype))

    cache = (sum(counts), case.page, case.kv_heads, case.head_dim)
    lengths = torch.tensor(case.lengths(), dtype=torch.int32)
    q = normal(case.batch, case.q_len, case.q_heads, case.head_dim)
    return Inputs(q, normal(*cache), normal(*cache), lengths.to(device), table.to(device))


# ---- the answer


def _gathered(case: ServingCase, inputs: Inputs, sequence: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """A sequence's keys and values, (heads, length, head_dim)."""
    length, count = case.lengths()[sequence], case.pages()[sequence]
    pages = inputs.table[sequence, :count].long()
    keys, values = (cache[pages].flatten(0, 1)[:length].transpose(0, 1) for cache in (inputs.k, inputs.v))
    return keys, values


def _seen(case: ServingCase, length: int, device: torch.device) -> torch.Tensor:
    """Which keys a query sees, (q_len, length)."""
    last = torch.arange(length - case.q_len, length, device=device)
    return torch.arange(length, device=device)[None, :] <= last[:, None]


def _expected(case: ServingCase, inputs: Inputs, sequence: int) -> torch.Tensor:
    keys, values = (each.float() for each in _gathered(case, inputs, sequence))
    q = inputs.q[sequence].float().unflatten(1, (case.kv_heads, -1))
    scores = torch.einsum("qhgd,hkd->hgqk", q, keys) * case.head_dim**-0.5
    scores.masked_fill_(~_seen(case, keys.shape[1], q.device), float("-inf"))
    return torch.einsum("hgqk,hkd->qhgd", scores.softmax(-1), values).flatten(1, 2)


def worst_error(case: ServingCase, inputs: Inputs, out: torch.Tensor) -> float:
    """The largest absolute difference of out from float32. Raises ArithmeticError where it is more than rounding."""
    worst = 0.0
    for sequence in range(case.batch):
        expected = _expected(case, inputs, sequence)
        error, size = float((out[sequence].float() - expected).abs().max()), float(expected.abs().max())
        if not error <= _TOLERANCE * size:
            raise ArithmeticError(
                f"wrong answer: sequence {sequence} of {case.lengths()[sequence]} keys is off by {error:.2g}, its"
                f" values reach {size:.2g}; expected at most {_TOLERANCE:.2g} of that"
            )
        worst = max(worst, error)
    return worst


# ---- the contestants


def contestants(
    device: str, handle: gqa.Handle, without: Iterable[str] = ()
) -> Tuple[List[Contestant], Dict[str, str]]:
    """Who runs on a device, and why each of the others does not."""
    here: List[Contestant] = [("gqa", _settled(_gqa(handle)))]
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
    """Of the contestants beside gqa."""
    return [*_others(device)]


def _others(device: str) -> Dict[str, Callable[[], Prepare]]:
    if device == "cpu":
        return {"torch sdpa, gathered": lambda: _sdpa}
    return {
        "flashinfer": _flashinfer,
        "xqa": _xqa,
        "fa3": functools.partial(_flash_attention_3, False),
        "fa3-planned": functools.partial(_flash_attention_3, True),
    }


def _settled(prepare: Prepare) -> Prepare:
    """Runs the call once and spoils its answer, so that the answer checked later is a second call's: a plan or a
    counter that serves a single call does not pass."""

    def prepared(case: ServingCase, inputs: Inputs) -> Call:
        call = prepare(case, inputs)
        call().fill_(float("nan"))
        return call

    return prepared


def _gqa(handle: gqa.Handle) -> Prepare:
    def prepare(case: ServingCase, inputs: Inputs) -> Call:
        q, k, v, lengths, table = inputs
        attend = functools.partial(gqa.flash_attn_with_kvcache, handle=handle)
        return lambda: attend(q, k, v, cache_seqlens=lengths, page_table=table, causal=True)

    return prepare


def _flash_attention_3(planned: bool) -> Prepare:
    """By its operators, which both its own wheel and xformers' bring; the Python above them is not always there."""
    for folder in importlib.import_module("flash_attn_3").__path__:
        for library in Path(folder).glob("_C*.so"):
            torch.ops.load_library(str(library))
    forward, plan_of = torch.ops.flash_attn_3.fwd, torch.ops.flash_attn_3.get_scheduler_metadata

    def prepare(case: ServingCase, inputs: Inputs) -> Call:
        q, k, v, lengths, table = inputs
        plan = _fa3_plan(plan_of, case, inputs) if planned else None
        return lambda: forward(
            q, k, v, seqused_k=lengths, page_table=table, is_causal=True, scheduler_metadata=plan, num_splits=0
        )[0]

    return prepare


def _fa3_plan(plan_of: Any, case: ServingCase, inputs: Inputs) -> torch.Tensor:
    longest = inputs.table.shape[1] * case.page  # as fwd takes it from the table
    sizes = (case.batch, case.q_len, longest, case.q_heads, case.kv_heads, case.head_dim, case.head_dim)
    return plan_of(
        *sizes, inputs.q.dtype, inputs.lengths, page_size=case.page, is_causal=True, num_splits=0
    )


def _flashinfer() -> Prepare:
    module = importlib.import_module("flashinfer")

    def prepare(case: ServingCase, inputs: Inputs) -> Call:
        wrapper = _planned(module, case, inputs.q.device)
        q, paged = inputs.q.flatten(0, 1), (inputs.k, inputs.v)
        return lambda: wrapper.run(q, paged).unflatten(0, (case.batch, case.q_len))

    return prepare


@functools.lru_cache(maxsize=1)  # one plan serves all input sets of a case
def _planned(module: Any, case: ServingCase, device: torch.device) -> Any:
    workspace = torch.zeros(_WORKSPACE, dtype=torch.uint8, device=device)
    wrapper = module.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=True)
    starts = torch.tensor((0, *case.pages())).cumsum(0).to(torch.int32)
    in_last = torch.tensor([(length - 1) % case.page + 1 for length in case.lengths()], dtype=torch.int32)
    several = {"q_len_per_req": case.q_len} if case.q_len > 1 else {}  # earlier versions do not know the word
    wrapper.plan(
        starts.to(device),
        page_order(case).to(device),
        in_last.to(device),
        case.q_heads,
        case.kv_heads,
        case.head_dim,
        case.page,
        q_data_type=getattr(torch, case.dtype),
        **several,
    )
    return wrapper


def _xqa() -> Prepare:
    attend = importlib.import_module("flashinfer.decode").xqa_batch_decode_with_kv_cache

    def prepare(case: ServingCase, inputs: Inputs) -> Call:
        if case.q_len > 1:
            raise ValueError("more than one query a sequence needs masks that this benchmark does not make")
        workspace = torch.zeros(_WORKSPACE, dtype=torch.uint8, device=inputs.q.device)
        q, (_, k, v, lengths, table) = inputs.q.squeeze(1), inputs
        longest, scale = table.shape[1] * case.page, case.head_dim**-0.5
        return lambda: attend(q, (k, v), workspace, table, lengths, longest, bmm1_scale=scale).unsqueeze(1)

    return prepare


def _sdpa(case: ServingCase, inputs: Inputs) -> Call:
    """All that PyTorch offers: each sequence's pages are copied together at every call."""
    masks = [_seen(case, length, inputs.q.device) for length in case.lengths()]

    def one(sequence: int) -> torch.Tensor:
        keys, values = (each[None] for each in _gathered(case, inputs, sequence))
        q = inputs.q[sequence].transpose(0, 1)[None]
        mask = masks[sequence]
        return functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)[0]

    return lambda: torch.stack([one(sequence).transpose(0, 1) for sequence in range(case.batch)])
