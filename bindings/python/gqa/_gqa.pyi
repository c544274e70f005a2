"""The extension module: the C interface as Python sees it."""

from typing import Any, Callable, List, Optional, Tuple

class Handle:
    def __init__(
        self,
        *,
        device: Optional[str],
        cache_path: Optional[str],
        cache_mode: int,
        tuning: int,
        tuning_budget: float,
        threads: int,
        nvrtc_path: Optional[str],
        log: Optional[Callable[[str, str], None]],
    ) -> None: ...
    def run(self, q: Any, k: Any, v: Any, out: Any, lse: Any, scale: float, causal: bool, stream: int) -> None: ...
    def warm(
        self,
        *,
        batch: int,
        q_len: int,
        kv_len: int,
        q_heads: int,
        kv_heads: int,
        head_dim: int,
        head_dim_v: int,
        bfloat16: bool,
        causal: bool,
    ) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...
    @property
    def closed(self) -> bool: ...

class Array:
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...
    @property
    def shape(self) -> Tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...

def describe(capsule: Any) -> Tuple[Tuple[int, ...], int, int, int, int]: ...
def empty(shape: List[int], code: int, bits: int) -> Array: ...
def status_string(status: int) -> str: ...
def version() -> int: ...
