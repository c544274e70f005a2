"""Who runs a graph: gqa's program for it, PyTorch as it is written, PyTorch compiled; for attention also gqa.attention and
the attention that PyTorch carries.

Owns: each graph in gqa's words and in PyTorch's, over the same inputs. Never: times.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Tuple

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import gqa

from .graph_cases import GraphCase

Inputs = Tuple[torch.Tensor, ...]
Call = Callable[[], torch.Tensor]
Contestant = Tuple[str, Callable[[GraphCase, Inputs], Call]]

_EPSILON = 1e-5


def make_inputs(case: GraphCase, device: str, seed: int) -> Inputs:
    """Activations of size 1; weights so that products are of size 1 too."""
    generator = torch.Generator(device).manual_seed(seed)

    def normal(dims: Tuple[int, ...], scale: float) -> torch.Tensor:
        made = torch.randn(dims, device=device, dtype=torch.float32, generator=generator) * scale
        return made.to(getattr(torch, case.dtype))

    first, *rest = case.inputs()
    if case.kind == "attention":
        return (normal(first, first[-1] ** -0.5), *(normal(dims, 1.0) for dims in rest))
    return (normal(first, 1.0), *(normal(dims, dims[0] ** -0.5 if len(dims) == 2 else 1.0) for dims in rest))


# ---- in gqa's words


def _attention(graph: gqa.KernelGraph, q: gqa.Value, k: gqa.Value, v: gqa.Value) -> gqa.Value:
    weights = graph.exp(q @ k)
    return weights / graph.sum(weights, -1) @ v


def _rms_norm_linear(graph: gqa.KernelGraph, x: gqa.Value, g: gqa.Value, w: gqa.Value) -> gqa.Value:
    return graph.rms_norm(x, g, _EPSILON) @ w


def _gated_mlp(graph: gqa.KernelGraph, x: gqa.Value, w1: gqa.Value, w3: gqa.Value) -> gqa.Value:
    return graph.silu(x @ w1) * (x @ w3)


def _lora(graph: gqa.KernelGraph, x: gqa.Value, w: gqa.Value, a: gqa.Value, b: gqa.Value) -> gqa.Value:
    return x @ w + x @ a @ b


# ---- in PyTorch's


def _torch_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k, -1) @ v


def _torch_rms_norm_linear(x: torch.Tensor, g: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(x, (x.shape[-1],), g, _EPSILON) @ w


def _torch_gated_mlp(x: torch.Tensor, w1: torch.Tensor, w3: torch.Tensor) -> torch.Tensor:
    return functional.silu(x @ w1) * (x @ w3)


def _torch_lora(x: torch.Tensor, w: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return x @ w + x @ a @ b


_WORDS: Dict[str, Tuple[Callable[..., gqa.Value], Callable[..., torch.Tensor]]] = {
    "attention": (_attention, _torch_attention),
    "rms_norm_linear": (_rms_norm_linear, _torch_rms_norm_linear),
    "gated_mlp": (_gated_mlp, _torch_gated_mlp),
    "lora": (_lora, _torch_lora),
}


def graph_of(case: GraphCase) -> gqa.KernelGraph:
    graph = gqa.new_kernel_graph()
    inputs = [graph.new_input(dims, case.dtype) for dims in case.inputs()]
    graph.mark_output(_WORDS[case.kind][0](graph, *inputs))
    return graph


def worst_error(case: GraphCase, inputs: Inputs, out: torch.Tensor) -> float:
    """The largest absolute difference of out from PyTorch in float32; NaN where out has one."""
    expected = _WORDS[case.kind][1](*(tensor.float() for tensor in inputs))
    return float((out.float() - expected).abs().max())


def _op_by_op_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    weights = torch.exp(q @ k)
    return weights / weights.sum(-1, keepdim=True) @ v


def error_ratio(case: GraphCase, inputs: Inputs, out: torch.Tensor) -> float:
    """The norm of out's error over that of the graph as it is written, each operator rounded to the dtype; both against
    float64."""
    words = _op_by_op_attention if case.kind == "attention" else _WORDS[case.kind][1]
    expected = words(*(tensor.double() for tensor in inputs))
    return float((out.double() - expected).norm() / (words(*inputs).double() - expected).norm())


# ---- the contestants


def contestants(case: GraphCase, device: str, handle: gqa.Handle, compiled: bool) -> List[Contestant]:
    named: List[Contestant] = [("gqa", _gqa(handle)), ("torch", _eager)]
    if compiled:
        named.append(("torch.compile", _compiled))
    if case.kind != "attention":
        return named
    named.append(("gqa.attention", _gqa_attention(handle)))
    if device == "cpu":
        return named + [("torch sdpa", _sdpa)]
    return named + [
        ("cudnn", _sdpa_on(SDPBackend.CUDNN_ATTENTION)),
        ("fa2", _sdpa_on(SDPBackend.FLASH_ATTENTION)),
    ]


def _gqa(handle: gqa.Handle) -> Callable[[GraphCase, Inputs], Call]:
    @functools.lru_cache(maxsize=1)  # one program serves all input sets of a case
    def program(case: GraphCase) -> gqa.Optimized:
        return graph_of(case).superoptimize("attention" if case.kind == "attention" else None, device=handle)

    def prepare(case: GraphCase, inputs: Inputs) -> Call:
        run = program(case)
        return lambda: run(inputs)

    return prepare


def _eager(case: GraphCase, inputs: Inputs) -> Call:
    function = _WORDS[case.kind][1]
    return lambda: function(*inputs)


@functools.lru_cache(maxsize=1)
def _compiled_function(case: GraphCase) -> Any:
    torch._dynamo.reset()  # a function compiled for many shapes is one day run as it is
    return torch.compile(_WORDS[case.kind][1], dynamic=False)


def _compiled(case: GraphCase, inputs: Inputs) -> Call:
    function = _compiled_function(case)
    return lambda: function(*inputs)


def _four_dims(inputs: Inputs) -> Inputs:
    """q, k, v as (batch, heads, length, head_dim), keys' rows contiguous, of one head: what attention calls take."""
    q, k, v = inputs
    return q.unsqueeze(1), k.transpose(1, 2).contiguous().unsqueeze(1), v.unsqueeze(1)


def _gqa_attention(handle: gqa.Handle) -> Callable[[GraphCase, Inputs], Call]:
    def prepare(case: GraphCase, inputs: Inputs) -> Call:
        q, k, v = (tensor.transpose(1, 2) for tensor in _four_dims(inputs))
        return lambda: handle.attention(q, k, v, scale=1.0).squeeze(2)

    return prepare


def _sdpa(case: GraphCase, inputs: Inputs) -> Call:
    q, k, v = _four_dims(inputs)
    return lambda: functional.scaled_dot_product_attention(q, k, v, scale=1.0).squeeze(1)


def _sdpa_on(backend: SDPBackend) -> Callable[[GraphCase, Inputs], Call]:
    def prepare(case: GraphCase, inputs: Inputs) -> Call:
        call = _sdpa(case, inputs)

        def on_backend() -> torch.Tensor:
            with sdpa_kernel(backend):
                return call()

        return on_backend

    return prepare
