"""Whether PyTorch has to see a call: where a tracer, a compiler, a mode, a transform of torch.func, autocast or the profiler is
active, or forward-mode gradients are, calls on its tensors go through its operators (gqa.torch).

Owns: that question, which every call asks, and the moment at which the operators are defined: as gqa is imported, or as
PyTorch is after it. Never: imports torch: it asks the one that its caller has imported. Threads: any; what is active is
each thread's own.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, Callable, List, Tuple

_LEAST_TORCH = (2, 10)

_torch: Any = None  # once the operators are defined
_operators: Any = None  # likewise: gqa.torch
# PyTorch's own questions, each asked once a call
_compiled: Callable[[], bool]
_dispatch_modes: Callable[[], int]
_function_modes: Callable[[], int]
_transforms: Callable[[], Any]
_traces: Callable[[], Any]
_autocasts: Callable[[], bool]
_profiler: Any
_forward_ad: Any
_PLAIN: Tuple[type, ...]  # types that have no operators of their own


def active(tensor: Any) -> bool:
    """Whether the call that this tensor leads is one for the operators."""
    if _torch is None:
        return False
    if type(tensor) not in _PLAIN:
        if not isinstance(tensor, _torch.Tensor):
            return False
        if _dispatches(type(tensor)):
            return True
    return bool(  # of recorded() the questions themselves: a call of it would cost as much as three
        _compiled()
        or _dispatch_modes()
        or _transforms() is not None
        or _traces() is not None
        or _function_modes()
        or _autocasts()
        or _profiler._is_profiler_enabled
        or _forward_ad._current_level >= 0
    )


def recorded(tensor: Any) -> bool:
    """Whether something else than the library will run the call, perhaps later; of a tensor of PyTorch's."""
    if _compiled():
        return True
    kind = type(tensor)
    return bool(
        _dispatch_modes()
        or _transforms() is not None
        or _traces() is not None
        or (kind not in _PLAIN and _dispatches(kind))
    )


def _dispatches(kind: type) -> bool:
    return getattr(kind, "__torch_dispatch__", None) is not _torch._C._disabled_torch_dispatch_impl


def operators() -> Any:
    """The module gqa.torch, once something was active."""
    return _operators


def needed() -> Any:
    """The same for who cannot do without; raises ImportError where there is no PyTorch, or one that is too old."""
    return importlib.import_module("gqa.torch")


def define() -> None:
    """Once, as gqa is imported. A compiler may be the first to meet a tensor, and must find them: so they do not wait for one."""
    if "torch" in sys.modules:
        _define()
    else:
        finder: Any = _AfterTorch()
        sys.meta_path.insert(0, finder)


class _AfterTorch:  # a MetaPathFinder; importlib.abc, which has the class, would cost `import gqa` a third of its time
    """Finds torch as everyone else does, and defines the operators once it is imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        meta_path: List[Any] = sys.meta_path
        meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                _define()

            loader.exec_module = exec_module
        return spec


def _define() -> None:
    torch = sys.modules["torch"]
    if not hasattr(torch, "compiler") or not hasattr(torch, "library"):
        return  # of another name than PyTorch's, or gqa is imported by what torch itself imports
    try:
        importlib.import_module("gqa.torch")
    except ImportError:
        pass  # check() has refused it: functions work as without operators


def check(torch: Any) -> None:
    """Raises where this PyTorch is too old."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _LEAST_TORCH:
        least = ".".join(map(str, _LEAST_TORCH))
        raise ImportError(f"gqa.torch needs PyTorch {least} or newer, this is {torch.__version__}")


def watch(torch: Any, operators: Any) -> None:
    """Begins to ask this PyTorch, whose calls are then sent to `operators`."""
    global _torch, _operators, _compiled, _dispatch_modes, _function_modes, _transforms, _traces, _autocasts
    global _profiler, _forward_ad, _PLAIN
    _compiled = torch.compiler.is_dynamo_compiling
    _dispatch_modes, _function_modes = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
    _transforms, _traces = torch._C._functorch.peek_interpreter_stack, torch._C._get_tracing_state
    _autocasts = torch._C._is_any_autocast_enabled
    _profiler, _forward_ad = torch.autograd.profiler, torch.autograd.forward_ad
    _PLAIN = (torch.Tensor, torch.nn.Parameter)
    _operators = operators
    _torch = torch
