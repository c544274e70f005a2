"""PyTorch's operators: torch.ops.gqa.attention, varlen, kvcache (which reads), kvcache_append (which writes k_cache and
v_cache) and merge_states, so that torch.compile, torch.export, tracers, autocast and the profiler see gqa's calls.

Each gives (out, lse); lse has no element unless return_lse is True. gqa's functions call them wherever PyTorch has to see
the call (_modes.py) and the library itself otherwise. They run on the device's shared handle. This module is imported
where both gqa and PyTorch are; a program that begins with torch.export.load imports it itself.

Owns: their definitions, what they are to fake tensors, vmap and autocast, and how many operations they count as.
Never: computes; links libtorch. Threads: any.
"""

from __future__ import annotations

import importlib
import logging
import operator
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from . import _arguments, _call, _defaults, _flash_impl, _merge, _modes
from ._arguments import APPEND, ATTENTION, KVCACHE, MERGE, VARLEN
from ._errors import Status, error_for
from ._frameworks import TorchKind
from ._handle import Handle
from ._options import Append, Cache, of_scores, of_window
from ._sdpa_call import sdpa
from ._sdpa_mode import SdpaMode

__all__ = ["SdpaMode", "attend", "merge", "sdpa"]  # to the package itself

_OPERATORS = (ATTENTION, VARLEN, KVCACHE, APPEND, MERGE)
_Pair = Tuple[torch.Tensor, torch.Tensor]


# ---- what an operator is given


