"""attention() of mgqa.mgqa_triton: plain attention, head by head.

Owns: its order of arguments, and what is refused. Never: computes. Threads: any; torch.compile traces through here.
"""

from __future__ import annotations

from typing import Any, Dict

import torch

from .. import _modes, _warnings
from .._errors import Status, error_for
from .._kinds import shown, size
from ..nn import _calls

__all__ = ["attention"]

_LAYOUT = "(batch, heads, tokens, head_dim)"


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, sm_scale: float, num_groups: int
) -> torch.Tensor:
    """softmax(q k^T * sm_scale + mask) v of each head.

    q, k, v: (batch, heads, tokens, head_dim), of one shape, dtype and device; any strides. head_dim: what gqa attends
        in, up to 256; others at the cost of a copy.
    causal: a query sees the keys up to its own. sm_scale: above 0; None for 1/sqrt(head_dim).
    num_groups: into how many parts of neighbouring heads the package divides its work. It changes no number, and has to
        divide the heads.

    Returns as q: (batch, heads, tokens, head_dim), turned round in memory, not copied. Where an input wants a gradient,
    the backward pass raises NotImplementedError. Raises GqaValueError, GqaTypeError or GqaError.

    This is what the package's page means. Its code does otherwise: for each group it launches the work of all heads,
    counted from the group's first head on, and writes it at the same places of the output. What stands there in the end
    is the last group's: of heads from where that group begins, and of memory past the tensors' ends. It finds a batch
    by the stride of heads, multiplies in float16 whatever it is given, and its backward pass takes and returns another
    number of things than autograd asks for. Importing it runs an example on a GPU."""
    _judge(q, k, v)
    heads, groups = q.shape[1], size("num_groups", num_groups)
    if heads % groups:
        raise error_for(
            Status.ERROR_HEADS,
            f"num_groups is {groups}, but q has {heads} heads; expected a divisor of {heads}: the number of groups that the "
            "heads are divided into, not the heads of one",
        )
    if not _modes.active(q):
        _warnings.warn_of_layout("q", _LAYOUT, heads=heads, tokens=q.shape[2])
    scores = _calls.Scores(causal, (-1, -1), sm_scale, 0.0, None)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return _calls.dense(q, k, v, scores, _NAMES).transpose(1, 2)


_NAMES: Dict[str, str] = {"q": "q", "scale": "sm_scale"}  # by the library's; q: its layout is judged here


def _judge(q: Any, k: Any, v: Any) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor):
            raise error_for(Status.ERROR_DTYPE, f"{name} is a {type(x).__name__}; expected a torch.Tensor {_LAYOUT}")
        if x.dim() != 4:
            raise error_for(
                Status.ERROR_RANK, f"{name} has {x.dim()} dimensions, {shown(tuple(x.shape))}; expected 4: {_LAYOUT}"
            )
    for name, x in (("k", k), ("v", v)):
        if x.shape != q.shape:
            raise error_for(
                Status.ERROR_SHAPE,
                f"{name} is {shown(tuple(x.shape))} and q {shown(tuple(q.shape))}; expected one shape: gqa.attention takes "
                "fewer key heads and other lengths",
            )
