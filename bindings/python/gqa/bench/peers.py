"""The contestants: gqa, what PyTorch carries, and other libraries that can be imported here.

Owns: how each is called on one set of inputs, (batch, length, heads, head_dim) tensors that all of them share. Never:
times. A contestant that cannot run a shape raises; the caller names it with its error and does not time it.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from typing import Any, Callable, List, Tuple

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import gqa

from .shapes import Shape

Inputs = Tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Call = Callable[[], torch.Tensor]
_HALVES = ("bfloat16", "float16")


@dataclass(frozen=True)
class Peer:
    """prepare(shape, inputs) gives the call to time; whatever it does before returning is not timed."""

    name: str
    prepare: Callable[[Shape, Inputs], Call]
    dtypes: Tuple[str, ...] = ("bfloat16", "float16", "float32")  # that it is timed in


def make_inputs(shape: Shape, device: str, seed: int) -> Inputs:
    generator = torch.Generator(device).manual_seed(seed)
    dtype = getattr(torch, shape.dtype)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(size, device=device, dtype=torch.float32, generator=generator).to(dtype)

    return (
        normal(shape.batch, shape.q_len, shape.q_heads, shape.head_dim),
        normal(shape.batch, shape.kv_len, shape.kv_heads, shape.head_dim),
        normal(shape.batch, shape.kv_len, shape.kv_heads, shape.head_dim_v),
    )


def gqa_peer(handle: gqa.Handle) -> Peer:
    def prepare(shape: Shape, inputs: Inputs) -> Call:
        q, k, v = inputs
        return lambda: handle.attention(q, k, v, causal=shape.causal)

    return Peer("gqa", prepare)


def contestants(device: str) -> Tuple[List[Peer], List[str]]:
    """Peers for a device, and the names of libraries that are not installed here."""
    if device == "cpu":
        return [Peer("torch sdpa", _sdpa), Peer("torch sdpa, heads repeated", _sdpa_repeated)], []
    peers = [
        Peer("cudnn", _sdpa_on(SDPBackend.CUDNN_ATTENTION), _HALVES),
        Peer("fa2", _sdpa_on(SDPBackend.FLASH_ATTENTION), _HALVES),
        Peer("efficient, heads repeated", _sdpa_on(SDPBackend.EFFICIENT_ATTENTION, _sdpa_repeated), ("float32",)),
        Peer("math", _sdpa_on(SDPBackend.MATH), ("float32",)),
    ]
    absent = []
    for name, module, make in _OTHERS:
        try:
            peers.append(Peer(name, make(importlib.import_module(module)), _HALVES))
        except ImportError:
            absent.append(name)
    return peers, absent


def _is_causal(shape: Shape) -> bool:
    """PyTorch and gqa agree on causal where lengths are equal; PyTorch's is_causal is aligned top-left."""
    if not shape.causal or shape.decode:
        return False
    if shape.q_len != shape.kv_len:
        raise ValueError("is_causal of PyTorch is aligned top-left; this shape needs bottom-right")
    return True


def _sdpa(shape: Shape, inputs: Inputs) -> Call:
    q, k, v = (tensor.transpose(1, 2) for tensor in inputs)
    causal, grouped = _is_causal(shape), shape.q_heads != shape.kv_heads
    return lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped).transpose(
        1, 2
    )


def _sdpa_repeated(shape: Shape, inputs: Inputs) -> Call:
    q, k, v = inputs
    group = shape.q_heads // shape.kv_heads
    repeated = (q, k.repeat_interleave(group, 2), v.repeat_interleave(group, 2))
    q, k, v = (tensor.transpose(1, 2) for tensor in repeated)
    causal = _is_causal(shape)
    return lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)


