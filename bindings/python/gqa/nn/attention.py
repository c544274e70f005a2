"""GroupedQueryAttention: the attention layer of Llama, Mistral, Qwen and their like, from hidden states to hidden
states.

Owns: projections, their names, norms and sinks, and which state dicts load. Never: computes attention;
keeps keys between calls. Threads: any number may call one layer; loading is one thread's.
"""

from __future__ import annotations

from typing import Any, ClassVar, Dict, Mapping, Optional, Tuple, Union

import torch

from .._errors import Status, error_for
from .._kinds import CALL, flag, shown, size
from . import _calls
from .cache import KVCache
from .rope import Rope

Window = Union[None, int, Tuple[Optional[int], Optional[int]]]


class GroupedQueryAttention(torch.nn.Module):
    """x -> o_proj(attention(q_proj(x), k_proj(x), v_proj(x))), x (batch, tokens, dim).

    dim: the width of x. heads: query heads. kv_heads: key/value heads, which divide heads; None: as many. Query head h
        attends to key head h // (heads / kv_heads). head_dim: None for dim / heads; head_dim_v: None for head_dim.
    causal: a token sees those up to its own; of a cache, too.
    rope: a gqa.nn.Rope, which layers may share, or None for no rotation. It moves and is cast with the layer.
    qk_norm: queries and keys are RMS-normalised by head, with weights (head_dim,), before they turn. norm_eps: added to
        the mean of squares.
    window: tokens that a query sees, its own among them, as Mistral's sliding_window counts; or (left, right), tokens
        before and after its own, None for all. None: all.
    softcap: a score s becomes softcap * tanh(s / softcap); 0.0 or None: none. scale: of scores, None for
        1/sqrt(head_dim).
    sinks: a learnt number of each head, which joins its softmax's denominator; they begin at 0.
    bias: of q_proj, k_proj and v_proj; out_bias: of o_proj, None for as bias.

    The state dict has q_proj, k_proj, v_proj and o_proj, with qk_norm q_norm and k_norm, with sinks sinks: the names of
    Llama, Mistral, Qwen and GPT-OSS in Transformers. load_state_dict takes those under a prefix, too.

    Parameters are of any dtype that gqa attends in, and x of theirs. Where an input wants a gradient the forward pass
    runs, and out's backward raises NotImplementedError; under torch.compile the call is refused. Raises GqaValueError,
    GqaTypeError or GqaError."""

    PROJECTIONS: ClassVar[Tuple[str, str, str, str]] = ("q_proj", "k_proj", "v_proj", "o_proj")

    def __init__(
        self,
        dim: int,
        heads: int,
        kv_heads: Optional[int] = None,
        head_dim: Optional[int] = None,
        *,
        head_dim_v: Optional[int] = None,
        causal: bool = True,
        rope: Optional[Rope] = None,
        qk_norm: bool = False,
        norm_eps: float = 1e-6,
        window: Window = None,
        softcap: Optional[float] = 0.0,
        scale: Optional[float] = None,
        sinks: bool = False,
        bias: bool = False,
        out_bias: Optional[bool] = None,
        device: Any = None,
        dtype: Optional[torch.dtype] = None,
    ) -> None:
        super().__init__()
        made: Dict[str, Any] = {"device": device, "dtype": dtype}
        self.dim, self.heads = size("dim", dim), size("heads", heads)
        self.kv_heads = self.heads if kv_heads is None else _divisor(self.heads, size("kv_heads", kv_heads))
        self.head_dim = _share(self.dim, self.heads) if head_dim is None else size("head_dim", head_dim)
        self.head_dim_v = self.head_dim if head_dim_v is None else size("head_dim_v", head_dim_v)
        self.causal = CALL["causal"]("causal", causal)
        self.window = _sides(window, self.causal)
        self.softcap = float(CALL["softcap"]("softcap", softcap))
        self.scale = None if scale is None else CALL["scale"]("scale", scale)
        self._make_projections(bias, bias if out_bias is None else out_bias, made)
        self.q_norm: Any = None
        self.k_norm: Any = None
        if flag("qk_norm", qk_norm):
            self.q_norm, self.k_norm = self._norms(norm_eps, made)
        self.sinks = torch.nn.Parameter(torch.zeros(self.heads, **made)) if flag("sinks", sinks) else None
        self.rope = _rope(rope, self.head_dim)
        if self.rope is not None:
            self.rope.to(**made)

    def _make_projections(self, bias: bool, out_bias: bool, made: Dict[str, Any]) -> None:
        widths = (self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads * self.head_dim_v)
        for name, width in zip(self.PROJECTIONS, widths):
            setattr(self, name, self._projection(name, self.dim, width, bias=flag("bias", bias), **made))
        last, inputs = self.PROJECTIONS[3], self.heads * self.head_dim_v
        setattr(self, last, self._projection(last, inputs, self.dim, bias=flag("out_bias", out_bias), **made))

    def _projection(self, name: str, inputs: int, outputs: int, **more: Any) -> torch.nn.Linear:
        """The projection of that name: what a layer with an order of heads of its own replaces."""
        return torch.nn.Linear(inputs, outputs, **more)

    def _norms(self, eps: float, made: Dict[str, Any]) -> Tuple[Any, Any]:
        """The norms of queries and of keys."""
        return torch.nn.RMSNorm(self.head_dim, eps=eps, **made), torch.nn.RMSNorm(self.head_dim, eps=eps, **made)

    def reset_parameters(self) -> None:
        """Fills what the layer itself has, once to_empty() has given it memory; its parts have their own."""
        if self.sinks is not None:
            torch.nn.init.zeros_(self.sinks)

    def new_cache(self, batch: int, tokens: int) -> KVCache:
        """A dense cache for so many sequences of so many tokens, of the layer's dtype and device, with none in it."""
        like = getattr(self, self.PROJECTIONS[1]).weight
        shape = (size("batch", batch), size("tokens", tokens), self.kv_heads)
        k, v = (like.detach().new_empty((*shape, width)) for width in (self.head_dim, self.head_dim_v))
        return KVCache(k, v)

    def forward(self, x: torch.Tensor, *, cache: Optional[KVCache] = None) -> torch.Tensor:
        """x (batch, tokens, dim) -> (batch, tokens, dim), on x's device and current stream.

        cache: None: the tokens are a sequence's first, and see each other. A gqa.nn.KVCache: they stand behind each
            sequence's tokens in it, see those, too, and are written into it; its lengths stay as they are, until
            cache.advance(tokens). Tokens whose number the host knows and that have no room are refused."""
        if x.dim() != 3 or x.shape[2] != self.dim:
            raise error_for(
                Status.ERROR_SHAPE,
                f"x is {shown(tuple(x.shape))}; expected (batch, tokens, {self.dim}), dim being {self.dim}",
            )
        q, k, v = self._projected(x)
        if cache is None and self.rope is None:
            out = _calls.dense(q, k, v, self._scores())
        else:
            if cache is None:  # keys turn as they are appended
                cache = KVCache(torch.empty_like(k), torch.empty_like(v))
            out = _calls.cached(q, k, v, cache, self._turned(), self._scores())
        return getattr(self, self.PROJECTIONS[3])(out.flatten(2))

    def _projected(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """q, k and v, each (batch, tokens, heads, head_dim)."""
        parts = zip(self.PROJECTIONS, (self.heads, self.kv_heads, self.kv_heads))
        q, k, v = (getattr(self, name)(x).unflatten(2, (heads, -1)) for name, heads in parts)
        if self.q_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        return q, k, v

    def _scores(self) -> _calls.Scores:
        return _calls.Scores(self.causal, self.window, self.scale, self.softcap, self.sinks)

    def _turned(self) -> Optional[_calls.Turned]:
        return None if self.rope is None else _calls.Turned(self.rope.cos, self.rope.sin, self.rope.interleaved)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False, *, prefix: str = ""
    ) -> Any:
        """As torch.nn.Module's. prefix: of a whole model's state dict, that of this layer, as
        "model.layers.0.self_attn."; other keys are then passed over."""
        if prefix:
            found = {name[len(prefix) :]: x for name, x in state_dict.items() if name.startswith(prefix)}
            if not found:
                raise error_for(
                    Status.ERROR_OPTION,
                    f"no name of the state dict begins with prefix {shown(prefix)}; expected one as in "
                    f"{shown(next(iter(state_dict), None))}",
                )
            state_dict = found
        return super().load_state_dict(state_dict, strict, assign)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *more: Any) -> None:
        """Without what older checkpoints of Llama hold of the rope, which follows from its base."""
        kept = {name: x for name, x in state_dict.items() if name != f"{prefix}rotary_emb.inv_freq"}
        super()._load_from_state_dict(kept, prefix, *more)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, kv_heads={self.kv_heads}, head_dim={self.head_dim}, causal={self.causal}"