class _Given:
    """The arguments of one operator, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.of = _arguments.tuple_of(name)
        reserved = _arguments.reserved_of(name)
        self.first_reserved = self.of._fields.index(reserved[0]) if reserved else len(self.of._fields)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        given = self.of(*args, **keywords)
        if keywords or len(args) > self.first_reserved:
            self._refuse(given)
        return given

    def _refuse(self, given: Any) -> None:
        for name in _arguments.reserved_of(self.name):
            if getattr(given, name) is not None:
                raise NotImplementedError(f"gqa::{self.name} was given {name}; gqa computes {name}=None only")


_GIVEN = {name: _Given(name) for name in _OPERATORS}


def _window(given: Any) -> Optional[Tuple[int, int]]:
    left, right = given.window_left, given.window_right
    return None if left == right == -1 else (left, right)


def _caches(given: Any) -> Tuple[Any, Any, Optional[Cache]]:
    """k, v and what else the library is told of them."""
    kind = type(given).__name__
    if kind == ATTENTION:
        return given.k, given.v, of_window(_window(given))
    if kind == VARLEN:
        lists = Cache(
            given.seqused_k,
            None,
            _window(given),
            given.cu_seqlens_q,
            given.cu_seqlens_k,
            given.seqused_q,
            given.max_seqlen_q,
            given.max_seqlen_k,
        )
        return given.k, given.v, lists
    cache = Cache(
        given.cache_seqlens,
        given.page_table,
        _window(given),
        given.cu_seqlens_q,
        max_seqlen_q=given.max_seqlen_q,
        append=_append(given),
    )
    return given.k_cache, given.v_cache, cache


def _append(given: Any) -> Optional[Append]:
    advances = given.causal or _window(given) is not None
    if type(given).__name__ == APPEND:
        new = (given.k, given.v, given.cu_seqlens_k_new, given.rotary_cos, given.rotary_sin, given.rotary_seqlens)
        return Append(*new, given.rotary_interleaved, given.cache_batch_idx, given.cache_leftpad, advances)
    if given.cache_batch_idx is given.cache_leftpad is None:
        return None
    return Append(None, None, None, None, None, None, True, given.cache_batch_idx, given.cache_leftpad, advances)


# ---- kernels, which refuse gradients: there is no autograd kernel, which would cost each call a second way through Python


_KIND = TorchKind(torch)


def _refuse_tangents(*tensors: torch.Tensor) -> None:
    ad = torch.autograd.forward_ad
    if ad._current_level >= 0 and any(ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
        raise NotImplementedError(
            "an input has a tangent, and gqa has no forward-mode derivative; call outside of torch.autograd.forward_ad "
            "and torch.func.jvp, or on detached tensors"
        )


_NAMES = {
    ATTENTION: {"q": "q"},  # its callers have judged the layout
    KVCACHE: {"k": "k_cache", "v": "v_cache"},
    APPEND: {"k": "k_cache", "v": "v_cache", "k_new": "k", "v_new": "v"},
}


def _computes(name: str) -> Callable[..., _Pair]:
    given_to, names = _GIVEN[name], _NAMES.get(name, {})

    def kernel(*args: Any, **keywords: Any) -> _Pair:
        given = given_to(*args, **keywords)
        k, v, cache = _caches(given)
        arrays = of_scores(given.score_scale, given.bias)
        _refuse_tangents(*_call.differentiable(given.q, k, v, cache, given.sink, arrays))
        numbers = (given.causal, given.scale, None, given.return_lse, cache, given.softcap)
        scores = (given.sink, False, arrays, names, given.door)
        result = _call.compute(_defaults.core_of, given.q, k, v, *numbers, *scores)
        if name == APPEND:
            _written(k, v)
        return result if given.return_lse else (result, _no_lse(given.q))

    return kernel


def _merges(outs: List[torch.Tensor], lses: List[torch.Tensor]) -> _Pair:
    _refuse_tangents(*outs, *lses)
    return _merge.merge(outs, lses, None, None, _defaults.core_of)


def _no_lse(q: torch.Tensor) -> torch.Tensor:
    return q.new_empty((0,), dtype=torch.float32)


def _written(*tensors: torch.Tensor) -> None:
    """Tells autograd, which would else take what it saved of them for what they are."""
    torch.autograd.graph.increment_version([tensor for tensor in tensors if not tensor.is_inference()])


# ---- fake tensors: the shapes and strides of results


def _shapes(name: str) -> Callable[..., _Pair]:
    given_to = _GIVEN[name]

    def fake(*args: Any, **keywords: Any) -> _Pair:
        given = given_to(*args, **keywords)
        k, v, cache = _caches(given)
        inputs = _call.differentiable(given.q, k, v, cache, given.sink, of_scores(given.score_scale, given.bias))
        _refuse_tangents(*inputs)
        _KIND.refuse(*inputs)
        _call.check_ranks(given.q.shape, v.shape, cache)
        *batch, length, heads, _ = given.q.shape
        out = given.q.new_empty((*batch, length, heads, v.shape[-1]))
        if not given.return_lse:
            return out, _no_lse(given.q)
        return out, given.q.new_empty((*batch, heads, length), dtype=torch.float32)

    return fake


def _merged_shapes(outs: List[torch.Tensor], lses: List[torch.Tensor]) -> _Pair:
    _refuse_tangents(*outs, *lses)
    _KIND.refuse(*outs)
    return outs[0].new_empty(outs[0].shape), lses[0].new_empty(lses[0].shape)


# ---- autocast: as scaled_dot_product_attention does, but what a cache holds stays as it is


def _casts(name: str, device: str) -> Callable[..., _Pair]:
    given_to = _GIVEN[name]
    key = torch._C.DispatchKey.AutocastCUDA if device == "cuda" else torch._C.DispatchKey.AutocastCPU
    keys = torch._C.DispatchKeySet(key)
    cast = [at.name for at in _arguments.arguments_of(name) if at.name in ("q", "k", "v", "rotary_cos", "rotary_sin")]
    caches = name in (KVCACHE, APPEND)

    def to(tensor: Any, dtype: torch.dtype) -> Any:
        able = tensor is not None and tensor.is_floating_point() and tensor.dtype is not torch.float64
        return tensor.to(dtype) if able else tensor

    def kernel(*args: Any, **keywords: Any) -> _Pair:
        given = given_to(*args, **keywords)
        dtype = given.k_cache.dtype if caches else torch.get_autocast_dtype(device)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            changed = {at: to(getattr(given, at), dtype) for at in cast}
            if given.bias is not None and given.bias.dtype is not torch.float32:
                changed["bias"] = to(given.bias, dtype)
            return getattr(torch.ops.gqa, name)(*given._replace(**changed))

    return kernel


# ---- vmap


def _vmapped(info: Any, in_dims: Sequence[Optional[int]], *args: Any) -> Tuple[Any, Any]:
    """gqa::attention of more batches at once: the mapped dimension joins the batch."""
    given = _GIVEN[ATTENTION](*args)
    dims = dict(zip(given._fields, in_dims))
    size, batch = info.batch_size, None
    changed: Dict[str, Any] = {}
    for name in ("q", "k", "v"):
        tensor = _mapped_first(getattr(given, name), dims[name], size)
        batch = tensor.shape[1]
        changed[name] = tensor.flatten(0, 1)
    for name in ("score_scale", "bias"):
        changed[name] = _with_batch(getattr(given, name), dims.get(name), size, batch)
    if dims.get("sink") is not None:
        raise NotImplementedError("gqa::attention under vmap takes one sink for all; a sink of each is not computed")
    out, lse = torch.ops.gqa.attention(*given._replace(**changed))
    out = out.unflatten(0, (size, batch))
    return ((out, lse.unflatten(0, (size, batch))), (0, 0)) if given.return_lse else ((out, lse), (0, None))


def _mapped_first(tensor: torch.Tensor, dim: Optional[int], size: int) -> torch.Tensor:
    return tensor.unsqueeze(0).expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _with_batch(tensor: Any, dim: Optional[int], size: int, batch: Any) -> Any:
    """An array of scores is (batch or 1, ...), or heads alone. One of all batches stays as it is."""
    if tensor is None or (dim is None and (tensor.dim() == 1 or tensor.shape[0] == 1)):
        return tensor
    mapped = _mapped_first(tensor, dim, size)
    if mapped.dim() == 2:  # a number a head, of each
        mapped = mapped[:, None, :, None]
    return mapped.expand(size, batch, *mapped.shape[2:]).flatten(0, 1)


def _not_mapped(name: str) -> Callable[..., Any]:
    def refuse(info: Any, in_dims: Any, *args: Any) -> Any:
        raise NotImplementedError(f"gqa::{name} has no vmap; give it the sequences of all at once")

    return refuse


# ---- operations


def _count_operations() -> None:
    """For torch.utils.flop_counter: two a product and sum, nothing taken off for masks, as for PyTorch's own attention."""
    register_flop_formula = _flop_counter().register_flop_formula

    def each(given: Any) -> int:
        k, v, cache = _caches(given)
        heads, width = given.q.shape[-2], given.q.shape[-1] + v.shape[-1]
        return 2 * heads * width * _scores(given.q, k, cache)

    for name in _OPERATORS:
        packet = getattr(torch.ops.gqa, name)
        if name == MERGE:
            register_flop_formula(packet, get_raw=True)(lambda outs, *_, **__: sum(3 * x.numel() for x in outs))
        else:
            register_flop_formula(packet, get_raw=True)(
                lambda *args, given_to=_GIVEN[name], out_val=None, **keywords: each(given_to(*args, **keywords))
            )


