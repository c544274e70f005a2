"""What a call says beyond its tensors of queries, keys and values: lengths, tables, starts, a window, what it appends, what it
does to scores; as the library takes it.

Owns: lengths given as one number. Never: reads a tensor's numbers. Threads: any.
"""

from __future__ import annotations

import array
from numbers import Integral
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from ._errors import Status, error_for
from ._export import exported
from ._frameworks import KINDS, Kind
from ._kinds import CALL, MOST_INT32


class Cache(NamedTuple):
    """What a call says of its keys beyond the tensors of them."""

    seqlens: Any  # None, one number, or a tensor
    page_table: Any  # None or a tensor
    window: Optional[Tuple[int, int]]
    # The lists of packed queries and of packed keys; a maximum is 0 where there are none.
    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None
    seqused_q: Any = None
    max_seqlen_q: int = 0
    max_seqlen_k: int = 0
    append: "Optional[Append]" = None

    def exported(self, q: Any, k_shape: Tuple[int, ...], kind: Kind, stream: int) -> Tuple[Any, ...]:
        """What _gqa.Handle.run takes."""
        seqlens, table, window, q_starts, k_starts, q_lengths, most_q, most_k, append = self
        as_is = kind.as_is
        if seqlens is not None and type(seqlens) not in as_is:
            if type(seqlens) not in KINDS and isinstance(seqlens, Integral):
                batch = q.shape[0] if q_starts is None else q_starts.shape[0] - 1
                length = self._checked_length(CALL["cache_seqlens"]("cache_seqlens", seqlens), q.shape, k_shape)
                seqlens = kind.int32s(q, batch, length)
            seqlens = _exported_list(seqlens, kind, stream, "cache_seqlens")
        if table is not None and type(table) not in as_is:
            table = exported(table, kind, stream, "page_table")
        if q_starts is not None:
            q_starts = exported(q_starts, kind, stream, "cu_seqlens_q")
        if k_starts is not None:
            k_starts = exported(k_starts, kind, stream, "cu_seqlens_k")
        if q_lengths is not None:
            q_lengths = exported(q_lengths, kind, stream, "seqused_q")
        appended = None if append is None else append.exported(kind, stream)
        return seqlens, table, window, q_starts, k_starts, q_lengths, most_q, most_k, appended

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


NO_LISTS = (None, None, None, None, None, None, 0, 0, None)  # Cache.exported() of a call without a cache


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
        """Refuses a cos that lacks a position, of sequences that all have `length` keys, a number on the host.
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


ALL_KEYS = (-1, -1)  # of window_size, and its default


def window_of(window_size: Any) -> Optional[Tuple[int, int]]:
    if window_size is ALL_KEYS:
        return None
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


def windowed(window_size: Any) -> Optional[Cache]:
    """The Cache of a call that has no lists; None where it has no window either."""
    return of_window(window_of(window_size))


def of_window(window: Optional[Tuple[int, int]]) -> Optional[Cache]:
    """The same of a window as the library takes it."""
    return None if window is None else Cache(None, None, window)


def of_scores(score_scale: Any, bias: Any) -> Optional[Dict[str, Any]]:
    """The arrays that are given."""
    if score_scale is bias is None:
        return None
    return {name: x for name, x in (("score_scale", score_scale), ("bias", bias)) if x is not None}
