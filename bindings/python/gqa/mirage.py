"""Mirage's names, and those of YiRage, its fork: a program changes its import only.

    import gqa.mirage as mi

    graph = mi.new_kernel_graph()
    x = graph.new_input(dims=(16, 4096), dtype=mi.float16)
    w = graph.new_input(dims=(4096, 4096), dtype=mi.float16)
    y = graph.silu(graph.matmul(x, w))
    optimized_graph = graph.superoptimize()
    outputs = optimized_graph(inputs=[x_tensor, w_tensor])        # a list

or, with gqa.install_as("mirage") or ("yirage"), nothing. docs/integrations.md says what is taken and what is refused.

Owns: Mirage's names, orders of arguments and options, and what they are here. Never: searches or computes; gqa's graphs
do. Threads: one graph, one thread at a time; an optimized graph, any number.
"""

from __future__ import annotations

import functools
import sys
from numbers import Real
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple, Union

from . import _defaults, _gqa, _kinds
from ._dtypes import bfloat16, float16, float32
from ._errors import Status, error_for
from ._graph import KernelGraph, Value
from ._handle import Handle
from ._optimized import Optimized, asked_for

__version__ = "0.2.4+gqa"

__all__ = [
    "DTensor",
    "KNGraph",
    "OptimizedGraph",
    "bfloat16",
    "bypass_compile_errors",
    "float16",
    "float32",
    "new_kernel_graph",
    "new_threadblock_graph",
    "set_gpu_device_id",
]

_CONFIGS = {None: None, "attention": "attention", "lora": None, "mlp": None}  # a name there, and what it is here
_BACKENDS = {None: "auto", "cuda": "auto", "cpu": "host"}
_MOST_FACTORS = 8  # of a power that is put as a product

_device = "auto"  # where superoptimize begins


class DTensor(Value):
    """A tensor of a graph: gqa.Value, with Mirage's two names."""

    __slots__ = ()

    @property
    def num_dims(self) -> int:
        return len(self.dims)

    def dim(self, idx: int) -> int:
        """The size of dimension idx."""
        at = _kinds.dim("idx", idx)
        if -len(self.dims) <= at < len(self.dims):
            return self.dims[at]
        raise error_for(Status.ERROR_RANK, f"idx is {at}; expected 0 to {len(self.dims) - 1}")


class _Operators(KernelGraph):
    def _value(self, core: _gqa.GraphValue) -> Value:
        return DTensor(self, core)