# ---- what is given


def _divisor(heads: int, kv_heads: int) -> int:
    if heads % kv_heads:
        raise error_for(
            Status.ERROR_HEADS,
            f"kv_heads is {kv_heads} and heads {heads}; expected a divisor of heads, or None for as many",
        )
    return kv_heads


def _share(dim: int, heads: int) -> int:
    if dim % heads:
        raise error_for(
            Status.ERROR_HEAD_DIM, f"dim is {dim} and heads {heads}; expected a multiple of heads, or head_dim by name"
        )
    return dim // heads


def _sides(window: Window, causal: bool) -> Tuple[int, int]:
    """(left, right), -1 for all."""
    if isinstance(window, (tuple, list)):
        sides = CALL["window_size"]("window", window)
        return (-1, -1) if sides is None else sides
    if window is None:
        return -1, -1
    seen = size("window", window) - 1
    return seen, 0 if causal else seen


def _rope(rope: Any, head_dim: int) -> Optional[Rope]:
    if rope is None:
        return None
    if not isinstance(rope, Rope):
        expected = f"a gqa.nn.Rope, as Rope({head_dim}, positions=8192), or None"
        raise error_for(Status.ERROR_DTYPE, f"rope is {shown(rope)}; expected {expected}")
    if rope.dims > head_dim:
        raise error_for(
            Status.ERROR_OPTION, f"rope turns {rope.dims} dimensions; expected at most {head_dim}, which is head_dim"
        )
    return rope
