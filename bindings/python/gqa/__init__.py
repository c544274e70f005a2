"""gqa: grouped-query attention, generated, tuned and remembered at run time.

    import gqa
    out = gqa.attention(q, k, v, causal=True)

q is (batch, q_len, q_heads, head_dim), k and v are (batch, kv_len, kv_heads, head_dim), float32, float16 or bfloat16,
of anything that speaks DLPack: NumPy arrays and CPU tensors run on the host, CUDA tensors on their framework's current stream. The
first call of a shape searches, compiles, verifies and times; from then on it is a look-up and a launch.

gqa.new_kernel_graph() is for programs of your own: a graph of operators, whose superoptimize() finds the fastest equal
program.

PyTorch has operators of these functions, too: gqa.torch, which is imported where PyTorch is.

Never: imports a framework. Threads: everything here may be called from many threads at once.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple, Union

from . import _library  # isort: skip  # first: it refuses a library that is not this package's
from . import _defaults, _gqa, _modes
from ._call import attend
from ._configure import configure
from ._doors import door_report
from ._dtypes import DType, bfloat16, float16, float32
from ._errors import CancelledError, GqaError, GqaMemoryError, GqaTypeError, GqaValueError, Status
from ._explain import Explanation, explain
from ._flash import flash_attn_func
from ._gqa import Array
from ._graph import KernelGraph, Value, graph_from_json, graph_from_text, new_kernel_graph
from ._handle import Handle
from ._install import install_as, uninstall
from ._kvcache import flash_attn_with_kvcache
from ._merge import merge_states
from ._optimized import Optimized
from ._options import ALL_KEYS, of_scores, windowed
from ._pages import PagePool
from ._paths import get_include, get_library
from ._progress import SearchProgress, ServingProgress
from ._scheduler import get_scheduler_metadata
from ._sdpa import scaled_dot_product_attention, use_as_sdpa
from ._varlen import flash_attn_varlen_func

__all__ = [
    "Array",
    "CancelledError",
    "DType",
    "Explanation",
    "GqaError",
    "GqaMemoryError",
    "GqaTypeError",
    "GqaValueError",
    "Handle",
    "KernelGraph",
    "Optimized",
    "PagePool",
    "SearchProgress",
    "ServingProgress",
    "Status",
    "Value",
    "attention",
    "bfloat16",
    "configure",
    "door_report",
    "explain",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "float16",
    "float32",
    "get_include",
    "get_library",
    "get_scheduler_metadata",
    "graph_from_json",
    "graph_from_text",
    "install_as",
    "merge_states",
    "new_kernel_graph",
    "scaled_dot_product_attention",
    "uninstall",
    "use_as_sdpa",
    "version",
    "warm",
    "warm_serving",
]


def version() -> str:
    """The version of the library that is loaded, "0.2.0"."""
    number = _gqa.version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


__version__ = version()

_modes.define()


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    scale: Optional[float] = None,
    window_size: Optional[Tuple[Optional[int], Optional[int]]] = ALL_KEYS,
    softcap: Optional[float] = 0.0,
    sink: Any = None,
    score_scale: Any = None,
    bias: Any = None,
    out: Any = None,
    return_lse: bool = False,
    handle: Optional[Handle] = None,
) -> Any:
    """softmax(softcap(q k^T * scale * score_scale) + bias + mask) v, in q's framework, on q's device.

    causal: query i sees keys j <= i + kv_len - q_len. scale: None for 1/sqrt(head_dim). window_size: (left, right): query
    i stands at key kv_len - q_len + i and sees that many keys before and after it; -1 or None: all; causal makes right 0.
    softcap, sink, score_scale, bias: as flash_attn_func's; at most two of softcap, score_scale and bias. out: a tensor to
    write. return_lse: returns (out, lse), lse (batch, q_heads, q_len) float32, the natural log of the sum of exp(scores).
    handle: a gqa.Handle; None: the device's shared one. Raises GqaValueError, GqaTypeError or GqaError.
    """
    window, arrays = windowed(window_size), of_scores(score_scale, bias)
    core_of = _defaults.served_by(handle)
    return attend(core_of, q, k, v, causal, scale, out, return_lse, window, softcap, sink, arrays=arrays)


def warm(
    *,
    batch: int,
    q_len: int,
    kv_len: int,
    q_heads: int,
    kv_heads: int,
    head_dim: int,
    head_dim_v: Optional[int] = None,
    dtype: Any = "bfloat16",
    causal: bool = False,
    return_lse: bool = False,
    page: Optional[int] = None,
    window_size: Optional[Tuple[int, int]] = None,
    cache_seqlens: bool = False,
    cu_seqlens_q: bool = False,
    cu_seqlens_k: bool = False,
    softcap: bool = False,
    sink: bool = False,
    score_scale: Optional[str] = None,
    bias: Any = None,
    align: int = 16,
    tma: bool = True,
    device: str = "auto",
) -> None:
    """Makes a shape ready: does what its first call would do, and computes nothing.

    dtype: of q, k, v and out, "bfloat16", "float16" or "float32", or a framework's own dtype of that name.
    return_lse: for calls with return_lse, which are tuned apart from those without.
    page: keys a page of calls with page_table, whose kv_len is page times the table's columns. window_size: theirs.
    cache_seqlens: for calls that give lengths. cu_seqlens_q, cu_seqlens_k: for packed ones; batch is then the number of
    sequences, q_len their max_seqlen_q and kv_len their max_seqlen_k. softcap: for calls with a soft cap,
    whatever its number. sink: for calls with a sink. score_scale: for calls with one, "heads" for (q_heads), "rows" for
    (batch or 1, q_heads or 1, q_len). bias: for calls with one, its dtype, q's or float32; whichever of its dimensions
    are 1. align: bytes that rows of q, k, v and out begin on multiples of, 16, or 2 for calls with others. tma: False
    for calls whose strides step backwards, or span 2^40 bytes or more.
    device: "auto" (the first GPU if there is one, else the host), "cuda", "cuda:N", "host" or "cpu".
    """
    _defaults.of(device).warm(
        batch=batch,
        q_len=q_len,
        kv_len=kv_len,
        q_heads=q_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        head_dim_v=head_dim_v,
        dtype=dtype,
        causal=causal,
        return_lse=return_lse,
        page=page,
        window_size=window_size,
        cache_seqlens=cache_seqlens,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        softcap=softcap,
        sink=sink,
        score_scale=score_scale,
        bias=bias,
        align=align,
        tma=tma,
    )


def warm_serving(
    range: str,
    *,
    q_heads: int,
    kv_heads: int,
    head_dim: int,
    head_dim_v: Optional[int] = None,
    window_size: Optional[Tuple[int, int]] = None,
    softcap: bool = False,
    sink: bool = False,
    plan_only: bool = False,
    verbose: Union[bool, Callable[[ServingProgress], None], None] = None,
    device: str = "auto",
) -> ServingProgress:
    """Makes every call of a layer ready that an engine makes while it serves, as gqa.warm does for one shape.

    range: "batch=1..256,kv=1..32k,page=16", as `gqa-cache help serve` and docs/deployment.md explain it; its calls are
    causal. A model whose layers differ in window is warmed once for each kind. softcap, sink: as gqa.warm's.
    plan_only: only says what it would be: shapes, kernels, seconds.
    verbose: True prints progress to stderr; a callable is given a ServingProgress with the plan, then one after each
    shape. The last of them is returned. A shape that fails does not keep the others from being tried; the first failure
    is raised at the end.
    """
    return _defaults.of(device).warm_serving(
        range,
        q_heads=q_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        head_dim_v=head_dim_v,
        window_size=window_size,
        softcap=softcap,
        sink=sink,
        plan_only=plan_only,
        verbose=verbose,
    )