class KNGraph:
    """Mirage's graph: its operators put on gqa.KernelGraph, which .kernel_graph is. Raises GqaValueError and
    GqaTypeError, and NotImplementedError for what gqa's graphs do not have."""

    def __init__(self) -> None:
        self.kernel_graph: KernelGraph = _Operators()
        self._orders: List[Optional[Tuple[int, ...]]] = []  # of each marked output: how its dimensions lie in memory

    def new_input(self, dims: Sequence[int], strides: Optional[Sequence[int]] = None, dtype: Any = float16) -> DTensor:
        """An input of these sizes. strides: in elements; None for row-major. dtype: float16, bfloat16 or float32."""
        return self._put(self.kernel_graph.new_input(dims, dtype, strides))

    def mark_output(self, A: DTensor, strides: Optional[Sequence[int]] = None) -> None:
        """Makes A the next output. strides: of dimensions in any order without gaps; None for row-major. Without any
        mark, every result that no operator reads is an output."""
        order = None if strides is None else _order_of(A, _kinds.whole_numbers("strides", strides))
        self.kernel_graph.mark_output(A if order is None else self.kernel_graph.transpose(A, order))
        self._orders.append(order)

    def matmul(self, A: DTensor, B: DTensor) -> DTensor:
        return self._put(self.kernel_graph.matmul(A, B))

    def reduction(self, A: DTensor, dim: int) -> DTensor:
        """The sum along dim, which stays with size 1."""
        return self._put(self.kernel_graph.sum(A, dim))

    def exp(self, A: DTensor) -> DTensor:
        return self._put(self.kernel_graph.exp(A))

    def silu(self, A: DTensor) -> DTensor:
        return self._put(self.kernel_graph.silu(A))

    def gelu(self, A: DTensor) -> DTensor:
        return self._put(self.kernel_graph.gelu(A))

    def relu(self, A: DTensor) -> DTensor:
        return self._put(self.kernel_graph.relu(A))

    def clamp(self, A: DTensor, min_val: float, max_val: float) -> DTensor:
        return self._put(self.kernel_graph.clamp(A, min_val, max_val))

    def sqrt(self, A: DTensor) -> DTensor:
        return self._put(self.kernel_graph.sqrt(A))

    def square(self, A: DTensor) -> DTensor:
        return self._put(self.kernel_graph.square(A))

    def add(self, A: DTensor, B: DTensor) -> DTensor:
        return self._put(self.kernel_graph.add(A, B))

    def mul(self, A: DTensor, B: DTensor) -> DTensor:
        return self._put(self.kernel_graph.mul(A, B))

    def div(self, A: DTensor, B: DTensor) -> DTensor:
        return self._put(self.kernel_graph.div(A, B))

    def pow(self, A: DTensor, B: float) -> DTensor:
        """A to a power that is a number: 0.5 or 1 to 8, or minus that."""
        times = abs(B) if isinstance(B, Real) else None
        if times == 0.5:
            result = self.sqrt(A)
        elif times in range(1, _MOST_FACTORS + 1):
            factors = [A] * (int(times) - 2)
            result = functools.reduce(self.kernel_graph.mul, factors, self.square(A)) if times > 1 else A
        else:
            expected = f"expected 0.5, or a whole number of 1 to {_MOST_FACTORS}, or minus that"
            _refuse(f"pow by {_kinds.shown(B)}", expected)
        return self._put(result if B > 0 else self.kernel_graph.reciprocal(result))

    def rms_norm(self, A: DTensor, normalized_shape: Sequence[int], epsilon: float = 1e-6) -> DTensor:
        """A / sqrt(mean(A^2) + epsilon) along the last dimension. normalized_shape: its size, in a tuple."""
        shape = tuple(_kinds.whole_numbers("normalized_shape", normalized_shape))
        if isinstance(A, Value) and shape != A.dims[-1:]:
            if len(shape) > 1 and shape == A.dims[-len(shape) :]:
                _refuse(f"rms_norm over {len(shape)} dimensions", "expected the last dimension alone")
            raise error_for(
                Status.ERROR_SHAPE,
                f"normalized_shape is {shape}; expected {A.dims[-1:]}, the last dimension of {A.dims}",
            )
        return self._put(self.kernel_graph.rms_norm(A, epsilon=epsilon))

    def superoptimize(
        self,
        imaps: Any = None,
        omaps: Any = None,
        griddims: Any = None,
        blockdims: Any = None,
        fmaps: Any = None,
        franges: Any = None,
        verbose: bool = False,
        config: Optional[str] = None,
        backend: Optional[str] = "cuda",
        warmup_iters: int = 16,
        profile_iters: int = 1000,
        use_graph_dataset: bool = True,
        use_cached_graphs: bool = True,
        save_codes: bool = False,
        is_formal_verified: bool = False,
        use_symbolic_search: bool = False,
        symbolic_checkpoint: Optional[str] = None,
        search_time_limit_sec: float = -1.0,
    ) -> "OptimizedGraph":
        """The fastest program equal to this graph: from gqa's cache, or searched for, proved, compiled and timed.

        verbose: True prints progress to stderr. config: None, "attention", "mlp" or "lora"; "attention" tries the tile
        sizes that suit it, the others are None's. backend: "cuda" or None, the first GPU if there is one, else the
        CPU; "cpu". use_cached_graphs: False neither reads gqa's cache nor adds to it. search_time_limit_sec: seconds to
        spend on compiling and timing; 0 or less: 8.
        No effect, since they steer Mirage's own search: imaps, omaps, griddims, blockdims, fmaps, franges,
        warmup_iters, profile_iters, use_graph_dataset, use_symbolic_search.
        save_codes, is_formal_verified and symbolic_checkpoint raise NotImplementedError where they are given.
        """
        if _kinds.flag("save_codes", save_codes):
            _refuse("save_codes=True", "the program is in optimized_graph.to_text() and explain()")
        if _kinds.flag("is_formal_verified", is_formal_verified):
            proofs = "every program is proved over finite fields, which is a random test; leave it out"
            _refuse("is_formal_verified=True", proofs)
        if symbolic_checkpoint is not None:
            _refuse("symbolic_checkpoint", "programs are kept in gqa's cache; leave it out")
        limit = _kinds.number("search_time_limit_sec", search_time_limit_sec)
        asked = asked_for(
            self.kernel_graph.to_text(),
            _one_of("config", config, _CONFIGS),
            limit if limit > 0 else None,
            _kinds.flag("verbose", verbose),
            None,
        )
        device = _one_of("backend", backend, _BACKENDS)
        handle = _defaults.of(_device if device == "auto" else device)
        handle_of: Callable[[str], Handle] = _defaults.of
        if not _kinds.flag("use_cached_graphs", use_cached_graphs):
            handle_of = functools.lru_cache(maxsize=None)(functools.partial(Handle, cache_mode="off"))
            handle = handle_of(handle.device)
        return OptimizedGraph(Optimized(asked, handle, handle_of), self._orders)

    def __call__(self, *given: Any, **named: Any) -> NoReturn:
        _refuse("a call of a graph that is not superoptimized", "call what graph.superoptimize() returns")

    @staticmethod
    def _put(value: Value) -> DTensor:
        assert isinstance(value, DTensor)
        return value


