"""What a call of scaled_dot_product_attention is to gqa: (..., heads, tokens, dim) turned round, masks as biases,
causal from the top left.

Owns: that translation, and what keeps gqa from answering a call. Never: computes. Threads: any; what is compiled by
torch.compile is traced through here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Optional, Tuple

import torch

from . import _defaults, _doors, _warnings
from ._call import attend
from ._errors import GqaError, Status, error_for
from ._kinds import HEAD_DIMS, LEAST_FLOAT, MOST_FLOAT
from ._options import of_window

NAMES = {"q": "query", "k": "key", "v": "value", "bias": "attn_mask"}

_SERVED = (torch.float32, torch.float16, torch.bfloat16)
_MASKS = (torch.bool, torch.float32)
_DEVICES = ("cpu", "cuda")
_TYPES = (torch.Tensor, torch.nn.Parameter)
_TRACED = ("FakeTensor", "FunctionalTensor")


class Obstacle(NamedTuple):
    """Why gqa does not answer a call."""

    reason: str  # for reports: one of few
    said: str
    status: Optional[Status]  # None: NotImplementedError

    def error(self) -> Exception:
        return NotImplementedError(self.said) if self.status is None else error_for(self.status, self.said)


class Meant(NamedTuple):
    """A call in gqa's terms."""

    q: Any  # (batch, q_len, q_heads, head_dim)
    k: Any
    v: Any
    bias: Any  # (batch or 1, q_heads or 1, q_len or 1, kv_len)
    causal: bool
    window: Optional[Tuple[int, int]]


