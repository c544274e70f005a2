"""flash_attn_with_kvcache: FlashAttention-3's name and argument names for attention on a key/value cache.

Owns: which of its arguments mean something here, the refusal of the others, lengths given as one number, and what a
call appends. Never: computes, or reads a tensor's numbers. Threads: any.
"""

from __future__ import annotations

import array
from numbers import Integral
from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

from . import _defaults
from ._arguments import APPEND, KVCACHE
from ._call import attend, exported
from ._errors import Status, error_for
from ._frameworks import KINDS, Kind
from ._handle import Handle
from ._kinds import CALL, MOST_INT32, shown

_NAME = "flash_attn_with_kvcache"
_NAMES = {  # its arguments by the library's names
    "k": "k_cache",
    "v": "v_cache",
    "k_new": "k",
    "v_new": "v",
    "scale": "softmax_scale",
    "return_lse": "return_softmax_lse",
}


class Cache(NamedTuple):
    """What a call says of its keys beyond the tensors of them."""

    seqlens: Any  # None, one number, or a tensor
    page_table: Any  # None or a tensor
    window: Optional[Tuple[int, int]]
    # Of packed queries, and of packed keys; a maximum is 0 where there are none.
    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None
    seqused_q: Any = None
    max_seqlen_q: int = 0
    max_seqlen_k: int = 0
    append: "Optional[Append]" = None

    def exported(self, q: Any, k_shape: Tuple[int, ...], kind: Kind, stream: int) -> Tuple[Any, ...]:
        """What _gqa.Handle.run takes."""
        seqlens = self.seqlens
        if type(seqlens) not in KINDS and isinstance(seqlens, Integral):
            batch = q.shape[0] if self.cu_seqlens_q is None else self.cu_seqlens_q.shape[0] - 1
            length = self._checked_length(CALL["cache_seqlens"]("cache_seqlens", seqlens), q.shape, k_shape)
            seqlens = kind.int32s(q, batch, length)
        return (
            None if seqlens is None else _exported_list(seqlens, kind, stream, "cache_seqlens"),
            None if self.page_table is None else exported(self.page_table, kind, stream, "page_table"),
            self.window,
            None if self.cu_seqlens_q is None else exported(self.cu_seqlens_q, kind, stream, "cu_seqlens_q"),
            None if self.cu_seqlens_k is None else exported(self.cu_seqlens_k, kind, stream, "cu_seqlens_k"),
            None if self.seqused_q is None else exported(self.seqused_q, kind, stream, "seqused_q"),
            self.max_seqlen_q,
            self.max_seqlen_k,
            None if self.append is None else self.append.exported(kind, stream),
        )

    def _checked_length(self, length: int, q_shape: Sequence[int], k_shape: Sequence[int]) -> int:
        """The library would find room for it too; but one number is there to be seen."""
        pages = (1,) if self.page_table is None else getattr(self.page_table, "shape", ())
        if len(k_shape) != 4 or not pages:
            return 0  # the library says what is wrong with them
        most = k_shape[1] * pages[-1]
        if 0 <= length <= most:
            if self.append is not None:
                self.append.check_rotation(length, most - length, q_shape)
            return length
        raise error_for(
            Status.ERROR_OPTION,
            f"cache_seqlens is {length}; expected 0 to {most}, the keys that the cache has room for",
        )


class Append(NamedTuple):
    """What a call does to its cache before it attends, by the names of flash_attn_with_kvcache."""

    k_new: Any
    v_new: Any
    cu_seqlens_k_new: Any
    rotary_cos: Any
    rotary_sin: Any
    rotary_seqlens: Any
    rotary_interleaved: bool
    cache_batch_idx: Any
    cache_leftpad: Any
    advances: bool  # a query is rotated by its own position, not by its sequence's first

    def check_rotation(self, length: int, room: int, q_shape: Sequence[int]) -> None:
        """Of sequences that all have `length` keys, which is a number on the host: cos has a row for each position.
        room: new keys that are written."""
        rows, new = (tuple(getattr(x, "shape", ())) for x in (self.rotary_cos, self.k_new))
        if len(rows) != 2 or len(new) < 3 or self.rotary_seqlens is not None:
            return  # there is none, or the library says what is wrong
        queries = q_shape[1] if len(q_shape) == 4 else min(q_shape[0], 1)  # packed ones are counted on the device
        positions = max(min(new[1], room) if len(new) == 4 else 0, queries if self.advances else min(queries, 1))
        if length + positions > rows[0]:
            raise error_for(
                Status.ERROR_OPTION,
                f"cache_seqlens is {length}, and tokens are rotated by position {length} to {length + positions - 1}; "
                f"expected 0 to {rows[0] - 1}: rotary_cos has {rows[0]} positions",
            )

    def exported(self, kind: Kind, stream: int) -> Tuple[Any, ...]:
        return tuple(
            value if value is None or isinstance(value, bool) else exported(value, kind, stream, name)
            for name, value in zip(self._fields[:-1], self)
        )


