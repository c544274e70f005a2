"""How exact each library's attention is: the error of its answer beside float64's, as a ratio to FlashAttention-2's.

Owns: the cases, float64's answer, FlashAttention-2 in PyTorch's words (its kernels' stand-in on a CPU), the ratios.
Never: times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Tuple

import torch

from .peers import Inputs, make_inputs
from .shapes import Shape

SEEDS = 5
_DEVIATIONS = (1, 2, 4, 8)  # of q's elements; those of k and v deviate by 1
_HEAD_DIMS = (64, 128, 256)

Errors = Tuple[float, float]  # the norm, and the largest of an element


@dataclass(frozen=True)
class Case:
    shape: Shape
    deviation: int

    def __str__(self) -> str:
        return f"{self.shape},deviation={self.deviation}"


def cases(device: str, dtypes: List[str]) -> List[Case]:
    """Equal lengths, every key seen and causal; a CPU gets fewer tokens."""
    tokens, heads = (256, 2) if device == "cpu" else (2048, 4)
    return [
        Case(Shape(1, heads, heads, tokens, tokens, head_dim, head_dim, dtype, causal), deviation)
        for dtype in dtypes
        for head_dim in _HEAD_DIMS
        for causal in (False, True)
        for deviation in _DEVIATIONS
    ]


def inputs_of(case: Case, device: str, seed: int) -> Inputs:
    q, k, v = make_inputs(case.shape, device, seed)
    return q * case.deviation, k, v  # by a power of two: exact


def float64(shape: Shape, inputs: Inputs) -> torch.Tensor:
    q, k, v = (tensor.double().transpose(1, 2) for tensor in inputs)
    return (_masked(shape, q @ k.transpose(2, 3) * shape.head_dim**-0.5).softmax(-1) @ v).transpose(1, 2)


def flash_attention_2(shape: Shape, inputs: Inputs) -> torch.Tensor:
    """Blocks of keys from the last down under a running maximum, in float32; weights rounded to the element for the
    second product, the sum of unrounded ones. Dao, "FlashAttention-2", 2023, and the blocks of its kernels."""
    q, k, v = (tensor.float().transpose(1, 2) for tensor in inputs)
    element = inputs[0].dtype
    scores = _masked(shape, q @ k.transpose(2, 3) * shape.head_dim**-0.5)
    maximum = torch.full_like(scores[..., :1], -1e30)
    out, total = torch.zeros_like(q[..., :1] * v[..., :1, :]), torch.zeros_like(maximum)
    block = 128 if shape.head_dim <= 64 else 64
    for first in reversed(range(0, shape.kv_len, block)):
        part = scores[..., first : first + block]
        before, maximum = maximum, torch.maximum(maximum, part.amax(-1, keepdim=True))
        weights, rescale = (part - maximum).exp(), (before - maximum).exp()
        out = out * rescale + weights.to(element).float() @ v[:, :, first : first + block]
        total = total * rescale + weights.sum(-1, keepdim=True)
    return (out / total).to(element).transpose(1, 2)


def _masked(shape: Shape, scores: torch.Tensor) -> torch.Tensor:
    hidden = torch.ones(shape.q_len, shape.kv_len, dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(hidden, float("-inf")) if shape.causal else scores


def errors(out: torch.Tensor, expected: torch.Tensor) -> Errors:
    error = (out.double() - expected).abs()
    return float(error.square().sum().sqrt()), float(error.max())


def measure(
    case: Case, device: str, contestants: List[Tuple[str, Callable[..., Any]]]
) -> Tuple[Dict[str, Errors], Dict[str, str]]:
    """Each library's median ratios to FlashAttention-2, PyTorch's where it is a contestant; why others have none."""
    found: Dict[str, List[Errors]] = {}
    failures: Dict[str, str] = {}
    for seed in range(SEEDS):
        inputs = inputs_of(case, device, seed)
        expected = float64(case.shape, inputs)
        mine = {}
        for name, prepare in contestants:
            try:
                mine[name] = errors(prepare(case.shape, inputs)(), expected)
            except Exception as error:  # whatever a library raises: it is named and left out
                failures[name] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        to = mine.get("fa2") or errors(flash_attention_2(case.shape, inputs), expected)
        for name, (norm, largest) in mine.items():
            found.setdefault(name, []).append((norm / to[0], largest / to[1]))
    return {name: _medians(each) for name, each in found.items() if name not in failures}, failures


def _medians(each: List[Errors]) -> Errors:
    norms, largest = zip(*each)
    return sorted(norms)[len(each) // 2], sorted(largest)[len(each) // 2]


def table(results: List[Tuple[Case, Dict[str, Errors]]]) -> str:
    """A line a case: of each library the norm's ratio and the largest element's."""
    names = list(dict.fromkeys(name for _, found in results for name in found))
    wide = max(len(str(case)) for case, _ in results)
    lines = [f"{'norm, largest / those of fa2':{wide}}" + "".join(f"  {name:>13}" for name in names)]
    for case, found in results:
        cells = (f"{found[name][0]:6.3f} {found[name][1]:6.3f}" if name in found else "-" for name in names)
        lines.append(f"{str(case):{wide}}" + "".join(f"  {cell:>13}" for cell in cells))
    return "\n".join(lines)
