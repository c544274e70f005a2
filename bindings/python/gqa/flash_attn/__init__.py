"""FlashAttention-2's functions, with the arguments, defaults and results of flash_attn 2.8: a program changes its
import only.

    from gqa.flash_attn import flash_attn_func

or, with gqa.install_as("flash_attn"), nothing. docs/integrations.md says what is taken and what is refused.

Owns: which names there are. Never: computes. Threads: any.
"""

from __future__ import annotations

from .flash_attn_interface import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)

__version__ = "2.8.3+gqa"

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]
