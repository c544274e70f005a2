"""What each framework is asked for: a tensor's device, its stream, an export, a new tensor of its kind.

Owns: the table from a tensor's type to its Kind, and DLPack's __dlpack__ arguments. Imports no framework: a type is
recognised by the framework its caller has imported already.
Never: looks at shapes or dtypes; the library does. Threads: any; the table only grows.
"""

from __future__ import annotations

import array
import functools
import importlib
import sys
from typing import Any, Dict, FrozenSet, Optional, Sequence, Tuple

from . import _gqa
from ._dtypes import DType
from ._errors import GqaError, Status, error_for

_CPU, _CUDA, _PINNED, _MANAGED = 1, 2, 3, 13  # DLDeviceType
_INT = 0  # DLDataTypeCode
_LEGACY_STREAM = 1  # what the array API calls CUDA's legacy default stream; 0 would be ambiguous there


class Kind:
    """A framework. The base class asks only what DLPack and the array API promise."""

    as_is: FrozenSet[type] = frozenset()  # types whose tensors _gqa takes as they are

    def device(self, tensor: Any) -> str:
        """The device option of the handle that serves this tensor."""
        kind, index = tensor.__dlpack_device__()
        if kind in (_CPU, _PINNED):
            return "host"
        if kind in (_CUDA, _MANAGED):
            return f"cuda:{index}"
        raise error_for(
            Status.ERROR_NO_DEVICE,
            f"{type(tensor).__name__} is on DLPack device ({int(kind)}, {int(index)}); expected host memory (1) or a "
            "CUDA device (2). Move it to one of these first.",
        )

    def stream(self, tensor: Any) -> int:
        """The CUDA stream the framework works on now, as an address; 0: the legacy default stream."""
        return 0

    def capturing(self, tensor: Any) -> bool:
        """Whether the stream that the framework works on now is being captured, so that nothing may be tuned."""
        return False

    def export(self, tensor: Any) -> Any:
        """What _gqa takes, for work on this kind's own stream."""
        return self.export_to(tensor, self.stream(tensor))

    def export_to(self, tensor: Any, stream: int) -> Any:
        """A capsule for work on another's stream: the producer makes that stream wait for what is not done yet."""
        kind = tensor.__dlpack_device__()[0]
        keywords: Dict[str, Any] = {"stream": stream or _LEGACY_STREAM} if kind in (_CUDA, _MANAGED) else {}
        try:
            return tensor.__dlpack__(max_version=(1, 0), **keywords)
        except TypeError:  # a producer older than DLPack 1.0
            return tensor.__dlpack__(**keywords)

    def empty(self, like: Any, shape: Sequence[int]) -> Any:
        raise NotImplementedError

    def empty_of(self, like: Any, shape: Sequence[int], dtype: DType) -> Any:
        """Beside `like`, of a dtype of its own."""
        raise NotImplementedError

    def result(self, q: Any, q_shape: Sequence[int], width: int) -> Any:
        """What a call writes: as q but for its last dimension, contiguous."""
        return self.empty(q, (*q_shape[:-1], width))

    def int32s(self, like: Any, count: int, value: int) -> Any:
        """So many equal numbers beside `like`; in host memory what speaks the buffer protocol will do."""
        if self.device(like) == "host":
            return array.array("i", [value]) * count
        raise error_for(
            Status.ERROR_OPTION,
            f"{type(like).__name__} is on a CUDA device, and gqa does not know how to make one; pass a tensor of lengths",
        )

    def multiples(self, like: Any, count: int, step: int) -> Any:
        """0, step, 2 step, ...: so many int32 beside `like`; step is above 0."""
        raise NotImplementedError

    def host_int32s(self, shape: Sequence[int]) -> Any:
        """In host memory, whatever is in it."""
        return _gqa.empty(list(shape), _INT, 32)

    def oddity(self, tensor: Any) -> str:
        """What a tensor is whose elements the library could not find, and what to do. "": it is none."""
        return ""

    def elsewhere(self, tensor: Any) -> str:
        """Likewise where it is, if the library reaches no memory there."""
        return ""

    def refuse(self, *tensors: Any) -> None:
        """Raises where the framework would expect more of the result than the library gives."""

    def refuse_later(self, result: Any, *tensors: Any) -> Any:
        """The result, which raises where the framework asks for more than the library gives."""
        return result