def _sdpa_on(
    backend: SDPBackend, words: Callable[[Shape, Inputs], Call] = _sdpa
) -> Callable[[Shape, Inputs], Call]:
    def prepare(shape: Shape, inputs: Inputs) -> Call:
        call = words(shape, inputs)

        def on_backend() -> torch.Tensor:
            with sdpa_kernel(backend):
                return call()

        return on_backend

    return prepare


def _flash_attention(module: Any) -> Callable[[Shape, Inputs], Call]:
    def prepare(shape: Shape, inputs: Inputs) -> Call:
        q, k, v = inputs

        def call() -> torch.Tensor:
            result = module.flash_attn_func(q, k, v, causal=shape.causal)
            return result[0] if isinstance(result, tuple) else result

        return call

    return prepare


_WORKSPACE = 256 << 20  # bytes; what FlashInfer's documentation uses
_PAGE = 16


def _flashinfer(module: Any) -> Callable[[Shape, Inputs], Call]:
    def prepare(shape: Shape, inputs: Inputs) -> Call:
        return _flashinfer_decode(module, shape, inputs) if shape.decode else _flashinfer_prefill(module, shape, inputs)

    return prepare


def _offsets(count: int, step: int, device: torch.device) -> torch.Tensor:
    return torch.arange(count + 1, dtype=torch.int32, device=device) * step


@functools.lru_cache(maxsize=1)  # one plan serves all input sets of a shape
def _planned_prefill(module: Any, shape: Shape, device: torch.device, dtype: torch.dtype) -> Any:
    workspace = torch.empty(_WORKSPACE, dtype=torch.uint8, device=device)
    wrapper = module.BatchPrefillWithRaggedKVCacheWrapper(workspace, "NHD")
    wrapper.plan(
        _offsets(shape.batch, shape.q_len, device),
        _offsets(shape.batch, shape.kv_len, device),
        shape.q_heads,
        shape.kv_heads,
        shape.head_dim,
        head_dim_vo=shape.head_dim_v,
        causal=shape.causal,
        q_data_type=dtype,
    )
    return wrapper


def _flashinfer_prefill(module: Any, shape: Shape, inputs: Inputs) -> Call:
    q, k, v = (tensor.flatten(0, 1) for tensor in inputs)
    wrapper = _planned_prefill(module, shape, q.device, q.dtype)
    return lambda: wrapper.run(q, k, v).unflatten(0, (shape.batch, shape.q_len))


@functools.lru_cache(maxsize=1)
def _planned_decode(module: Any, shape: Shape, device: torch.device, dtype: torch.dtype) -> Any:
    pages = shape.kv_len // _PAGE
    workspace = torch.empty(_WORKSPACE, dtype=torch.uint8, device=device)
    wrapper = module.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=True)
    wrapper.plan(
        _offsets(shape.batch, pages, device),
        torch.arange(shape.batch * pages, dtype=torch.int32, device=device),
        torch.full((shape.batch,), _PAGE, dtype=torch.int32, device=device),
        shape.q_heads,
        shape.kv_heads,
        shape.head_dim,
        _PAGE,
        q_data_type=dtype,
    )
    return wrapper


def _flashinfer_decode(module: Any, shape: Shape, inputs: Inputs) -> Call:
    q, k, v = inputs
    if shape.kv_len % _PAGE != 0:
        raise ValueError(f"kv_len {shape.kv_len} is not a multiple of the page size {_PAGE}")
    pages = shape.batch * shape.kv_len // _PAGE
    paged = tuple(tensor.reshape(pages, _PAGE, shape.kv_heads, tensor.shape[-1]) for tensor in (k, v))
    wrapper = _planned_decode(module, shape, q.device, q.dtype)
    rows = q.squeeze(1)
    return lambda: wrapper.run(rows, paged).unsqueeze(1)


# name in the table, module, how to call it
_OTHERS = (
    ("fa3", "flash_attn_interface", _flash_attention),
    ("fa4", "flash_attn.cute", _flash_attention),
    ("flashinfer", "flashinfer", _flashinfer),
)