def _flop_counter() -> Any:
    """PyTorch's module, which warns as it is imported where there is no Triton: nobody has asked for it here."""
    logger = logging.getLogger("torch.utils.flop_counter")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return importlib.import_module("torch.utils.flop_counter")
    finally:
        logger.setLevel(level)


def _scores(q: torch.Tensor, k: torch.Tensor, cache: Optional[Cache]) -> int:
    """A head's scores: queries times the keys of their sequences."""
    if cache is None:
        return q.shape[0] * q.shape[1] * k.shape[1]
    queries = _lengths(cache.cu_seqlens_q, q, cache.max_seqlen_q)
    if cache.cu_seqlens_k is None:
        return sum(queries) * k.shape[1] * (1 if cache.page_table is None else cache.page_table.shape[1])
    return sum(a * b for a, b in zip(queries, _lengths(cache.cu_seqlens_k, k, cache.max_seqlen_k)))


def _lengths(starts: Any, packed: torch.Tensor, most: int) -> List[int]:
    """Packed sequences' lengths; `most` each where the list has no numbers."""
    if starts is None:
        return [packed.shape[1]] * packed.shape[0]
    if isinstance(starts, torch._subclasses.FakeTensor):
        return [most] * (starts.shape[0] - 1)
    return starts.diff().tolist()


# ---- the functions' way here


def attend(name: str, core_of: Any, asked: _call.Asked) -> Any:
    """_call.attend() by the operator of that name. out and a handle are the library's alone: where only autocast, the
    profiler or a function mode is active, the library is called for them."""
    compiled = torch.compiler.is_dynamo_compiling()
    inputs = _call.differentiable(asked.q, asked.k, asked.v, asked.cache, asked.sink, asked.arrays)
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if not compiled:
        _refuse_odd(q=asked.q, k=asked.k, v=asked.v)
    if asked.out is not None or core_of is not _defaults.core_of:
        if not _modes.recorded(asked.q):
            return _call.compute(core_of, *asked)
        _refuse_recorded("out" if asked.out is not None else "handle")
    late = not compiled and asked.late and not _modes.recorded(asked.q)
    if not compiled:
        _refuse_tangents(*tensors)
    if late:  # refused where a gradient is asked for
        asked = _detached(asked)
    elif not compiled:
        _KIND.refuse(*tensors)
    out, lse = _called(name, asked)
    if late:
        out = _KIND.refuse_later(out, *tensors)
    return (out, lse) if asked.return_lse else out


def _detached(asked: _call.Asked) -> _call.Asked:
    def off(x: Any) -> Any:
        return x.detach() if isinstance(x, torch.Tensor) else x

    cache, arrays = asked.cache, asked.arrays
    if cache is not None and cache.append is not None:
        new = {name: off(getattr(cache.append, name)) for name in ("k_new", "v_new")}
        cache = cache._replace(append=cache.append._replace(**new))
    if arrays is not None:
        arrays = {name: off(x) for name, x in arrays.items()}
    q, k, v, sink = (off(x) for x in (asked.q, asked.k, asked.v, asked.sink))
    return asked._replace(q=q, k=k, v=v, cache=cache, sink=sink, arrays=arrays)


