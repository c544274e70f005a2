"""MGQA's names, with the arguments of the package mgqa 0.0.5: a program changes its import only.

    from gqa.mgqa.transformer import MGQATransformer, Decoder
    from gqa.mgqa import attention

or, with gqa.install_as("mgqa"), nothing. docs/integrations.md says what is taken and what is refused. Query head h
attends to key head h % kv_heads here, as there: weights of the package give its outputs. This module imports PyTorch.

Owns: which names there are. Never: computes. Threads: any.
"""

from __future__ import annotations

from .layers import MGQA, MGQALayers
from .mgqa_triton import attention
from .transformer import Decoder, MGQATransformer

__version__ = "0.0.5+gqa"

__all__ = ["MGQA", "Decoder", "MGQALayers", "MGQATransformer", "attention"]
