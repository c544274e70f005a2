"""The package's embeddings: of tokens, and of the places at which they stand.

Owns: the names in the state dict, and the scale of places. Never: reads an id: who calls has judged them. Threads: as
torch.nn.Embedding.
"""

from __future__ import annotations

import torch


class TokenEmbedding(torch.nn.Module):
    def __init__(self, dim: int, num_tokens: int) -> None:
        super().__init__()
        self.emb = torch.nn.Embedding(num_tokens, dim)
        torch.nn.init.kaiming_normal_(self.emb.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens) -> (batch, tokens, dim)."""
        return self.emb(x)


class AbsolutePositionalEmbedding(torch.nn.Module):
    """A learnt vector of each place, times 1/sqrt(dim)."""

    def __init__(self, dim: int, max_seq_len: int) -> None:
        super().__init__()
        self.emb, self.scale = torch.nn.Embedding(max_seq_len, dim), dim**-0.5

    def forward(self, first: int, end: int) -> torch.Tensor:
        """(end - first, dim), of the places from first to before end."""
        return self.emb.weight[first:end] * self.scale