def _exported_list(tensor: Any, kind: Kind, stream: int, name: str) -> Any:
    return tensor if isinstance(tensor, array.array) else exported(tensor, kind, stream, name)


def flash_attn_with_kvcache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    k: Any = None,
    v: Any = None,
    qv: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    cache_seqlens: Union[None, int, Any] = None,
    cache_batch_idx: Any = None,
    cache_leftpad: Any = None,
    page_table: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k_new: Any = None,
    max_seqlen_q: Optional[int] = None,
    rotary_seqlens: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Optional[Tuple[Optional[int], Optional[int]]] = (-1, -1),
    attention_chunk: int = 0,
    softcap: Optional[float] = 0.0,
    rotary_interleaved: bool = True,
    scheduler_metadata: Any = None,
    num_splits: int = 0,
    pack_gqa: Optional[bool] = None,
    sm_margin: int = 0,
    return_softmax_lse: bool = False,
    *,
    handle: Optional[Handle] = None,
    sink: Any = None,
    out: Any = None,
) -> Any:
    """flash_attn_interface.flash_attn_with_kvcache: queries of each sequence on its cached keys, in a decode step, a
    chunk of a prefill, or a prefill.

    q: (batch, q_len, q_heads, head_dim), float16 or bfloat16; any number of queries.
    k_cache, v_cache: (batch, kv_len, kv_heads, head_dim or head_dim_v), of q's dtype; or with page_table
        (pages, page, kv_heads, ...), for any page size from 1.
    cache_seqlens: keys that each sequence has: (batch) int32 on q's device, or one number for all; None: kv_len.
        Numbers below 0 count as 0, those above kv_len as kv_len.
    page_table: (batch, pages a sequence) int32 on q's device: key j of sequence b is
        k_cache[page_table[b, j // page], j % page]. Sequences may share pages; kv_len is page times its columns.
    cu_seqlens_q, max_seqlen_q: q is packed, (total_q, q_heads, head_dim), and out with it: sequence b has rows
        cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1, at most max_seqlen_q; q_len below is their number. lse is then
        (q_heads, total_q).
    causal: query i stands at key length - q_len + i of its own sequence and sees the keys up to that.
    window_size: (left, right): it sees that many keys before and after it; -1 or None: all. causal makes right 0.
    softmax_scale: None for 1/sqrt(head_dim). softcap: a score s becomes softcap * tanh(s / softcap) before the mask;
        0.0 or None: none. Calls that differ in its number only compile and tune nothing.
    sink: (q_heads) float32 on q's device, or None: the number of a query head joins its rows' softmax as exp(sink) beside
    the exponentials of scores, and adds no value; the log-sum-exp includes it.
    out: a tensor to write, or None.
    Cached keys past a length, pages that no length reaches and entries of page_table past a length are never used: they
    may hold anything. The numbers are read on the device as the work runs; with GQA_CHECKED=1 in the environment, or a
    handle made with checked=True, each call looks at them first. handle: a gqa.Handle; None: the device's shared one.

    Returns out (batch, q_len, q_heads, head_dim_v), of q's framework; with return_softmax_lse (out, lse), lse (batch,
    q_heads, q_len) float32, without the partial results of splits that follow in FlashAttention-3. A row that sees no
    key gives 0 and -inf. Like gqa.attention it raises GqaValueError, GqaTypeError or GqaError.

    k, v: (batch, new, kv_heads, head_dim or head_dim_v), or with cu_seqlens_k_new (total_new, kv_heads, ...): written into
        the cache from slot cache_seqlens[b] on, which must be given then, and attended to: cache_seqlens itself is not
        changed. What has no room is not written.
    rotary_cos, rotary_sin: (positions, rotary_dim / 2), of q's dtype, rotary_dim a multiple of 16: new keys are written
        as rotated by their slot (or from rotary_seqlens[b] on), and queries are rotated: by that of the first new key and
        those after it with causal or a window, whatever it hides, else all by that of the first. rotary_interleaved:
        pairs are neighbours; False: element i and i + rotary_dim / 2. A position past the last row takes the last,
        and is refused where cache_seqlens is one number, and by a handle made with checked=True.
    cache_batch_idx: (batch) int32: sequence b lies in k_cache[cache_batch_idx[b]], or in that row of page_table, which
        may have more or fewer rows than there are sequences. cache_leftpad: (batch) int32: the first slot of each
        sequence, whose cache_seqlens counts from slot 0; pages then follow each other without a gap.

    There is no backward pass: where a torch input requires a gradient, out's raises NotImplementedError.
    num_splits, pack_gqa, sm_margin and scheduler_metadata are the tuner's to choose. qv, descales and attention_chunk
    raise NotImplementedError where they are given; rotary_seqlens means nothing without rotary_cos.

        table = torch.tensor([[7, 2, 5], [0, 4, 6]], dtype=torch.int32)      # 2 sequences, pages of 16
        lengths = torch.tensor([40, 33], dtype=torch.int32)
        out = gqa.flash_attn_with_kvcache(q, k_pages, v_pages, cache_seqlens=lengths, page_table=table, causal=True)
    """
    if not (qv is q_descale is k_descale is v_descale is None) or type(attention_chunk) is not int or attention_chunk:
        refuse_given(
            _NAME, attention_chunk, qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale
        )
    append, window = None, window_of(window_size)
    unset = k is v is rotary_cos is rotary_sin is cache_batch_idx is cache_leftpad is cu_seqlens_k_new is None
    if not unset:
        append = Append(
            k,
            v,
            cu_seqlens_k_new,
            rotary_cos,
            rotary_sin,
            None if rotary_cos is None else rotary_seqlens,
            CALL["rotary_interleaved"]("rotary_interleaved", rotary_interleaved),
            cache_batch_idx,
            cache_leftpad,
            bool(causal) or window is not None,
        )
    cache = Cache(
        cache_seqlens,
        page_table,
        window,
        cu_seqlens_q=cu_seqlens_q,
        max_seqlen_q=maximum("max_seqlen_q", max_seqlen_q, cu_seqlens_q),
        append=append,
    )
    core_of = _defaults.served_by(handle)
    lse = return_softmax_lse
    return attend(
        core_of,
        q,
        k_cache,
        v_cache,
        causal,
        softmax_scale,
        out,
        lse,
        cache,
        softcap,
        sink,
        late=True,
        names=_NAMES,
        operator=KVCACHE if k is None else APPEND,
    )


