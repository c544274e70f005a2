"""The attention functions of AITER's page, with its names, order and defaults: a program changes its import only.

    from gqa.aiter import flash_attn_func

or, with gqa.install_as("aiter"), nothing. What is followed is the page docs/api/attention.rst as programs were written
by it. The package itself (amd-aiter 0.1.20) has flash_attn_func alone of these names, in another order: its fourth
argument is dropout_p, its sixth causal. Its windows, bias, sinks and log-sum-exp gqa.flash_attn_func has, too.

All take float32, float16 or bfloat16 of anything that speaks DLPack, and return a tensor of query's framework, on its
device and stream. Where the page says nothing:

- Scores are scaled by 1/sqrt(head_dim). value's head_dim may differ from query's.
- The query heads are any multiple of the key heads. Query head h reads key head h // (query heads / key heads).
- causal aligns the last query with the last key: query i of n sees the keys up to keys - n + i. A row that sees none
  is 0.
- A head_dim up to 256 that there are no kernels of costs a copy with zeros, of PyTorch's tensors; a cache is not
  copied.
- There is no backward pass. Where an input requires a gradient, the call is refused; flash_attn_with_kvcache raises
  NotImplementedError when the gradient is asked for.

They raise GqaValueError, GqaTypeError or GqaError.

Owns: signatures, how AITER's caches and padded batches lie, and what is refused. Never: computes, or reads a tensor's
numbers. Threads: any; torch.compile traces through here.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, Optional, Sequence, Tuple

from . import _defaults, _modes
from . import _flash_forms as forms
from ._arguments import VARLEN
from ._call import attend
from ._errors import Status, error_for
from ._frameworks import KINDS, Foreign, adopt
from ._kinds import AITER, MOST_INT32, shown
from ._options import Cache
from ._warnings import LIKELY_HEADS, warn_of_layout

__all__ = [
    "flash_attn_func",
    "flash_attn_with_kvcache",
    "grouped_query_attention",
    "multi_query_attention",
    "variable_length_attention",
]

_LAYOUT = "(batch, seq_len, num_heads, head_dim)"
_BLOCKS = "(num_blocks, num_heads, block_size, head_dim)"
_EVERY_KEY = (-1, -1)

# Its arguments by the library's names.
_NAMES = {"q": "query", "k": "key", "v": "value", "scale": "softmax_scale"}
_LIST_NAMES = {"cache_seqlens": "seq_lengths", "seqused_q": "seq_lengths"}
_KVCACHE_NAMES = {"q": "query", "k": "kv_cache", "v": "kv_cache", **_LIST_NAMES}


def flash_attn_func(
    query: Any, key: Any, value: Any, causal: bool = False, softmax_scale: Optional[float] = None
) -> Any:
    """query (batch, q_len, q_heads, head_dim), key and value (batch, kv_len, kv_heads, head_dim). softmax_scale: None
    for 1/sqrt(head_dim). Returns (batch, q_len, q_heads, head_dim).

    A number at causal, where the package has dropout_p, is refused."""
    if isinstance(causal, float):
        raise error_for(
            Status.ERROR_OPTION,
            f"causal is {causal}, as dropout_p or a scale stands fourth in other orders; expected True or False: this "
            "is the order of AITER's page (query, key, value, causal, softmax_scale). Name the arguments, or take "
            "gqa.flash_attn.flash_attn_func, whose fourth is dropout_p",
        )
    return _dense(query, key, value, causal, softmax_scale)


def flash_attn_with_kvcache(
    query: Any, kv_cache: Any, page_table: Any, block_size: int, causal: bool = True, *, seq_lengths: Any = None
) -> Any:
    """Attention on a cache in blocks. Returns as query, (batch, seq_len, q_heads, head_dim).

    query: (batch, seq_len, q_heads, head_dim).
    kv_cache: (num_blocks, num_heads, block_size, head_dim), which is keys and values both; or a pair of such, keys and
        values; or one tensor of both, (2, num_blocks, num_heads, block_size, head_dim). It is read where it lies.
    page_table: (batch, max_blocks_per_seq) int32 on query's device: token j of sequence b is
        kv_cache[page_table[b, j // block_size], :, j % block_size]. Sequences may share blocks.
    block_size: the cache's own third dimension.
    causal: query i stands at token length - seq_len + i of its sequence and sees those up to it.
    seq_lengths: the tokens that each sequence has, of which the page says nothing: (batch,) int32 (int64 is converted
        at each call) on query's device, or one number for all. None: max_blocks_per_seq * block_size, the table's
        full width. Tokens past a length, and entries of page_table past it, are never used.

    AITER has no function of this form: that of its aiter.ops.triton.attention.mha takes k_cache, v_cache and
    cache_seqlens, as gqa.flash_attn.flash_attn_with_kvcache does."""
    k, v = _keys_and_values(kv_cache)
    blocks, heads, tokens = k.shape[:3]
    size = _number("block_size", block_size)
    if size != tokens:
        swapped = ": is it (num_blocks, block_size, num_heads, head_dim)? swapaxes(1, 2) turns it"
        raise error_for(
            Status.ERROR_SHAPE,
            f"block_size is {size}, but kv_cache has {tokens} tokens a block, {shown(tuple(k.shape))}; expected "
            f"{tokens}, its third dimension{swapped if size == heads else ''}",
        )
    query, page_table = _recognised("query", query), _recognised("page_table", page_table)
    batch = _dims("query", query, 4, _LAYOUT)[0]
    rows = _dims("page_table", page_table, 2, "(batch, max_blocks_per_seq)")[0]
    if rows != batch:
        raise error_for(
            Status.ERROR_SHAPE,
            f"page_table has {rows} rows, but query has batch {batch}; expected a row for each sequence of query",
        )
    if _integers(page_table) != "int32":
        raise error_for(
            Status.ERROR_DTYPE,
            f"page_table is {_integers(page_table)}; expected int32: convert it where it is made, not at each step",
        )
    if seq_lengths is not None and not isinstance(seq_lengths, Integral):
        seq_lengths = _lengths(seq_lengths, batch)
    _judge_layout(query)
    # As the library has caches: a view, in which a token's heads lie side by side.
    k, v = k.swapaxes(1, 2), v.swapaxes(1, 2)
    lists = {"cache_seqlens": seq_lengths, "page_table": page_table}
    return forms.cached(query, k, v, None, causal, _EVERY_KEY, 0.0, False, _KVCACHE_NAMES, **lists)[0]


def grouped_query_attention(query: Any, key: Any, value: Any, num_groups: int, causal: bool = False) -> Any:
    """query (batch, q_len, num_q_heads, head_dim), key and value (batch, kv_len, num_kv_heads, head_dim). num_groups:
    the query heads of each key head, num_q_heads / num_kv_heads; anything else is refused. Returns as query.

    AITER has no function of this name: its flash_attn_func takes the group from the heads, as gqa's functions do."""
    query, key = _recognised("query", query), _recognised("key", key)
    q_heads, kv_heads = _dims("query", query, 4, _LAYOUT)[2], _dims("key", key, 4, _LAYOUT)[2]
    group = _number("num_groups", num_groups)
    if q_heads != group * kv_heads and kv_heads and q_heads % kv_heads == 0:
        raise error_for(
            Status.ERROR_HEADS,
            f"num_groups is {group}, but query has {q_heads} heads and key {kv_heads}; expected "
            f"{q_heads // kv_heads}: the query heads of each key head, not the number of key heads",
        )
    return _dense(query, key, value, causal, None)


def multi_query_attention(query: Any, key: Any, value: Any, causal: bool = False) -> Any:
    """query (batch, q_len, num_heads, head_dim), key and value (batch, kv_len, 1, head_dim). Returns as query.

    AITER has no function of this name: its flash_attn_func takes one key head, as gqa's functions do."""
    key, value = _recognised("key", key), _recognised("value", value)
    for name, tensor in (("key", key), ("value", value)):
        heads = _dims(name, tensor, 4, "(batch, seq_len, 1, head_dim)")[2]
        if heads != 1:
            raise error_for(
                Status.ERROR_HEADS,
                f"{name} has {heads} heads; expected 1, which all of query's share: for more, take "
                "grouped_query_attention or flash_attn_func",
            )
    return _dense(query, key, value, causal, None)


def variable_length_attention(query: Any, key: Any, value: Any, seq_lengths: Any, max_seq_len: int) -> Any:
    """Sequences that are padded at their ends to one length. No mask hides a token of the same sequence: the page has
    no causal. Returns as query, whose rows past a sequence's length are 0; what padding holds is never used.

    query: (batch, seq_len, num_heads, head_dim). key, value: (batch, seq_len, num_kv_heads, head_dim), so many tokens.
    seq_lengths: (batch,) int32 (int64 is converted at each call) on query's device: the tokens of each sequence, 0 to
        seq_len. It is not read by the host: numbers below 0 count as 0, above seq_len or max_seq_len as the lesser of
        both.
    max_seq_len: no sequence has more; what a kernel is tuned for. It may be more than seq_len.
    PyTorch's, NumPy's and CuPy's tensors, whose batches lie one after another, or they are copied.

    AITER has no function of this name: flash_attn_varlen_func takes packed sequences there, as gqa's does."""
    query, key, value = (_viewed(name, x) for name, x in (("query", query), ("key", key), ("value", value)))
    batch, tokens, heads = _dims("query", query, 4, _LAYOUT)[:3]
    for name, tensor in (("key", key), ("value", value)):
        dims = _dims(name, tensor, 4, _LAYOUT)
        if dims[0] != batch or dims[1] != tokens:
            raise error_for(
                Status.ERROR_SHAPE,
                f"{name} is {shown(tuple(dims))} and query {shown(tuple(query.shape))}; expected the same batch and "
                "seq_len, for seq_lengths counts the tokens of both",
            )
    most = _number("max_seq_len", max_seq_len)
    lengths = _lengths(seq_lengths, batch, most, tokens)
    _judge_layout(query)
    q, k, v, scale, width = forms.ready(query, key, value, None)
    out = _padded_batch(q, k, v, scale, lengths, min(most, tokens))
    return out if width is None else out[..., :width]


# ---- calls


def _dense(query: Any, key: Any, value: Any, causal: Any, scale: Any) -> Any:
    _judge_layout(query)
    return forms.dense(query, key, value, scale, causal, _EVERY_KEY, 0.0, False, _NAMES)[0]


def _padded_batch(q: Any, k: Any, v: Any, scale: Optional[float], lengths: Any, most: int) -> Any:
    """As packed sequences, which begin at multiples of the length and use so many rows of it. What they do not use is
    not written: so out is 0 before, or, where an operator makes it, is made 0 after."""
    batch, tokens, heads, width = *q.shape[:3], v.shape[3]
    recorded = _modes.active(q)
    out = None if recorded and batch and tokens else _zeros(q, (batch, tokens, heads, width))
    if batch == 0 or tokens == 0:
        return out
    starts = _starts(q, batch, tokens)
    lists = Cache(lengths, None, None, starts, starts, lengths, most, most)
    rows = attend(
        _defaults.core_of,
        *(x.reshape((batch * tokens, *x.shape[2:])) for x in (q, k, v)),
        False,
        scale,
        None if out is None else out.reshape((batch * tokens, heads, width)),
        False,
        lists,
        late=True,
        names={**_NAMES, **_LIST_NAMES},
        operator=VARLEN,
    )
    if out is not None:
        return out
    past = _modes._torch.arange(tokens, device=q.device) >= lengths[:, None]
    return rows.reshape((batch, tokens, heads, width)).masked_fill(past[:, :, None, None], 0)


def _zeros(like: Any, shape: Sequence[int]) -> Any:
    if forms.of_torch(like):
        return like.new_zeros(shape)
    out = KINDS[type(like)].empty(like, shape)
    out[...] = 0
    return out


def _starts(like: Any, sequences: int, tokens: int) -> Any:
    if forms.of_torch(like):
        torch = _modes._torch
        return torch.arange(0, (sequences + 1) * tokens, tokens, dtype=torch.int32, device=like.device)
    return KINDS[type(like)].multiples(like, sequences + 1, tokens)


# ---- what is given


def _recognised(name: str, tensor: Any) -> Any:
    """One that has a shape."""
    return tensor if forms.of_torch(tensor) or type(tensor) in KINDS else adopt(tensor, name)


def _viewed(name: str, tensor: Any) -> Any:
    """One of which views can be taken."""
    tensor = _recognised(name, tensor)
    if isinstance(tensor, Foreign):
        raise error_for(
            Status.ERROR_DTYPE,
            f"{name} is a {type(tensor.tensor).__name__}, which gqa cannot look at in another shape; expected a tensor "
            "of PyTorch, NumPy or CuPy: their from_dlpack makes one without a copy",
        )
    return tensor


def _dims(name: str, tensor: Any, rank: int, layout: str) -> Sequence[int]:
    shape = tensor.shape
    if len(shape) != rank:
        raise error_for(
            Status.ERROR_RANK, f"{name} has {len(shape)} dimensions, {shown(tuple(shape))}; expected {rank}: {layout}"
        )
    return shape


def _keys_and_values(kv_cache: Any) -> Tuple[Any, Any]:
    """Each (num_blocks, num_heads, block_size, head_dim)."""
    if isinstance(kv_cache, (tuple, list)):
        if len(kv_cache) != 2:
            raise error_for(
                Status.ERROR_SHAPE,
                f"kv_cache has {len(kv_cache)} tensors; expected one {_BLOCKS}, or two, keys and values",
            )
        k, v = (_viewed(f"kv_cache[{at}]", x) for at, x in enumerate(kv_cache))
        for at, x in enumerate((k, v)):
            _dims(f"kv_cache[{at}]", x, 4, _BLOCKS)
        if tuple(k.shape[:3]) != tuple(v.shape[:3]):
            raise error_for(
                Status.ERROR_SHAPE,
                f"kv_cache's keys are {shown(tuple(k.shape))} and its values {shown(tuple(v.shape))}; expected the "
                "same num_blocks, num_heads and block_size",
            )
        return k, v
    cache = _viewed("kv_cache", kv_cache)
    shape = cache.shape
    if len(shape) == 4:
        return cache, cache
    if len(shape) == 5 and shape[0] == 2:
        return cache[0], cache[1]
    raise error_for(
        Status.ERROR_RANK,
        f"kv_cache is {shown(tuple(shape))}; expected {_BLOCKS}, a pair of such, or (2, {_BLOCKS[1:]}",
    )


def _lengths(given: Any, batch: int, most: Optional[int] = None, tokens: int = 0) -> Any:
    """(batch) int32, none above `most` where that is below `tokens`."""
    given = _recognised("seq_lengths", given)
    shape = tuple(given.shape)
    if len(shape) != 1 or shape[0] != batch:
        raise error_for(
            Status.ERROR_SHAPE,
            f"seq_lengths is {shown(shape)}; expected ({batch},), a length for each sequence of query",
        )
    dtype = _integers(given)
    if dtype not in ("int32", "int64"):
        raise error_for(Status.ERROR_DTYPE, f"seq_lengths is {dtype}; expected int32, or int64, which is converted")
    if most is not None and most < tokens:
        given = _viewed("seq_lengths", given).clip(None, most)
    if dtype == "int32":
        return given
    return given.int() if hasattr(given, "int") else given.astype("int32")


def _integers(given: Any) -> str:
    """What its dtype is called; the library judges those that do not say it."""
    return str(getattr(given, "dtype", "int32")).rpartition(".")[2]


def _number(name: str, given: Any) -> int:
    return given if type(given) is int and 1 <= given <= MOST_INT32 else AITER[name](name, given)


def _judge_layout(query: Any) -> None:
    """The warning of gqa.attention, which leaves it to those who have names of their own."""
    shape = getattr(query, "shape", ())
    if len(shape) == 4 and shape[2] > LIKELY_HEADS and not _modes.active(query):
        warn_of_layout("query", _LAYOUT, heads=shape[2], tokens=shape[1])
