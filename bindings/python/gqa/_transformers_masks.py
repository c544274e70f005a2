"""What goes from Transformers' mask function, called once a forward for each kind of layer, to its attention function,
called once a layer: a tensor of four dimensions, which Transformers hands on as it is, also into compiled functions.

    None                            all keys, the last query at the last key; causal or not as the layer is
    int32 (batch, 1, s, n)          n 0: the same; 1: keys that each sequence has; 2: those, and its first slot
    int32 (1, 1, s, n), n 3 or more where packed sequences begin
    any other                       added to scores, or bool, True for what takes part

s is 2 for layers with a sliding window that hides something, whose width the attention function knows, else 1.

Owns: this code, and what Transformers' masks are in it. Never: attends. Threads: any.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from transformers import masking_utils

from ._errors import Status, error_for

_MOST = "_gqa_longest"  # of a tensor of beginnings: the longest sequence, known on the host


# ---- the mask function


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Callable[..., Any] = masking_utils.causal_mask_function,
    attention_mask: Optional[torch.Tensor] = None,
    local_size: Optional[int] = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    dtype: torch.dtype = torch.float32,
    config: Any = None,
    use_vmap: bool = False,
    device: Any = "cpu",
    **others: Any,
) -> Optional[torch.Tensor]:
    """Transformers' mask function of "gqa". q_offset: a number, or of static caches a tensor of one, which is not read.
    attention_mask: (batch, tokens) bool, True for tokens; read once."""
    sequences = None if use_vmap else _packed(mask_function)
    if sequences is not None and not _recorded(sequences):
        slides = _slides(_within_packed(mask_function), local_size, q_length)
        return None if slides is None else _beginnings(sequences, slides)
    slides = None if use_vmap else _slides_of(mask_function, local_size, kv_length, allow_is_causal_skip, config)
    if slides is not None:
        used = q_offset + q_length - kv_offset
        if attention_mask is None:
            return _of_lengths(used, kv_length, batch_size, slides, device)
        if not _recorded(attention_mask):
            padding = _padding(attention_mask, used, kv_length, kv_offset, q_offset)
            if padding is not None:
                return _of_lengths(used, kv_length, batch_size, slides, device, padding.first)
    allowed = masking_utils.sdpa_mask(
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=mask_function,
        attention_mask=attention_mask,
        local_size=local_size,
        allow_is_causal_skip=False,  # what is skipped there is aligned with the first key
        allow_is_bidirectional_skip=allow_is_bidirectional_skip,
        use_vmap=use_vmap,
        device=device,
    )
    # Where gradients may be wanted, PyTorch's kernel takes a bool mask best; else one bias serves all layers.
    return allowed if allowed is None or torch.is_grad_enabled() else bias_of(allowed, dtype)


def bias_of(allowed: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(~allowed, -math.inf)


def _recorded(tensor: torch.Tensor) -> bool:
    """Whether no number of it can be read now."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or isinstance(tensor, torch._subclasses.FakeTensor):
        return True
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _of_lengths(
    used: Any, kv_length: int, batch: int, slides: bool, device: Any, first: Optional[torch.Tensor] = None
) -> Optional[torch.Tensor]:
    """used: keys in use, the same of all sequences, a number or a tensor. first: (batch) int32."""
    rows = 2 if slides else 1
    if first is None and not isinstance(used, torch.Tensor) and used == kv_length:
        return torch.empty((batch, 1, 2, 0), dtype=torch.int32, device=device) if slides else None
    if isinstance(used, torch.Tensor):
        lengths = used.to(device=device, dtype=torch.int32).clamp(max=kv_length).reshape(1).expand(batch)
    else:
        lengths = torch.full((batch,), min(used, kv_length), dtype=torch.int32, device=device)
    columns = [lengths] if first is None else [lengths, first]
    return torch.stack(columns, -1)[:, None, None].expand(batch, 1, rows, len(columns)).contiguous()


# ---- which masks are plain: causal, with or without a window


def _slides_of(
    function: Any, local_size: Optional[int], kv_length: int, allow_is_causal_skip: bool, config: Any
) -> Optional[bool]:
    """Whether the mask, before padding, has a window that hides something; None where it is not plain."""
    if local_size is None:
        return False if function is masking_utils.causal_mask_function else None
    if not torch.compiler.is_compiling():
        return _slides(function, local_size, kv_length)
    # A compiler looks into no closure. What allows PyTorch's own flag is not overlaid; chunks have another size.
    plain = allow_is_causal_skip and local_size == getattr(config, "sliding_window", None)
    return kv_length > local_size if plain and local_size != getattr(config, "attention_chunk_size", None) else None


def _slides(function: Any, local_size: Optional[int], kv_length: int) -> Optional[bool]:
    if local_size is None:
        return False if function is masking_utils.causal_mask_function else None
    both = _closure(function, "and_masks").get("mask_functions", ())
    if len(both) != 2 or both[1] is not masking_utils.causal_mask_function:
        return None
    return (
        kv_length > local_size
        if _closure(both[0], "sliding_window_overlay").get("sliding_window") == local_size
        else None
    )


def _closure(function: Any, maker: str) -> Dict[str, Any]:
    """What Transformers' function of that name gave the function that it made; nothing where another made it."""
    if getattr(function, "__qualname__", "").partition(".")[0] != maker:
        return {}
    names = function.__code__.co_freevars
    return {name: cell.cell_contents for name, cell in zip(names, function.__closure__ or ())}


# ---- packed sequences