class Foreign:
    """A tensor of a framework not known by name, exported once and described by its capsule."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.capsule = KINDS[Foreign].export_to(tensor, 0)
        self.shape, self.code, self.bits, self.device_type, self.device_index = _gqa.describe(self.capsule)


class ForeignKind(Kind):
    def device(self, tensor: Foreign) -> str:
        return super().device(tensor.tensor)

    def export(self, tensor: Foreign) -> Any:
        return tensor.capsule

    def export_to(self, tensor: Any, stream: int) -> Any:
        # Called with the tensor itself when it is wrapped, and with its wrapper when another kind leads the call.
        return super().export_to(tensor.tensor if isinstance(tensor, Foreign) else tensor, stream)

    def empty(self, like: Foreign, shape: Sequence[int]) -> Any:
        return self._empty(like, shape, like.code, like.bits)

    def empty_of(self, like: Foreign, shape: Sequence[int], dtype: DType) -> Any:
        return self._empty(like, shape, dtype.code, dtype.bits)

    def _empty(self, like: Foreign, shape: Sequence[int], code: int, bits: int) -> Any:
        if like.device_type in (_CPU, _PINNED):
            return _gqa.empty(list(shape), code, bits)
        raise error_for(
            Status.ERROR_OPTION,
            f"the first tensor is a {type(like.tensor).__name__} on a CUDA device, and gqa does not know how to make one; "
            "pass out= (without return_lse), or hand the tensors in through torch.from_dlpack or cupy.from_dlpack",
        )


class NumpyKind(Kind):
    """The buffer protocol instead of a capsule: it also takes read-only arrays, and costs less."""

    def __init__(self, numpy: Any) -> None:
        self._numpy, self._empty = numpy, numpy.empty
        self.as_is = frozenset((numpy.ndarray,))

    def device(self, tensor: Any) -> str:
        return "host"

    def export(self, tensor: Any) -> Any:
        return tensor

    def export_to(self, tensor: Any, stream: int) -> Any:
        return tensor

    def empty(self, like: Any, shape: Sequence[int]) -> Any:
        return self._empty(shape, like.dtype)

    def empty_of(self, like: Any, shape: Sequence[int], dtype: DType) -> Any:
        return self._empty(shape, like.dtype if like.dtype.name == dtype.name else _numpy_dtype(self._numpy, dtype))

    def multiples(self, like: Any, count: int, step: int) -> Any:
        return self._numpy.arange(0, count * step, step, dtype=self._numpy.int32)

    def host_int32s(self, shape: Sequence[int]) -> Any:
        return self._empty(shape, self._numpy.int32)


def _numpy_dtype(numpy: Any, dtype: DType) -> Any:
    """NumPy's own, or its arrays' dtype that the package ml_dtypes makes."""
    if dtype.name != "bfloat16":
        return getattr(numpy, dtype.name)
    try:
        return importlib.import_module("ml_dtypes").bfloat16
    except ImportError as cause:
        raise error_for(
            Status.ERROR_DTYPE,
            "the result is bfloat16, which NumPy has only with the package ml_dtypes; install it, or hand in tensors "
            "of another framework",
            cause,
        )


class TorchKind(Kind):
    def __init__(self, torch: Any) -> None:
        self._to_dlpack = torch.utils.dlpack.to_dlpack
        if getattr(torch.Tensor, "__dlpack_c_exchange_api__", None) is None:
            self.export = self._to_dlpack  # type: ignore[method-assign]
        else:
            self.as_is = frozenset((torch.Tensor, torch.nn.Parameter))
        self._empty, self._empty_like = torch.empty, torch.empty_like
        self._full, self._arange, self._int32 = torch.full, torch.arange, torch.int32
        self._dtypes = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32")}
        self._grad_enabled = torch.is_grad_enabled
        raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        self._raw_stream = raw_stream or (lambda index: torch.cuda.current_stream(index).cuda_stream)

    def device(self, tensor: Any) -> str:
        if tensor.is_cpu:
            return "host"
        if tensor.is_cuda:
            return _CUDA_NAMES[tensor.get_device()]
        raise error_for(
            Status.ERROR_NO_DEVICE,
            f"a torch tensor is on '{tensor.device}'; expected 'cpu' or 'cuda'. Move it to one of these first.",
        )

    def export(self, tensor: Any) -> Any:
        """Itself, where _gqa can ask its type for what a capsule says: that costs less."""
        return tensor if type(tensor).__dlpack_c_exchange_api__ is not None else self._to_dlpack(tensor)

    def stream(self, tensor: Any) -> int:
        return self._raw_stream(tensor.get_device()) if tensor.is_cuda else 0

    def capturing(self, tensor: Any) -> bool:
        return tensor.is_cuda and sys.modules["torch"].cuda.is_current_stream_capturing()

    def empty(self, like: Any, shape: Sequence[int]) -> Any:
        return like.new_empty(shape)

    def empty_of(self, like: Any, shape: Sequence[int], dtype: DType) -> Any:
        wanted = self._dtypes[dtype.name]
        return like.new_empty(shape) if like.dtype is wanted else like.new_empty(shape, dtype=wanted)

    def result(self, q: Any, q_shape: Sequence[int], width: int) -> Any:
        if q_shape[-1] == width and q.is_contiguous():  # three fifths of what new_empty costs
            return self._empty_like(q)
        return q.new_empty((*q_shape[:-1], width))

    def int32s(self, like: Any, count: int, value: int) -> Any:
        return self._full((count,), value, dtype=self._int32, device=like.device)

    def multiples(self, like: Any, count: int, step: int) -> Any:
        return self._arange(0, count * step, step, dtype=self._int32, device=like.device)

    def host_int32s(self, shape: Sequence[int]) -> Any:
        return self._empty(shape, dtype=self._int32)

    def oddity(self, tensor: Any) -> str:
        torch = sys.modules["torch"]
        if type(tensor).__name__ == "FakeTensor":
            return "a fake tensor, which has no memory, beside tensors that have; expected all of one kind"
        inside = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)
        if inside is not None and inside(tensor):
            return "a tensor of a transform of torch.func (vmap, grad, ...) outside of it; call within"
        return self.layout_oddity(tensor)

    def elsewhere(self, tensor: Any) -> str:
        if tensor.is_cpu or tensor.is_cuda:
            return ""
        return f"on '{tensor.device}'; expected 'cpu' or 'cuda', where the call's other tensors are: move it there"

    @staticmethod
    def layout_oddity(tensor: Any) -> str:
        """What a tensor is that no operator takes either."""
        if getattr(tensor, "is_nested", False):
            return "a nested tensor; expected a dense one, or packed sequences (flash_attn_varlen_func)"
        if tensor.layout is not sys.modules["torch"].strided:
            return f"a sparse tensor ({tensor.layout}); expected a dense one, as to_dense() gives"
        return ""

    def _asks_for_gradients(self, tensors: Sequence[Any]) -> bool:
        if self._grad_enabled():
            for tensor in tensors:
                if getattr(tensor, "requires_grad", False):
                    return True
        return False

    def refuse(self, *tensors: Any) -> None:
        if self._asks_for_gradients(tensors):
            raise error_for(
                Status.ERROR_OPTION,
                "an input requires a gradient, and gqa computes none; call under torch.no_grad() or detach() them",
            )

    def refuse_later(self, result: Any, *tensors: Any) -> Any:
        if not self._asks_for_gradients(tensors):
            return result
        inputs = (t for t in tensors if getattr(t, "requires_grad", False))
        return _no_backward(sys.modules["torch"]).apply(result, *inputs)


@functools.lru_cache(maxsize=None)
def _no_backward(torch: Any) -> Any:
    """An autograd function that hands its first argument on, and whose backward raises."""

    class NoBackward(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, result: Any, *inputs: Any) -> Any:
            return result

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            raise NotImplementedError("gqa computes no gradients; call under torch.no_grad() or detach() the inputs")

    return NoBackward


class CupyKind(Kind):
    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def device(self, tensor: Any) -> str:
        return _CUDA_NAMES[tensor.device.id]

    def stream(self, tensor: Any) -> int:
        return int(self._cupy.cuda.get_current_stream(tensor.device.id).ptr)

    def capturing(self, tensor: Any) -> bool:
        return bool(self._cupy.cuda.get_current_stream(tensor.device.id).is_capturing())

    def empty(self, like: Any, shape: Sequence[int]) -> Any:
        with like.device:
            return self._cupy.empty(shape, like.dtype)

    def empty_of(self, like: Any, shape: Sequence[int], dtype: DType) -> Any:
        with like.device:
            return self._cupy.empty(
                shape, like.dtype if like.dtype.name == dtype.name else _numpy_dtype(self._cupy, dtype)
            )

    def int32s(self, like: Any, count: int, value: int) -> Any:
        with like.device:
            return self._cupy.full((count,), value, dtype="int32")

    def multiples(self, like: Any, count: int, step: int) -> Any:
        with like.device:
            return self._cupy.arange(0, count * step, step, dtype="int32")


class _CudaNames(Dict[int, str]):
    def __missing__(self, index: int) -> str:
        self[index] = name = f"cuda:{index}"
        return name


_CUDA_NAMES = _CudaNames()

# module, its tensor class, its Kind: what a type is recognised by
_KNOWN: Tuple[Tuple[str, str, Any], ...] = (
    ("torch", "Tensor", TorchKind),
    ("numpy", "ndarray", NumpyKind),
    ("cupy", "ndarray", CupyKind),
)

KINDS: Dict[type, Kind] = {Foreign: ForeignKind()}


def adopt(tensor: Any, name: str) -> Any:
    """A tensor whose type is a key of KINDS: the tensor itself, its type recognised, or a Foreign around it."""
    for module_name, class_name, make in _KNOWN:
        module = sys.modules.get(module_name)
        known = getattr(module, class_name, None)
        if known is not None and isinstance(tensor, known):
            kind = KINDS[known] = KINDS.get(known) or make(module)
            if odd := kind.oddity(tensor):
                raise error_for(Status.ERROR_DTYPE, f"{name} is {odd}")
            KINDS[type(tensor)] = kind
            return tensor
    if not hasattr(tensor, "__dlpack__"):
        raise error_for(
            Status.ERROR_DTYPE,
            f"{name} is a {type(tensor).__name__}; expected an array or tensor that speaks DLPack (has __dlpack__), "
            "such as a NumPy array or a torch tensor",
        )
    try:
        return Foreign(tensor)
    except (BufferError, RuntimeError, TypeError, ValueError) as cause:
        raise not_exported(tensor, name, cause)


def not_exported(tensor: Any, name: str, cause: BaseException) -> BaseException:
    """What the framework said, in a line: the rest is its own stack."""
    if odd := refused_oddity({name: tensor}):
        return odd
    said = str(cause).strip().partition("\n")[0][:160]
    return error_for(
        Status.ERROR_DTYPE,
        f"{name} (a {type(tensor).__name__} of dtype {getattr(tensor, 'dtype', 'unknown')}) could not be exported "
        f"through DLPack: {said}",
        cause,
    )


def refused_oddity(tensors: Dict[str, Any]) -> Optional[GqaError]:
    """The refusal of the first tensor that is odd, if one is: asked once something has failed."""
    for name, tensor in tensors.items():
        kind = next((KINDS[base] for base in type(tensor).__mro__ if base in KINDS), None)
        if kind is None:
            continue
        if odd := kind.oddity(tensor):
            return error_for(Status.ERROR_DTYPE, f"{name} is {odd}")
        if place := kind.elsewhere(tensor):
            return error_for(Status.ERROR_NO_DEVICE, f"{name} is {place}")
    return None


def synchronize(device: str) -> None:
    """Waits for what known frameworks have queued, so that a handle's kernels are no longer running."""
    if device == "host":
        return
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize(None if ":" not in device else int(device.split(":")[1]))
    if cupy is not None and cupy.cuda.is_available():
        cupy.cuda.runtime.deviceSynchronize()
