"""flash_attn.bert_padding of FlashAttention 2.8: padded batches of PyTorch's tensors made packed sequences, and back.

Differentiable. unpad_input and unpad_input_for_concatenated_sequences read one number of the device, the longest
sequence's length.

Owns: these functions. Never: attends. Threads: any.
"""

from __future__ import annotations

from typing import Any, Tuple

import torch

__all__ = [
    "index_first_axis",
    "index_put_first_axis",
    "pad_input",
    "unpad_input",
    "unpad_input_for_concatenated_sequences",
]


def index_first_axis(input: Any, indices: Any) -> Any:
    """input (rows, ...): its rows at indices (count) int64."""
    return input.index_select(0, indices)


def index_put_first_axis(values: Any, indices: Any, first_axis_dim: int) -> Any:
    """values (count, ...) as rows indices of (first_axis_dim, ...), the others 0."""
    return values.new_zeros((first_axis_dim, *values.shape[1:])).index_copy(0, indices, values)


def unpad_input(hidden_states: Any, attention_mask: Any, unused_mask: Any = None) -> Tuple[Any, Any, Any, int, Any]:
    """hidden_states (batch, length, ...), attention_mask (batch, length), not 0 for a token. unused_mask: likewise, of
    rows that are kept beside them.

    Returns (rows (total, ...), indices (total) int64 of the rows in (batch * length), cu_seqlens (batch + 1) int32,
    the most rows of a sequence, (batch) int32 how many of them attention_mask names).
    """
    kept = attention_mask.bool() if unused_mask is None else attention_mask.bool() | unused_mask.bool()
    lengths = kept.sum(-1, dtype=torch.int32)
    indices = kept.flatten().nonzero().flatten()
    rows = index_first_axis(hidden_states.flatten(0, 1), indices)
    return rows, indices, _starts(lengths), _most(lengths), attention_mask.bool().sum(-1, dtype=torch.int32)


def unpad_input_for_concatenated_sequences(
    hidden_states: Any, attention_mask_in_length: Any
) -> Tuple[Any, Any, Any, int]:
    """unpad_input of batches whose rows hold several sequences each, one after another from the left:
    attention_mask_in_length (batch, length) has their lengths, then zeros. Returns the first four."""
    used = attention_mask_in_length.sum(-1, keepdim=True)
    at = torch.arange(attention_mask_in_length.shape[-1], device=used.device)
    indices = (at < used).flatten().nonzero().flatten()
    lengths = attention_mask_in_length.flatten()
    lengths = lengths[lengths != 0].to(torch.int32)
    return index_first_axis(hidden_states.flatten(0, 1), indices), indices, _starts(lengths), _most(lengths)


def pad_input(hidden_states: Any, indices: Any, batch: int, seqlen: int) -> Any:
    """hidden_states (total, ...), rows indices of (batch * seqlen). Returns (batch, seqlen, ...), 0 elsewhere."""
    return index_put_first_axis(hidden_states, indices, batch * seqlen).unflatten(0, (batch, seqlen))


def _starts(lengths: Any) -> Any:
    return torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))


def _most(lengths: Any) -> int:
    return int(lengths.max()) if lengths.numel() else 0
