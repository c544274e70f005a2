"""gqa.Handle: one device, one cache file, one way of tuning.

Owns: the names of a handle's options. Never: chooses defaults; the library does. Threads: one handle serves any number.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Type, Union

from . import _gqa, _kinds
from ._call import attend
from ._dtypes import DType, dtype_of, float32, known, name_of
from ._errors import Status, error_for
from ._frameworks import synchronize
from ._options import ALL_KEYS, of_scores, windowed
from ._progress import ServingProgress, check_verbose, listener

CACHE_MODES = {"read-write": 0, "read-only": 1, "off": 2}
TUNINGS = {"now": 0, "guess": 1, "cached-only": 2}
SCORE_SCALES = {None: 0, "heads": 1, "rows": 2}  # gqa_score_scale

LogFn = Callable[[str, str], None]


class Handle:
    """A handle of its own: options that gqa.attention's shared handles do not have.

    device: "auto" (None: a GPU if there is one, else the host), "cuda", "cuda:N", "host" or "cpu", which is the host.
    cache_path: the cache file, ~ being the home; None: $GQA_CACHE, else $XDG_CACHE_HOME/gqa/cache.db, else ~/.cache/gqa/cache.db.
        "user.db:image.db" names several: looked up in order, the first alone is written; a ":" in a path is "\\:" there.
    cache_mode: "read-write", "read-only" or "off".
    tuning: what a shape never seen does: "now" (search and time within tuning_budget seconds), "guess" (compile the
        cost model's best guess) or "cached-only" (fail).
    tuning_budget: seconds; None: the library's default. threads: None: GQA_THREADS, else all cores.
    nvrtc_path: an explicit libnvrtc.
    log: called as log("info" | "warning", message), from any thread, of a tuning as it begins, each second and as it
        ends; None: warnings are RuntimeWarnings of the call.
    checked: each call looks at the numbers in its lengths, page table and starts first, and names the one that is out of
        range; it waits for the device. So too if $GQA_CHECKED is 1.
    A file at cache_path that is not a gqa cache is left untouched, one that cannot be written is read only: a warning
    says so, and what is learnt stays in memory.
    """

    def __init__(
        self,
        device: Optional[str] = None,
        *,
        cache_path: Union[str, "os.PathLike[str]", None] = None,
        cache_mode: str = "read-write",
        tuning: str = "now",
        tuning_budget: Optional[float] = None,
        threads: Optional[int] = None,
        nvrtc_path: Union[str, "os.PathLike[str]", None] = None,
        log: Optional[LogFn] = None,
        checked: bool = False,
    ) -> None:
        if log is not None and not callable(log):
            raise TypeError(f"log is a {type(log).__name__}; expected a callable log(level, message) or None")
        given = _kinds.read(
            _kinds.HANDLE,
            device=device,
            cache_path=cache_path,
            tuning_budget=tuning_budget,
            threads=threads,
            nvrtc_path=nvrtc_path,
            checked=checked,
        )
        self._core = _gqa.Handle(
            cache_mode=one_of("cache_mode", cache_mode, CACHE_MODES),
            tuning=one_of("tuning", tuning, TUNINGS),
            log=log,
            **given,
        )
        self._device: str = given["device"] or "auto"

    def _core_of(self, device: str) -> _gqa.Handle:
        return self._core  # whatever device the tensors are on: the library says if it is another

    def attention(
        self,
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
    ) -> Any:
        """gqa.attention on this handle."""
        window, arrays = windowed(window_size), of_scores(score_scale, bias)
        return attend(self._core_of, q, k, v, causal, scale, out, return_lse, window, softcap, sink, arrays=arrays)

    def warm(
        self,
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
    ) -> None:
        """Does what the first call of such a shape would do, and computes nothing; see gqa.warm."""
        given = _kinds.read(
            _kinds.SHAPE,
            batch=batch,
            q_len=q_len,
            kv_len=kv_len,
            q_heads=q_heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            head_dim_v=head_dim_v,
            causal=causal,
            return_lse=return_lse,
            page=page,
            window_size=window_size,
            cache_seqlens=cache_seqlens,
            cu_seqlens_q=cu_seqlens_q,
            cu_seqlens_k=cu_seqlens_k,
            softcap=softcap,
            sink=sink,
            align=align,
            tma=tma,
        )
        of_q = dtype_of(dtype)
        self._core.warm(
            dtype=(of_q.code, of_q.bits),
            lse=given.pop("return_lse"),
            window=given.pop("window_size"),
            score_scale=one_of("score_scale", score_scale, SCORE_SCALES),
            bias=_bias_of(bias, of_q),
            **given,
        )

    def warm_serving(
        self,
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
    ) -> ServingProgress:
        """Does what the first calls of every shape of a range would do, and computes nothing; see gqa.warm_serving."""
        check_verbose(verbose)
        given = _kinds.read(
            _kinds.SERVING,
            range=range,
            q_heads=q_heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            head_dim_v=head_dim_v,
            window_size=window_size,
            softcap=softcap,
            sink=sink,
            plan_only=plan_only,
        )
        last: List[ServingProgress] = []
        with listener(verbose) as told:

            def tell(fields: Dict[str, Any]) -> None:
                last[:] = [ServingProgress(**fields)]
                if told is not None:
                    told(last[0])

            self._core.warm_serving(window=given.pop("window_size"), progress=tell, **given)
        return last[0]

    def cancel(self) -> None:
        """Ends every call of this handle that is tuning, in any thread, within half a second: each raises
        CancelledError. Calls that need no tuning, and all later ones, are unaffected. Ctrl-C does this by itself, and
        raises KeyboardInterrupt."""
        self._core.cancel()

    @property
    def device(self) -> str:
        """The device asked for; "host" where that was "cpu"."""
        return self._device

    @property
    def closed(self) -> bool:
        return self._core.closed

    def close(self) -> None:
        """Waits for queued work, then frees kernels and workspace. Twice is fine."""
        if not self._core.closed:
            synchronize(self._device)
            self._core.close()

    def __enter__(self) -> "Handle":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"gqa.Handle({self._device!r}{', closed' if self.closed else ''})"


def one_of(name: str, value: Any, known: Mapping[Any, int]) -> int:
    if (value is None or isinstance(value, str)) and value in known:
        return known[value]
    choices = ", ".join(repr(choice) for choice in known)
    raise _kinds.refuse(name, value, f"one of {choices}", Status.ERROR_OPTION)


def _bias_of(dtype: Any, of_q: DType) -> int:
    """A gqa_bias."""
    if dtype is None:
        return 0
    found = known(dtype)
    if found in (float32, of_q):
        return 2 if found is float32 else 1
    expected = f"float32{'' if of_q is float32 else f' or, as q, {of_q}'}: the dtype of the bias; None: none"
    raise error_for(Status.ERROR_DTYPE, f"bias is {name_of(dtype) or _kinds.shown(dtype)}; expected {expected}")