def sdpa(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Any:
    """gqa.scaled_dot_product_attention."""
    found = obstacle(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if found is not None:
        raise found.error()
    if query.dim() == 4 and not torch.compiler.is_dynamo_compiling():
        _warnings.warn_of_layout("query", "(batch, heads, tokens, dim)", heads=query.shape[1], tokens=query.shape[2])
    return answer(query, key, value, attn_mask, is_causal, scale)


# ---- what is in the way


def obstacle(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    dropout_p: float,
    is_causal: bool,
    scale: Optional[float],
    enable_gqa: bool,
) -> Optional[Obstacle]:
    """The first there is. Shapes that PyTorch refuses too are one."""
    return (
        _of_tensors(query, key, value, attn_mask)
        or _of_numbers(attn_mask, dropout_p, is_causal, scale)
        or of_derivatives(query, key, value, attn_mask)
        or _of_shapes(query, key, value, enable_gqa)
        or _of_mask(query, key, value, attn_mask)
    )


def obstacle_of_parts(query: Any, key: Any, value: Any, dropout_p: float, scale: Optional[float]) -> Optional[Obstacle]:
    """The obstacle where dimensions are in another order, and tensors are known to fit each other."""
    return (
        _of_tensors(query, key, value, None)
        or _of_numbers(None, dropout_p, False, scale)
        or of_derivatives(query, key, value)
        or _of_head_dims(query.shape[-1], value.shape[-1])
    )


def _of_tensors(query: Any, key: Any, value: Any, attn_mask: Any) -> Optional[Obstacle]:
    if attn_mask is None and _are_usual(query, key, value):
        return _of_device(str(query.device))
    for name, x in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
        kind = type(x)
        if kind in _TYPES or kind.__name__ in _TRACED:
            if x.is_nested or x.layout is not torch.strided:
                said = f"{name} is a nested or sparse tensor; expected a dense one"
                return Obstacle("a nested or sparse tensor", said, Status.ERROR_DTYPE)
        elif x is not attn_mask or not (x is None or _is_causal_bias(x)):
            said = f"{name} is a {kind.__name__}; expected a torch.Tensor" + (" or None" if x is attn_mask else "")
            return Obstacle("a tensor of a class of its own", said, Status.ERROR_DTYPE)
    device = query.device
    if device.type not in _DEVICES:
        said = f"query is on '{device}'; expected 'cpu' or 'cuda'"
        return Obstacle(f"device {device.type}", said, Status.ERROR_NO_DEVICE)
    tensors = (query, key, value) if attn_mask is None or _is_causal_bias(attn_mask) else (query, key, value, attn_mask)
    for name, x in zip(("query", "key", "value", "attn_mask"), tensors):
        if x.device != device:
            said = f"{name} is on '{x.device}' and query on '{device}'; expected one device: {name}.to(query.device)"
            return Obstacle("devices that differ", said, Status.ERROR_DEVICE)
    return _of_dtypes(query, key, value) or _of_device(str(device))


def _are_usual(query: Any, key: Any, value: Any) -> bool:
    """Most calls' tensors, told by few questions, since each call asks them."""
    if not (type(query) in _TYPES and type(key) in _TYPES and type(value) in _TYPES):
        return False
    dtype, device = query.dtype, query.device
    return (
        key.dtype is dtype
        and value.dtype is dtype
        and dtype in _SERVED
        and key.device == device
        and value.device == device
        and device.type in _DEVICES
        and not torch.is_autocast_enabled(device.type)
        and not (query.is_nested or key.is_nested or value.is_nested)
        and query.layout is key.layout is value.layout is torch.strided
    )


def _is_causal_bias(x: Any) -> bool:
    """PyTorch imports its module, and with it a compiler, when somebody asks for one."""
    return type(x).__name__ == "CausalBias" and type(x).__module__ == "torch.nn.attention.bias"


def _of_dtypes(query: Any, key: Any, value: Any) -> Optional[Obstacle]:
    dtype = computed_in(query)
    if dtype not in _SERVED:
        said = f"query is {query.dtype}; expected float32, float16 or bfloat16: query.to(torch.float32)"
        return Obstacle(f"dtype {str(dtype).removeprefix('torch.')}", said, Status.ERROR_DTYPE)
    for name, x in (("key", key), ("value", value)):
        if computed_in(x) is not dtype:
            said = f"{name} is {x.dtype} and query {query.dtype}; expected one dtype: {name}.to(query.dtype)"
            return Obstacle("dtypes that differ", said, Status.ERROR_DTYPE)
    return None


def computed_in(x: Any) -> torch.dtype:
    """Its dtype once autocast has seen the call."""
    device = x.device.type
    if x.dtype is torch.float64 or not x.dtype.is_floating_point or not torch.is_autocast_enabled(device):
        return x.dtype
    return torch.get_autocast_dtype(device)


@_doors.while_compiling
def _served(device: str) -> Optional[GqaError]:
    """Why no handle serves this device, if none does. A compiled call has to know as it is compiled."""
    try:
        _defaults.core_of("host" if device == "cpu" else device)
    except GqaError as error:
        return error
    return None


def _of_device(device: str) -> Optional[Obstacle]:
    error = _served(device)
    return None if error is None else Obstacle(f"device {device} is not served", str(error), error.status)


def _of_numbers(attn_mask: Any, dropout_p: Any, is_causal: Any, scale: Any) -> Optional[Obstacle]:
    if dropout_p != 0.0:
        return Obstacle("dropout", f"dropout_p is {dropout_p}; gqa computes dropout_p=0.0 only: model.eval()", None)
    if is_causal and attn_mask is not None:
        said = "attn_mask is given with is_causal; expected one of them: make the mask causal"
        return Obstacle("attn_mask with is_causal", said, Status.ERROR_OPTION)
    if scale is not None and (not isinstance(scale, (int, float)) or not LEAST_FLOAT <= scale <= MOST_FLOAT):
        shown = scale if isinstance(scale, (int, float)) else f"a {type(scale).__name__}"
        said = f"scale is {shown}; expected a number above 0 that float32 holds, or None for 1/sqrt(head_dim)"
        return Obstacle("a scale that is no number above 0", said, Status.ERROR_OPTION)
    return None


def of_derivatives(*tensors: Any) -> Optional[Obstacle]:
    """What a derivative is wanted of. None among them is none."""
    if torch.is_grad_enabled():
        for x in tensors:
            if x is not None and x.requires_grad:
                said = "an input requires a gradient, and gqa computes none; call under torch.no_grad() or detach()"
                return Obstacle("a gradient is wanted", said, Status.ERROR_OPTION)
    if not torch.compiler.is_dynamo_compiling():
        ad = torch.autograd.forward_ad
        if ad._current_level >= 0 and any(x is not None and ad.unpack_dual(x).tangent is not None for x in tensors):
            said = "an input has a tangent, and gqa has no forward-mode derivative; call on detached tensors"
            return Obstacle("a forward-mode derivative is wanted", said, None)
    return None


def _of_shapes(query: Any, key: Any, value: Any, enable_gqa: bool) -> Optional[Obstacle]:
    q, k, v = query.shape, key.shape, value.shape
    if not 2 <= len(q) == len(k) == len(v):
        given = f"query, key and value have {len(q)}, {len(k)} and {len(v)} dimensions"
        return _unlike(f"{given}; expected as many, 2 or more")
    if 0 in q or 0 in k or 0 in v:
        said = f"query, key and value are {tuple(q)}, {tuple(k)} and {tuple(v)}; expected some elements in each"
        return Obstacle("a tensor without elements", said, Status.ERROR_SIZE)
    if q[-1] != k[-1] or k[-2] != v[-2]:
        given = f"query, key and value end in {tuple(q[-2:])}, {tuple(k[-2:])} and {tuple(v[-2:])}"
        return _unlike(f"{given}; expected (q_len, head_dim), (kv_len, head_dim) and (kv_len, head_dim_v)")
    if found := _of_head_dims(q[-1], v[-1]):
        return found
    if not q[:-3] == k[:-3] == v[:-3] and any(len(set(sizes) - {1}) > 1 for sizes in zip(q[:-3], k[:-3], v[:-3])):
        given = f"query, key and value begin with {tuple(q[:-3])}, {tuple(k[:-3])} and {tuple(v[:-3])}"
        return _unlike(f"{given}; expected the same")
    if len(q) == 2 or q[-3] == k[-3] == v[-3]:
        return None
    return _of_heads(q[-3], k[-3], v[-3], enable_gqa)


def _of_head_dims(head_dim: int, head_dim_v: int) -> Optional[Obstacle]:
    for name, dim in (("head_dim", head_dim), ("head_dim_v", head_dim_v)):
        if dim not in HEAD_DIMS:
            said = f"{name} is {dim}; expected one of {', '.join(map(str, HEAD_DIMS))}"
            return Obstacle(f"{name} {dim}", said, Status.ERROR_HEAD_DIM)
    return None


def _of_heads(q: int, k: int, v: int, enable_gqa: bool) -> Optional[Obstacle]:
    given = f"query, key and value have {q}, {k} and {v} heads"
    if q % k != 0 or q % v != 0:
        return _unlike(f"{given}; expected key's and value's to be divisors of query's")
    if not enable_gqa and (k not in (1, q) or v not in (1, q)):
        return _unlike(f"{given}; expected as many: for grouped queries, enable_gqa=True")
    if k != v and 1 not in (k, v):
        said = f"{given}; expected as many of keys as of values"
        return Obstacle("heads of key and value that differ", said, Status.ERROR_HEADS)
    return None


def _of_mask(query: Any, key: Any, value: Any, mask: Any) -> Optional[Obstacle]:
    if mask is None:
        return None
    q_len, kv_len = query.shape[-2], key.shape[-2]
    if _is_causal_bias(mask):
        given = (mask.seq_len_q, mask.seq_len_kv)
        if given == (q_len, kv_len):
            return None
        return _unlike(f"attn_mask is causal of {given}; expected {(q_len, kv_len)}")
    if mask.dtype not in _MASKS and mask.dtype is not query.dtype and mask.dtype is not computed_in(query):
        said = f"attn_mask is {mask.dtype}; expected torch.bool, query's dtype or torch.float32"
        return Obstacle("dtype of attn_mask", said, Status.ERROR_DTYPE)
    expected = (*_leading(query, key, value), *query.shape[-3:-1], kv_len)
    given = tuple(mask.shape)
    if not 2 <= len(given) <= len(expected) or any(a not in (1, b) for a, b in zip(given[::-1], expected[::-1])):
        return _unlike(f"attn_mask is {given}; expected a shape that broadcasts to {tuple(expected)}")
    return None


def _unlike(said: str) -> Obstacle:
    return Obstacle("shapes that do not fit", said, Status.ERROR_SHAPE)


# ---- what is meant


def answer(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    is_causal: bool,
    scale: Optional[float],
    door: Optional[str] = None,
) -> Any:
    """Answers a call without an obstacle. door: whose it is, if it is one's."""
    leading = _leading(query, key, value)
    meant = _meaning(query, key, value, attn_mask, is_causal, leading)
    arrays = None if meant.bias is None else {"bias": meant.bias}
    numbers = (meant.causal, scale, None, False, of_window(meant.window))
    out = attend(_defaults.core_of, meant.q, meant.k, meant.v, *numbers, arrays=arrays, names=NAMES, door=door)
    return _given_back(out.transpose(1, 2), query, leading)


def _leading(query: Any, key: Any, value: Any) -> Tuple[int, ...]:
    """The dimensions before heads, which broadcast."""
    if query.dim() == 4 and query.shape[0] == key.shape[0] == value.shape[0]:
        return (query.shape[0],)
    return tuple(max(sizes) for sizes in zip(query.shape[:-3], key.shape[:-3], value.shape[:-3]))


def _meaning(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, leading: Tuple[int, ...]) -> Meant:
    q_len, kv_len = query.shape[-2], key.shape[-2]
    apart = _heads_apart(query, key, value)
    q, k, v = _four(query, leading, apart), _four(key, leading, apart), _four(value, leading, apart)
    if k.shape[1] != v.shape[1]:
        heads = max(k.shape[1], v.shape[1])
        k, v = (x.expand(-1, heads, -1, -1) for x in (k, v))
    causal, window, bias = is_causal, None, None
    if mask is not None and _is_causal_bias(mask):
        causal = True
        is_causal = mask.variant == 1 or q_len == kv_len  # CausalVariant.UPPER_LEFT
    elif mask is not None:
        bias = _bias(mask, computed_in(query), kv_len, leading, apart)
    if is_causal and q_len < kv_len:  # the keys after the last query's are hidden from all
        k, v = k[:, :, :q_len], v[:, :, :q_len]
    elif is_causal and q_len > kv_len:
        causal, window = False, (-1, q_len - kv_len)
    return Meant(_rows(q), _rows(k), _rows(v), bias, causal, window)


def _heads_apart(query: Any, key: Any, value: Any) -> bool:
    """The first of three dimensions is the batch's and the heads' product, whose number may be any: a batch, of which a
    winner serves a range."""
    return query.dim() == 3 and query.shape[0] == key.shape[0] == value.shape[0]


def _four(x: Any, leading: Tuple[int, ...], apart: bool) -> Any:
    """As (batch, heads, tokens, dim)."""
    dims = x.dim()
    if dims < 4:
        return x.unsqueeze(1) if apart else x[(None,) * (4 - dims)]
    if tuple(x.shape[:-3]) != leading:
        x = x.expand(*leading, *x.shape[-3:])
    return x if dims == 4 else x.flatten(0, -4)


def _rows(x: Any) -> Any:
    """As (batch, tokens, heads, dim), rows contiguous."""
    return (x if x.stride(-1) == 1 else x.contiguous()).transpose(1, 2)


def _bias(mask: Any, dtype: torch.dtype, kv_len: int, leading: Tuple[int, ...], apart: bool) -> Any:
    """What is added to scores: (batch or 1, q_heads or 1, q_len or 1, kv_len)."""
    for at in range(mask.dim() - 1):  # a mask of one for many is read as one
        if mask.stride(at) == 0 and mask.shape[at] != 1:
            mask = mask.narrow(at, 0, 1)
    if mask.dtype is torch.bool:
        mask = mask.new_full(mask.shape, -math.inf, dtype=dtype).masked_fill_(mask, 0.0)
    if mask.dim() == 3 and apart:
        mask = mask.unsqueeze(1)
    elif mask.dim() < 4:
        mask = mask[(None,) * (4 - mask.dim())]
    elif len(leading) > 1:
        one = all(size == 1 for size in mask.shape[:-3])
        mask = (mask if one else mask.expand(*leading, *mask.shape[-3:])).flatten(0, -4)
    mask = mask.expand(-1, -1, -1, kv_len)
    return mask if mask.stride(-1) == 1 else mask.contiguous()


def _given_back(out: Any, query: Any, leading: Tuple[int, ...]) -> Any:
    """(batch, heads, tokens, dim) with query's dimensions."""
    if query.dim() == 2:
        return out[0, 0]
    if query.dim() == 3:
        return out[:, 0] if out.shape[1] == 1 else out[0]
    return out if query.dim() == 4 else out.unflatten(0, leading)
