"""How other libraries attend over a paged cache or packed prompts: FlashInfer, its XQA, cuDNN, FlashAttention-3 and -4.

Owns: their arguments, and what each plans ahead for all layers of a step. Never: times or checks. A library that is not
there, or does not know a name, raises when it is made; one that cannot run a case raises when the case is prepared.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any, Callable, Dict

import torch

from .serving_cases import ServingCase
from .serving_inputs import Call, Inputs, Prepare, page_order

_WORKSPACE = 256 << 20  # bytes; what FlashInfer's documentation uses


def known() -> Dict[str, Callable[[], Prepare]]:
    """What makes each."""
    return {
        "flashinfer": _flashinfer,
        "xqa": _xqa,
        "cudnn": _cudnn,
        "fa3": functools.partial(_flash_attention_3, False),
        "fa3-planned": functools.partial(_flash_attention_3, True),
        "fa4": _flash_attention_4,
    }


def _workspace(device: torch.device) -> torch.Tensor:
    return torch.zeros(_WORKSPACE, dtype=torch.uint8, device=device)


def _longest_table(case: ServingCase, inputs: Inputs) -> int:
    """Keys that a row of the table has room for: what a library takes for the longest sequence."""
    return inputs.table.shape[1] * case.page


def _as_keys(out: torch.Tensor, case: ServingCase) -> torch.Tensor:
    """Rows of all sequences as gqa has them."""
    return out if case.packed else out.unflatten(0, (case.batch, case.q_len))


# ---- FlashAttention


def _flash_attention_3(planned: bool) -> Prepare:
    """By its operators, which both its own wheel and xformers' bring; the Python above them is not always there."""
    for folder in importlib.import_module("flash_attn_3").__path__:
        for library in Path(folder).glob("_C*.so"):
            torch.ops.load_library(str(library))
    forward, plan_of = torch.ops.flash_attn_3.fwd, torch.ops.flash_attn_3.get_scheduler_metadata

    def prepare(case: ServingCase, inputs: Inputs) -> Call:
        q, k, v = inputs.q, inputs.k, inputs.v
        if planned and case.packed:
            raise ValueError("its scheduler's metadata are made for caches only")
        plan = _fa3_plan(plan_of, case, inputs) if planned else None
        keywords = {**_packed(case, inputs), "num_splits": 1} if case.packed else {**_paged(inputs), "num_splits": 0}
        return lambda: forward(q, k, v, **keywords, is_causal=True, scheduler_metadata=plan)[0]

    return prepare


def _fa3_plan(plan_of: Any, case: ServingCase, inputs: Inputs) -> torch.Tensor:
    sizes = (case.batch, case.q_len, _longest_table(case, inputs), case.q_heads, case.kv_heads)
    return plan_of(
        *sizes, case.head_dim, case.head_dim, inputs.q.dtype, inputs.lengths, page_size=case.page, is_causal=True,
        num_splits=0,
    )  # fmt: skip


def _packed(case: ServingCase, inputs: Inputs) -> Dict[str, Any]:
    longest = max(case.lengths())
    return {
        "cu_seqlens_q": inputs.starts,
        "cu_seqlens_k": inputs.starts,
        "max_seqlen_q": longest,
        "max_seqlen_k": longest,
    }


def _paged(inputs: Inputs) -> Dict[str, Any]:
    return {"seqused_k": inputs.lengths, "page_table": inputs.table}


def _flash_attention_4() -> Prepare:
    attend = importlib.import_module("flash_attn.cute").flash_attn_varlen_func

    def prepare(case: ServingCase, inputs: Inputs) -> Call:
        q, k, v = inputs.q, inputs.k, inputs.v
        keywords = _packed(case, inputs) if case.packed else _paged(inputs)

        def call() -> torch.Tensor:
            result = attend(q, k, v, **keywords, causal=True)
            return result[0] if isinstance(result, tuple) else result

        return call

    return prepare


# ---- FlashInfer


def _flashinfer() -> Prepare:
    module = importlib.import_module("flashinfer")

    def prepare(case: ServingCase, inputs: Inputs) -> Call:
        wrapper = _planned(module, case, inputs.q.device)
        if case.packed:
            return lambda: wrapper.run(inputs.q, inputs.k, inputs.v)
        q, paged = inputs.q.flatten(0, 1), (inputs.k, inputs.v)
        return lambda: _as_keys(wrapper.run(q, paged), case)

    return prepare