class OptimizedGraph:
    """What superoptimize found, gqa.Optimized: called with a list of tensors, it returns a list of the outputs.

    Tensors of other dims than declared get a program of their own at their first call, as gqa.Optimized says.
    """

    def __init__(self, optimized: Optimized, orders: Sequence[Optional[Tuple[int, ...]]]) -> None:
        self._optimized = optimized
        self._views = [None if order is None else _inverse(order) for order in orders]
        self._as_made = not any(self._views)

    def __call__(self, inputs: Sequence[Any], stream: Any = None) -> List[Any]:
        """The outputs, in the order of mark_output. inputs: a list of tensors in the order of new_input. stream: a
        torch.cuda.Stream; None for the current one."""
        if not isinstance(inputs, (list, tuple)):
            raise _kinds.refuse("inputs", inputs, "a list of tensors, one for each new_input")
        if stream is not None:
            return self._on(stream, inputs)
        result = self._optimized(inputs)
        results = list(result) if isinstance(result, tuple) else [result]
        return results if self._as_made else [_turned(x, view) for x, view in zip(results, self._views)]

    def _on(self, stream: Any, inputs: Sequence[Any]) -> List[Any]:
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(stream, torch.cuda.Stream):
            raise _kinds.refuse("stream", stream, "a torch.cuda.Stream, or None for the current stream")
        with torch.cuda.stream(stream):
            return self(inputs)

    def explain(self) -> str:
        """What was searched, what was proved, what was measured."""
        return self._optimized.explain()

    @property
    def from_cache(self) -> bool:
        """True where nothing was searched, compiled or timed, for any dims so far."""
        return self._optimized.from_cache

    def to_text(self) -> str:
        """The program as a graph whose operators are the kernels that were made."""
        return self._optimized.to_text()

    def __repr__(self) -> str:
        return repr(self._optimized).replace("gqa.Optimized", "gqa.mirage.OptimizedGraph")


def new_kernel_graph() -> KNGraph:
    """An empty graph."""
    return KNGraph()


def new_threadblock_graph(*given: Any, **named: Any) -> NoReturn:
    """Raises NotImplementedError."""
    _refuse("new_threadblock_graph", _BLOCKS)


def set_gpu_device_id(device_id: int) -> None:
    """Graphs that are superoptimized from now on are for this GPU first."""
    global _device
    _device = f"cuda:{_kinds.count('device_id', device_id)}"


def bypass_compile_errors(value: bool = True) -> None:
    """No effect: a program that does not compile is named in explain() and never used."""
    _kinds.flag("value", value)


# ---- what is not here