def _called(name: str, asked: _call.Asked) -> _Pair:
    q, k, v, cache, arrays = asked.q, asked.k, asked.v, asked.cache, asked.arrays or {}
    left, right = (None if cache is None else cache.window) or (-1, -1)
    numbers = (asked.scale, asked.causal, left, right, asked.softcap)
    scores = (asked.return_lse, asked.sink, arrays.get("score_scale"), arrays.get("bias"))
    door = {} if asked.door is None else {"door": asked.door}
    if name == ATTENTION or cache is None:
        return torch.ops.gqa.attention.default(q, k, v, *numbers, *scores, **door)
    if name == VARLEN:
        starts = (cache.cu_seqlens_q, cache.cu_seqlens_k, cache.seqused_q, cache.seqlens)
        most = (cache.max_seqlen_q, cache.max_seqlen_k)
        return torch.ops.gqa.varlen.default(q, k, v, *starts, *most, *numbers, *scores, **door)
    return _on_cache(name, q, k, v, cache, numbers, scores, door)


def _on_cache(name: str, q: Any, k: Any, v: Any, cache: Cache, numbers: Any, scores: Any, door: Any) -> _Pair:
    append, most = cache.append, cache.max_seqlen_q
    rows = (None, None) if append is None else (append.cache_batch_idx, append.cache_leftpad)
    lists = (_lengths_of_all(q, cache), cache.page_table, *rows, cache.cu_seqlens_q)
    if name == KVCACHE or append is None:
        if append is not None and append.rotary_cos is not None:
            raise error_for(Status.ERROR_OPTION, "rotary_cos is given without k; expected both or neither")
        return torch.ops.gqa.kvcache.default(q, k, v, *lists, most, *numbers, *scores, **door)
    new = (append.cu_seqlens_k_new, append.rotary_cos, append.rotary_sin, append.rotary_seqlens)
    turned = (append.rotary_interleaved,)
    return torch.ops.gqa.kvcache_append.default(
        q, k, v, append.k_new, append.v_new, *lists, *new, most, *numbers, *turned, *scores, **door
    )


def _lengths_of_all(q: Any, cache: Cache) -> Any:
    """cache_seqlens as a tensor, which is what an operator takes."""
    if cache.seqlens is None or isinstance(cache.seqlens, torch.Tensor):
        return cache.seqlens
    sequences = q.shape[0] if cache.cu_seqlens_q is None else cache.cu_seqlens_q.shape[0] - 1
    return torch.full((sequences,), operator.index(cache.seqlens), dtype=torch.int32, device=q.device)


def merge(outs: List[Any], lses: List[Any], out: Any, lse: Any, handle: Optional[Handle]) -> _Pair:
    """merge_states() by its operator."""
    if out is not None or lse is not None or handle is not None:
        if not _modes.recorded(outs[0]):
            return _merge.merge(outs, lses, out, lse, _defaults.served_by(handle))
        _refuse_recorded("out" if out is not None else "lse" if lse is not None else "handle")
    if not torch.compiler.is_dynamo_compiling():
        _refuse_tangents(*outs, *lses)
        _KIND.refuse(*outs)
    return torch.ops.gqa.merge_states.default(outs, lses)


def _refuse_recorded(name: str) -> None:
    expected = "the device's shared handle" if name == "handle" else f"a result of its own: leave {name} out"
    raise error_for(
        Status.ERROR_OPTION, f"{name} is given where PyTorch records the call (a tracer, a transform or a mode); expected {expected}"
    )


def _refuse_odd(**tensors: Any) -> None:
    for name, tensor in tensors.items():
        if isinstance(tensor, torch.Tensor) and (odd := TorchKind.layout_oddity(tensor)):
            raise error_for(Status.ERROR_DTYPE, f"{name} is {odd}")


# ---- definitions


def _define() -> torch.library.Library:
    library = torch.library.Library("gqa", "DEF")
    for name in _OPERATORS:
        library.define(_arguments.schema_of(name))
        merges = name == MERGE
        for key in ("CPU", "CUDA"):
            library.impl(name, _merges if merges else _computes(name), key)
        torch.library.register_fake(f"gqa::{name}", _merged_shapes if merges else _shapes(name), lib=library)
        torch.library.register_vmap(f"gqa::{name}", _vmapped if name == ATTENTION else _not_mapped(name), lib=library)
        for device in () if merges else ("CPU", "CUDA"):
            library.impl(name, _casts(name, device.lower()), f"Autocast{device}")
    _count_operations()
    return library


_modes.check(torch)
_library = _define()
_flash_impl.register()
_modes.watch(torch, sys.modules[__name__])
