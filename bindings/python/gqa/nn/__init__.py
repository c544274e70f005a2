"""Layers of PyTorch's that attend by gqa, as models have them.

    layer = gqa.nn.GroupedQueryAttention(4096, heads=32, kv_heads=8, rope=gqa.nn.Rope(128, 8192, base=500000.0))
    layer.load_state_dict(checkpoint, prefix="model.layers.0.self_attn.")
    out = layer(x)                                   # (batch, tokens, 4096)
    cache = layer.new_cache(batch=1, tokens=2048)
    out = layer(x, cache=cache); cache.advance(x.shape[1])

This module imports PyTorch; `import gqa` does not import it.

Owns: which names there are. Never: computes. Threads: any.
"""

from __future__ import annotations

from .attention import GroupedQueryAttention
from .cache import KVCache
from .rope import Rope

__all__ = ["GroupedQueryAttention", "KVCache", "Rope"]