def window_of(window_size: Any) -> Optional[Tuple[int, int]]:
    if type(window_size) is tuple and len(window_size) == 2:  # the usual one
        left, right = window_size
        if type(left) is type(right) is int and -1 <= left <= MOST_INT32 and -1 <= right <= MOST_INT32:
            return None if left == right == -1 else (left, right)
    return CALL["window_size"]("window_size", window_size)


def maximum(name: str, most: Optional[int], starts: Any) -> int:
    """What the library takes for the most rows of a packed sequence."""
    if starts is None:
        return 0
    if most is None:
        raise error_for(Status.ERROR_OPTION, f"{name} is None beside cu_seqlens{name[-2:]}; expected a number")
    return most if type(most) is int and 0 <= most <= MOST_INT32 else CALL[name](name, most)


def refuse_given(function: str, attention_chunk: int, **tensors: Any) -> None:
    """Of FlashAttention-3's arguments, those that gqa takes at their defaults only."""
    for name, value in tensors.items():
        if value is not None:
            refuse(function, name, value, "None")
    if CALL["attention_chunk"]("attention_chunk", attention_chunk) != 0:
        refuse(function, "attention_chunk", attention_chunk, "0")


def refuse(function: str, name: str, value: Any, default: str, instead: str = "") -> None:
    advice = f": {instead}" if instead else ""
    raise NotImplementedError(f"{function} was given {name}={shown(value)}; gqa computes {name}={default} only{advice}")
