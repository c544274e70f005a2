"""MGQATransformer and Decoder: the package's language model, from token ids to logits.

    model = MGQATransformer(num_tokens=20000, max_seq_len=1024, attn_layers=Decoder(dim=512, depth=12, heads=8,
                                                                                    attn_kv_heads=2))
    logits = model(tokens)                                     # (1, 1024) -> (1, 1024, 20000)

Owns: the model's parts, their names, and what ids and lengths are refused. Never: computes attention; generates.
Threads: any number may call one model, each on a cache of its own.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from .. import _modes
from .._errors import Status, error_for
from .._kinds import flag, shown, size
from . import _taken
from ._embedding import AbsolutePositionalEmbedding, TokenEmbedding
from .intermediates import LayerIntermediates
from .layers import MGQALayers

__all__ = ["Decoder", "LayerIntermediates", "MGQALayers", "MGQATransformer"]

_IDS = (torch.int64, torch.int32)


class Decoder(MGQALayers):
    """MGQALayers(dim, depth, heads=8, ...) that are causal: a token sees those up to its own."""

    def __init__(self, **kwargs: Any) -> None:
        if "causal" in kwargs:
            raise error_for(
                Status.ERROR_OPTION,
                f"causal is {shown(kwargs['causal'])}; expected none: a Decoder is causal, and MGQALayers(causal=False) is not",
            )
        super().__init__(causal=True, **kwargs)


class MGQATransformer(torch.nn.Module):
    """Token and place embeddings, attn_layers, and a projection to logits.

    num_tokens: ids are 0 to num_tokens - 1. max_seq_len: tokens a sequence at most. attn_layers: a Decoder or
        MGQALayers.
    emb_dim: None, or attn_layers' dim. logits_dim: None for num_tokens. All else is refused but at its default, by name
    (NotImplementedError).

    The state dict has the package's names, shapes and orders. The model attends in its parameters' dtype: float32, or
    after model.bfloat16() or model.half() that. There is no backward pass: gradients raise NotImplementedError as they
    are asked for."""

    def __init__(
        self,
        *,
        num_tokens: int,
        max_seq_len: int,
        attn_layers: MGQALayers,
        emb_dim: Optional[int] = None,
        max_mem_len: int = 0,
        shift_mem_down: int = 0,
        emb_dropout: float = 0.0,
        post_emb_norm: bool = False,
        num_memory_tokens: Optional[int] = None,
        tie_embedding: bool = False,
        logits_dim: Optional[int] = None,
        use_abs_pos_emb: bool = True,
        scaled_sinu_pos_emb: bool = False,
        l2norm_embed: bool = False,
        emb_frac_gradient: float = 1.0,
        attn_z_loss_weight: float = 1e-4,
    ) -> None:
        super().__init__()
        others = {
            "max_mem_len": max_mem_len,
            "shift_mem_down": shift_mem_down,
            "emb_dropout": emb_dropout,
            "post_emb_norm": post_emb_norm,
            "num_memory_tokens": num_memory_tokens,
            "tie_embedding": tie_embedding,
            "use_abs_pos_emb": use_abs_pos_emb,
            "scaled_sinu_pos_emb": scaled_sinu_pos_emb,
            "l2norm_embed": l2norm_embed,
            "emb_frac_gradient": emb_frac_gradient,
            "attn_z_loss_weight": attn_z_loss_weight,
        }
        _taken.only("MGQATransformer", _taken.TRANSFORMER, others)
        if not isinstance(attn_layers, MGQALayers):
            raise error_for(
                Status.ERROR_DTYPE, f"attn_layers is {shown(attn_layers)}; expected a Decoder or MGQALayers of gqa.mgqa"
            )
        dim = attn_layers.dim
        if emb_dim is not None and emb_dim != dim:
            raise NotImplementedError(
                f"MGQATransformer was given emb_dim={shown(emb_dim)}; gqa computes emb_dim=None or {dim}, attn_layers' dim"
            )
        self.num_tokens, self.max_seq_len = size("num_tokens", num_tokens), size("max_seq_len", max_seq_len)
        self.token_emb = TokenEmbedding(dim, self.num_tokens)
        self.pos_emb = AbsolutePositionalEmbedding(dim, self.max_seq_len)
        self.attn_layers = attn_layers
        self.to_logits = torch.nn.Linear(dim, self.num_tokens if logits_dim is None else size("logits_dim", logits_dim))

    def forward(
        self,
        x: torch.Tensor,
        return_embeddings: bool = False,
        return_logits_and_embeddings: bool = False,
        return_intermediates: bool = False,
        mask: Any = None,
        return_mems: bool = False,
        return_attn: bool = False,
        mems: Any = None,
        pos: Any = None,
        prepend_embeds: Any = None,
        sum_embeds: Any = None,
        return_attn_z_loss: bool = False,
        attn_z_loss_weight: float = 1e-4,
        seq_start_pos: Any = None,
        cache: Optional[LayerIntermediates] = None,
        **kwargs: Any,
    ) -> Any:
        """x (batch, tokens) int64 or int32 -> logits (batch, tokens, logits_dim), of the parameters' dtype and device.

        return_embeddings: what logits are made of, (batch, tokens, dim), instead; return_logits_and_embeddings: both.
        return_intermediates: (that, intermediates), which the next call takes as cache: x then has all tokens so far,
        the result the new ones', any number of them. cache_age: 1, or that number. A cache is written on
        (LayerIntermediates).

        An id that is not below num_tokens is refused, for which the host waits for x; under a compiler or tracer, and
        while a stream is captured, it is not looked for."""
        others = {
            "mask": mask,
            "return_mems": return_mems,
            "return_attn": return_attn,
            "mems": mems,
            "pos": pos,
            "prepend_embeds": prepend_embeds,
            "sum_embeds": sum_embeds,
            "return_attn_z_loss": return_attn_z_loss,
            "attn_z_loss_weight": attn_z_loss_weight,
            "seq_start_pos": seq_start_pos,
        }
        _taken.only("MGQATransformer.forward", _taken.TRANSFORMER_CALL, others)
        cache_age = kwargs.pop("cache_age", 1)
        self.attn_layers.refuse_others(kwargs)
        self._judge_shape(x)
        if cache is None and flag("return_intermediates", return_intermediates):
            cache = self.attn_layers.new_cache(x.shape[0], self.max_seq_len)
        seen = 0 if cache is None else self.attn_layers.seen(cache, x.shape[1], cache_age)
        new = x[:, seen:]
        self._judge_ids(new)
        hidden = self.attn_layers.run(self.token_emb(new) + self.pos_emb(seen, x.shape[1]), cache)
        if flag("return_logits_and_embeddings", return_logits_and_embeddings):
            out: Any = (self.to_logits(hidden), hidden)
        else:
            out = hidden if flag("return_embeddings", return_embeddings) else self.to_logits(hidden)
        return (out, cache) if return_intermediates else out

    def _judge_shape(self, x: torch.Tensor) -> None:
        if x.dim() != 2 or 0 in x.shape:
            raise error_for(
                Status.ERROR_SHAPE, f"x is {shown(tuple(x.shape))}; expected (batch, tokens), with a token at least"
            )
        if x.dtype not in _IDS:
            raise error_for(Status.ERROR_DTYPE, f"x is {x.dtype}; expected token ids, int64 or int32")
        if x.shape[1] > self.max_seq_len:
            raise error_for(
                Status.ERROR_SIZE,
                f"x has {x.shape[1]} tokens; expected 1 to {self.max_seq_len}, which is max_seq_len: there are no embeddings of "
                "later places",
            )

    def _judge_ids(self, x: torch.Tensor) -> None:
        """A device would read past the table, and could not say whose id it was."""
        if torch.compiler.is_compiling() or _modes.active(x) and _modes.recorded(x):
            return
        if x.is_cuda and torch.cuda.is_current_stream_capturing():
            return
        least, most = torch.stack(x.aminmax()).tolist()
        if least < 0 or most >= self.num_tokens:
            raise error_for(
                Status.ERROR_OPTION,
                f"x has the token id {least if least < 0 else most}; expected 0 to {self.num_tokens - 1}, num_tokens being "
                f"{self.num_tokens}",
            )