_BLOCKS = "the search makes the kernels' block graphs; put their operators into the graph and superoptimize it"
_SERVES = "gqa makes no persistent kernels; superoptimize() the graph and call it"

_NO_METHODS: Dict[str, str] = {
    "customized": _BLOCKS,
    "to_json": "graph.kernel_graph.to_json() is the graph in gqa's own form",
    "from_json": "gqa.graph_from_json reads gqa's own form",
    "visualize": "graph.kernel_graph.to_svg() is the drawing",
    "compile": "superoptimize() compiles",
    "valid_kernels": "superoptimize() raises where no program is valid",
    "get_error_message": "explain() names the programs that failed, superoptimize() raises where all did",
    "get_owner_independent_hash": "graph.kernel_graph.hash is gqa's",
    **dict.fromkeys(("attach_torch_tensor", "attach_cuda_tensor", "attach_nvshmem_tensor"), _SERVES),
    **dict.fromkeys(("fuse_tensors", "shuffle_tensors", "register_task", "generate_task_graph"), _SERVES),
}
_NO_DTYPES = (
    *("float8", "float8_e4m3", "float64"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
)
_NO_NAMES: Dict[str, str] = {
    **dict.fromkeys(_NO_DTYPES, "tensors of graphs are float16, bfloat16 or float32"),
    **dict.fromkeys(("PersistentKernel", "MPK", "MPKMetadata", "MirageModelConfig", "spec_decode_class"), _SERVES),
    **dict.fromkeys(("TBGraph", "STensor"), _BLOCKS),
    "graph_dataset": "gqa's cache keeps programs",
    "global_config": "set_gpu_device_id, gqa.Handle and gqa.configure have options",
}


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"gqa.mirage has no {name}" + (f": {_NO_NAMES[name]}" if name in _NO_NAMES else ""))


def _refuse(what: str, instead: str) -> NoReturn:
    raise NotImplementedError(f"gqa.mirage has no {what}: {instead}")


def _lacking(name: str) -> Callable[..., NoReturn]:
    def method(self: KNGraph, *given: Any, **named: Any) -> NoReturn:
        _refuse(name, _NO_METHODS[name])

    method.__name__, method.__doc__ = name, f"Raises NotImplementedError: {_NO_METHODS[name]}."
    return method


for _name in _NO_METHODS:
    setattr(KNGraph, _name, _lacking(_name))


# ---- how


def _one_of(name: str, given: Any, known: Dict[Any, Any]) -> Any:
    if given is None or (isinstance(given, str) and given in known):
        return known[given]
    raise _kinds.refuse(name, given, f"one of {', '.join(map(repr, known))}", Status.ERROR_OPTION)


def _order_of(value: Any, strides: Sequence[int]) -> Optional[Tuple[int, ...]]:
    """The dimensions of a value from the outermost in memory to the innermost; None: as they are."""
    dims: Tuple[int, ...] = value.dims if isinstance(value, Value) else ()
    order: List[int] = []
    if len(strides) == len(dims):
        order = sorted(range(len(dims)), key=lambda axis: (-strides[axis], dims[axis] == 1, axis))
    step = 1
    for axis in reversed(order):
        if dims[axis] > 1 and strides[axis] != step:
            order = []
            break
        step *= dims[axis]
    if dims and not order:
        raise error_for(
            Status.ERROR_STRIDE,
            f"strides of an output of dims {dims} are {tuple(strides)[:8]}; expected those of its dimensions in some "
            "order, without gaps, or None for row-major",
        )
    return None if order == sorted(order) else tuple(order)


def _inverse(order: Tuple[int, ...]) -> Tuple[int, ...]:
    return tuple(order.index(axis) for axis in range(len(order)))


def _turned(result: Any, order: Optional[Tuple[int, ...]]) -> Any:
    if order is None:
        return result
    turn: Union[Callable[..., Any], None] = getattr(result, "permute", None) or getattr(result, "transpose", None)
    if turn is None:
        raise error_for(
            Status.ERROR_STRIDE,
            f"an output was marked with strides, and a {type(result).__name__} cannot be turned; expected tensors of "
            "PyTorch, NumPy or CuPy, or outputs marked without strides",
        )
    return turn(order)