def _packed(function: Any) -> Optional[torch.Tensor]:
    """(batch, tokens): a number for each of a row's sequences, ascending; None where the mask is not that."""
    if torch.compiler.is_compiling():
        return None
    both = _closure(function, "and_masks").get("mask_functions", ())
    if len(both) != 2 or not _closure(both[0], "remap_positions_for_packed_sequence"):
        return None
    return _closure(both[1], "packed_sequence_mask_function").get("packed_sequence_mask")


def _within_packed(function: Any) -> Any:
    both = _closure(function, "and_masks")["mask_functions"]
    return _closure(both[0], "remap_positions_for_packed_sequence")["mask_function"]


def _beginnings(sequences: torch.Tensor, slides: bool) -> torch.Tensor:
    """Read once: where sequences begin, of all rows one after another."""
    rows: List[List[int]] = sequences.tolist()
    flat = [(row, number) for row, numbers in enumerate(rows) for number in numbers]
    starts = [at for at in range(len(flat)) if at == 0 or flat[at] != flat[at - 1]] + [len(flat)]
    while len(starts) < 3:  # two numbers would be lengths: an empty sequence more changes nothing
        starts.append(len(flat))
    encoded = torch.tensor(starts, dtype=torch.int32, device=sequences.device)
    encoded = encoded.expand(1, 1, 2 if slides else 1, len(starts)).contiguous()
    setattr(encoded, _MOST, max(b - a for a, b in zip(starts, starts[1:])))
    return encoded


# ---- padding


class _Padding(NamedTuple):
    first: Optional[torch.Tensor]  # (batch) int32, the first slot of each sequence; None: 0


def _padding(
    attention_mask: torch.Tensor, used: Any, kv_length: int, kv_offset: Any, q_offset: Any
) -> Optional[_Padding]:
    """Read once. None where neither beginnings nor causality alone say it."""
    padded: Any = masking_utils.prepare_padding_mask(attention_mask, kv_length, kv_offset)
    present = padded[:, kv_offset : kv_offset + kv_length]
    in_use = torch.arange(kv_length, device=present.device) < used
    count = (present & in_use).sum(-1)
    first = torch.where(count > 0, present.int().argmax(-1), used)
    ascends = (present[:, 1:] & ~present[:, :-1] & in_use[1:]).any()  # a token after padding
    begins = torch.as_tensor(q_offset == 0, device=present.device)
    tests = ((count == used).all(), (count == used - first).all(), ~ascends & begins)
    whole, on_the_left, on_the_right = torch.stack(tests).tolist()
    if whole or on_the_right:  # rows of tokens see tokens alone, by causality
        return _Padding(None)
    return _Padding(first.to(torch.int32)) if on_the_left else None


# ---- reading it


class Decoded(NamedTuple):
    """What a mask says to the attention function."""

    slides: bool
    lengths: Optional[torch.Tensor] = None  # (batch) int32
    first: Optional[torch.Tensor] = None  # (batch) int32
    starts: Optional[torch.Tensor] = None  # (sequences + 1) int32
    most: int = 0
    scores: Optional[torch.Tensor] = None  # (batch or 1, heads or 1, q_len or 1, kv_len) bool or float


def decoded(attention_mask: Optional[torch.Tensor], tokens: int, kv_len: int) -> Decoded:
    """tokens: of all sequences, the most that one can have."""
    if attention_mask is None:
        return Decoded(False)
    if attention_mask.dim() != 4:
        raise error_for(
            Status.ERROR_SHAPE,
            f"attention_mask is {tuple(attention_mask.shape)} in a layer; expected what gqa's mask function gives, or "
            "(batch, heads or 1, q_len, kv_len): this model makes its own masks, which gqa does not take",
        )
    if attention_mask.dtype is not torch.int32:
        return Decoded(False, scores=attention_mask[..., :kv_len])
    slides, columns = attention_mask.shape[2] == 2, attention_mask[:, 0, 0]
    size = attention_mask.shape[3]
    if size >= 3:
        return Decoded(slides, starts=columns[0], most=getattr(attention_mask, _MOST, tokens))
    lengths = columns[:, 0].contiguous() if size else None
    return Decoded(slides, lengths, columns[:, 1].contiguous() if size == 2 else None)


def allowed(
    code: Decoded, q_shape: Tuple[int, ...], kv_len: int, causal: bool, window: Optional[int], device: Any
) -> Optional[torch.Tensor]:
    """The same as a bool mask (batch or 1, 1, q_len, kv_len), for whoever else answers; None: all keys."""
    batch, q_len = q_shape[0], q_shape[2]
    keys = torch.arange(kv_len, device=device)
    if code.starts is not None:
        number = torch.bucketize(torch.arange(batch * q_len, device=device), code.starts[1:], right=True).view(
            batch, 1, q_len
        )
        seen = number[..., None] == number[:, :, None]
        at = torch.arange(q_len, device=device)[:, None]
    else:
        lengths = torch.full((1,), kv_len, device=device) if code.lengths is None else code.lengths
        at = (lengths[:, None] - q_len + torch.arange(q_len, device=device))[:, None, :, None]
        seen = keys < lengths[:, None, None, None]
        if code.first is not None:
            seen = seen & (keys >= code.first[:, None, None, None])
    if causal:
        seen = seen & (keys <= at)
        if window is not None:
            seen = seen & (keys > at - window)
    elif code.starts is None and code.lengths is None:
        return None
    return seen.expand(-1, -1, q_len, -1)