@functools.lru_cache(maxsize=1)  # one plan serves all input sets of a case
def _planned(module: Any, case: ServingCase, device: torch.device) -> Any:
    def starts(counts: Any) -> torch.Tensor:
        return torch.tensor((0, *counts)).cumsum(0).to(torch.int32).to(device)

    sizes, dtype = (case.q_heads, case.kv_heads, case.head_dim), getattr(torch, case.dtype)
    if case.packed:
        wrapper = module.BatchPrefillWithRaggedKVCacheWrapper(_workspace(device), "NHD")
        wrapper.plan(starts(case.queries()), starts(case.lengths()), *sizes, causal=True, q_data_type=dtype)
        return wrapper
    in_last = torch.tensor([(length - 1) % case.page + 1 for length in case.lengths()], dtype=torch.int32)
    pages = (starts(case.pages()), page_order(case).to(device), in_last.to(device))
    if case.q_len == 1:
        wrapper = module.BatchDecodeWithPagedKVCacheWrapper(_workspace(device), "NHD", use_tensor_cores=True)
        wrapper.plan(*pages, *sizes, case.page, q_data_type=dtype)
    else:
        wrapper = module.BatchPrefillWithPagedKVCacheWrapper(_workspace(device), "NHD")
        wrapper.plan(starts(case.queries()), *pages, *sizes, case.page, causal=True, q_data_type=dtype)
    return wrapper


def _xqa() -> Prepare:
    attend = importlib.import_module("flashinfer.decode").xqa_batch_decode_with_kv_cache

    def prepare(case: ServingCase, inputs: Inputs) -> Call:
        if case.packed:
            raise ValueError("it reads caches only")
        if case.q_len > 1:
            raise ValueError("more than one query a sequence needs masks that this benchmark does not make")
        workspace, q, cache = _workspace(inputs.q.device), inputs.q.squeeze(1), (inputs.k, inputs.v)
        lists, scale = (inputs.table, inputs.lengths, _longest_table(case, inputs)), case.head_dim**-0.5
        return lambda: attend(q, cache, workspace, *lists, bmm1_scale=scale).unsqueeze(1)

    return prepare


def _cudnn() -> Prepare:
    """As FlashInfer calls it; PyTorch's own way to cuDNN takes neither pages nor packed prompts."""
    importlib.import_module("cudnn")
    module = importlib.import_module("flashinfer.cudnn")
    decode, prefill = module.cudnn_batch_decode_with_kv_cache, module.cudnn_batch_prefill_with_kv_cache

    def prepare(case: ServingCase, inputs: Inputs) -> Call:
        workspace, scale = _workspace(inputs.q.device), case.head_dim**-0.5
        keys = inputs.lengths.reshape(-1, 1, 1, 1)
        if case.packed:
            k, v, lists = inputs.k, inputs.v, _offsets(case, inputs)
        else:  # heads before keys
            k, v, lists = inputs.k.transpose(1, 2), inputs.v.transpose(1, 2), {"block_tables": inputs.table}
        lists = {**lists, "actual_seq_lens_kv": keys}
        longest = max(case.lengths()) if case.packed else _longest_table(case, inputs)
        q = inputs.q if case.packed else inputs.q.flatten(0, 1)
        if case.q_len == 1 and not case.packed:
            return lambda: _as_keys(_first(decode(q, k, v, scale, workspace, max_sequence_kv=longest, **lists)), case)
        queries = torch.tensor(case.queries(), dtype=torch.int32, device=q.device).reshape(-1, 1, 1, 1)
        keywords = {"actual_seq_lens_q": queries, "causal": True, "return_lse": False, "is_cuda_graph_compatible": True}
        most = {"max_token_per_sequence": max(case.queries()), "max_sequence_kv": longest}
        return lambda: _as_keys(_first(prefill(q, k, v, scale, workspace, **most, **keywords, **lists)), case)

    return prepare


def _offsets(case: ServingCase, inputs: Inputs) -> Dict[str, Any]:
    """Where sequences begin, in elements."""
    of_q, of_k = (inputs.starts * heads * case.head_dim for heads in (case.q_heads, case.kv_heads))
    return {"batch_offsets_q": of_q, "batch_offsets_o": of_q, "batch_offsets_k": of_k, "batch_offsets_v": of_k}


def _first(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result
