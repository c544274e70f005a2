"""gqa.KernelGraph: a program as a graph of operators on tensors; superoptimize() finds the fastest equal one.

    graph = gqa.new_kernel_graph()
    x = graph.new_input(dims=(16, 4096), dtype=gqa.float16)
    w = graph.new_input(dims=(4096, 4096), dtype=gqa.float16)
    y = graph.silu(x @ w)
    program = graph.superoptimize()
    out = program([x_tensor, w_tensor])

Owns: the names, Python's numbers as constants, the drawing by Graphviz. Never: judges a shape; the library does, when
an operator is put. Threads: one graph, one thread at a time.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, Callable, Optional, Sequence, Tuple, Union

from . import _drawing, _gqa, _kinds
from ._dtypes import DType, dtype_of, from_code
from ._errors import Status, error_for
from ._handle import Handle
from ._optimized import Optimized, SearchProgress, search

Operand = Union["Value", float]  # where one of two operands may be a number


class Value:
    """A tensor of a graph: an input, or an operator's result. + - * / take another value or a number, @ is matmul."""

    __slots__ = ("_graph", "_core", "_dims", "_dtype")
    __array_ufunc__ = None  # so that NumPy's numbers leave their operators to this class

    def __init__(self, graph: "KernelGraph", core: _gqa.GraphValue) -> None:
        self._graph, self._core = graph, core
        self._dims, code, bits = graph._core.describe(core)
        self._dtype = from_code(code, bits)

    @property
    def dims(self) -> Tuple[int, ...]:
        return self._dims

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def graph(self) -> "KernelGraph":
        return self._graph

    def __add__(self, other: Operand) -> "Value":
        return self._graph.add(self, other) if _is_operand(other) else NotImplemented

    def __sub__(self, other: Operand) -> "Value":
        return self._graph.sub(self, other) if _is_operand(other) else NotImplemented

    def __mul__(self, other: Operand) -> "Value":
        return self._graph.mul(self, other) if _is_operand(other) else NotImplemented

    def __truediv__(self, other: Operand) -> "Value":
        return self._graph.div(self, other) if _is_operand(other) else NotImplemented

    def __radd__(self, other: float) -> "Value":
        return self._graph.add(other, self) if _is_operand(other) else NotImplemented

    def __rsub__(self, other: float) -> "Value":
        return self._graph.sub(other, self) if _is_operand(other) else NotImplemented

    def __rmul__(self, other: float) -> "Value":
        return self._graph.mul(other, self) if _is_operand(other) else NotImplemented

    def __rtruediv__(self, other: float) -> "Value":
        return self._graph.div(other, self) if _is_operand(other) else NotImplemented

    def __matmul__(self, other: "Value") -> "Value":
        return self._graph.matmul(self, other) if isinstance(other, Value) else NotImplemented

    def __neg__(self) -> "Value":
        return self._graph.scale(self, -1.0)

    def __repr__(self) -> str:
        return f"gqa.Value(dims={self._dims}, dtype={self._dtype})"


class KernelGraph:
    """Operators on device tensors. Shapes and dtypes are checked as each is put; a refused one changes nothing.

    Dimensions of size 1 stretch where two operands meet. float16 and bfloat16 do not mix; float32 wins over both.
    dim counts from 0, or below 0 from the end. Raises GqaValueError and GqaTypeError.
    """

    def __init__(self) -> None:
        self._core = _gqa.Graph()

    # ---- tensors

    def new_input(
        self,
        dims: Sequence[int],
        dtype: Any,
        strides: Optional[Sequence[int]] = None,
        name: Optional[str] = None,
    ) -> Value:
        """An input of these sizes. strides: in elements; None for row-major without gaps. name: for texts and
        drawings only."""
        kind, called = dtype_of(dtype), _kinds.optional(_kinds.text, None)("name", name)
        steps = None if strides is None else _kinds.whole_numbers("strides", strides)
        sizes = _kinds.whole_numbers("dims", dims)
        return self._value(self._core.input(sizes, steps, kind.code, kind.bits, called))

    def mark_output(self, *values: Value) -> None:
        """Makes these the outputs, in this order. Without it, every result that no operator reads is one."""
        for value in values:
            self._core.output(_core_of("an output", value))

    def find(self, name: str) -> Value:
        """The tensor of that name."""
        return self._value(self._core.find(_kinds.text("name", name)))

    # ---- products, sums of two

    def matmul(self, a: Value, b: Value, transpose_a: bool = False, transpose_b: bool = False) -> Value:
        """(.., m, k) x (.., k, n) -> (.., m, n); transpose_a, transpose_b: an operand's last two are given swapped."""
        flags = _kinds.flag("transpose_a", transpose_a), _kinds.flag("transpose_b", transpose_b)
        return self._value(self._core.matmul(_core_of("a", a), _core_of("b", b), *flags))

    def add(self, a: Operand, b: Operand) -> Value:
        if _is_number(a):
            a, b = b, a
        return self.add_constant(a, b) if _is_number(b) else self._binary(self._core.add, a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        if _is_number(a):
            return self.add_constant(self.scale(b, -1.0), a)
        return self.add_constant(a, -_kinds.number("b", b)) if _is_number(b) else self._binary(self._core.sub, a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        if _is_number(a):
            a, b = b, a
        return self.scale(a, b) if _is_number(b) else self._binary(self._core.mul, a, b)

    def div(self, a: Operand, b: Operand) -> Value:
        if _is_number(a):
            inverse = self._value(self._core.reciprocal(_core_of("b", b)))
            return inverse if a == 1 else self.scale(inverse, a)
        if not _is_number(b):
            return self._binary(self._core.div, a, b)
        if b == 0:
            raise error_for(Status.ERROR_OPTION, "a value is divided by 0; expected a number that is not 0")
        return self.scale(a, 1.0 / _kinds.number("b", b))

    # ---- each element alone

    def exp(self, x: Value) -> Value:
        return self._unary(self._core.exp, x)

    def sqrt(self, x: Value) -> Value:
        return self._unary(self._core.sqrt, x)

    def square(self, x: Value) -> Value:
        return self._unary(self._core.square, x)

    def reciprocal(self, x: Value) -> Value:
        return self._unary(self._core.reciprocal, x)

    def relu(self, x: Value) -> Value:
        return self._unary(self._core.relu, x)

    def silu(self, x: Value) -> Value:
        """x / (1 + exp(-x))"""
        return self._unary(self._core.silu, x)

    def gelu(self, x: Value) -> Value:
        """x Phi(x), by erf."""
        return self._unary(self._core.gelu, x)

    def tanh(self, x: Value) -> Value:
        return self._unary(self._core.tanh, x)

    def clamp(self, x: Value, low: Optional[float] = None, high: Optional[float] = None) -> Value:
        """x, at least low and at most high; None: no bound."""
        least = float("-inf") if low is None else _kinds.number("low", low)
        most = float("inf") if high is None else _kinds.number("high", high)
        return self._value(self._core.clamp(_core_of("x", x), least, most))

    def scale(self, x: Operand, factor: Operand) -> Value:
        """x * factor, a number."""
        return self._value(self._core.scale(_core_of("x", x), _kinds.number("factor", factor)))

    def add_constant(self, x: Operand, constant: Operand) -> Value:
        """x + constant, a number."""
        return self._value(self._core.add_constant(_core_of("x", x), _kinds.number("constant", constant)))

    # ---- along a dimension, which stays with size 1

    def reduction(self, x: Value, dim: int, op: str = "sum") -> Value:
        """op: "sum", "max" or "mean"."""
        if not isinstance(op, str) or op not in _REDUCTIONS:
            raise _kinds.refuse("op", op, f"one of {', '.join(map(repr, _REDUCTIONS))}", Status.ERROR_OPTION)
        return self._value(getattr(self._core, op)(_core_of("x", x), _kinds.dim("dim", dim)))

    def sum(self, x: Value, dim: int) -> Value:
        return self.reduction(x, dim, "sum")

    def max(self, x: Value, dim: int) -> Value:
        return self.reduction(x, dim, "max")

    def mean(self, x: Value, dim: int) -> Value:
        return self.reduction(x, dim, "mean")

    def softmax(self, x: Value, dim: int = -1) -> Value:
        """exp(x - max) / sum along dim, whose size stays; 0 where a row is all -inf."""
        return self._value(self._core.softmax(_core_of("x", x), _kinds.dim("dim", dim)))

    def rms_norm(self, x: Value, weight: Optional[Value] = None, epsilon: float = 1e-6) -> Value:
        """x / sqrt(mean(x^2) + epsilon) along the last dimension, times weight."""
        given = None if weight is None else _core_of("weight", weight)
        return self._value(self._core.rms_norm(_core_of("x", x), given, _kinds.number("epsilon", epsilon)))

    # ---- masks, of the last two dimensions (queries, keys)

    def mask(self, x: Value, left: Optional[int] = None, right: Optional[int] = None) -> Value:
        """-inf unless -left <= key - (query + keys - queries) <= right; None or below 0: no bound."""
        bounds = [-1 if bound is None else _kinds.whole_number("a bound", bound) for bound in (left, right)]
        return self._value(self._core.mask(_core_of("x", x), *bounds))

    def causal_mask(self, x: Value) -> Value:
        """Each query sees the keys up to its own, the last query the last key."""
        return self.mask(x, right=0)

    def window(self, x: Value, left: int, right: int = 0) -> Value:
        """Each query sees `left` keys before its own and `right` after it."""
        return self.mask(x, left, right)

    # ---- views

    def broadcast(self, x: Value, dims: Sequence[int]) -> Value:
        """x stretched to dims: from the last one on, each is x's own or x has size 1 there."""
        return self._value(self._core.broadcast(_core_of("x", x), _kinds.whole_numbers("dims", dims)))

    def transpose(self, x: Value, order: Optional[Sequence[int]] = None) -> Value:
        """Dimension i of the result is dimension order[i] of x; None: the last two swap."""
        core = _core_of("x", x)
        rank = len(x.dims)
        given = [*range(rank - 2), rank - 1, rank - 2][-rank:] if order is None else [_kinds.dim("dim", entry) for entry in order]
        return self._value(self._core.transpose(core, given))

    # ---- the search

    def superoptimize(
        self,
        config: Optional[str] = None,
        budget: Optional[float] = None,
        verbose: Union[bool, Callable[[SearchProgress], None], None] = None,
        device: Union[str, Handle] = "auto",
        seed: Optional[int] = None,
    ) -> Optimized:
        """The fastest program equal to this graph: from the cache, or searched for, proved, compiled and timed.

        config: None, for any graph, or "attention", for softmax(q k) v and its kin. budget: seconds to spend on
        compiling and timing; None: the handle's. verbose: True prints progress to stderr; a callable is given a
        SearchProgress now and then. device: "auto" (the first GPU if there is one, else the host; tensors of another
        device get a program of their own at their first call), "cuda", "cuda:N", "host" or "cpu", or a Handle. seed: of the
        proofs. What is put into the graph later does not change the program.
        """
        return search(self.to_text(), config, budget, verbose, device, seed)

    # ---- forms

    @property
    def hash(self) -> str:
        """32 hexadecimal digits, equal for graphs that differ in names and order of construction alone."""
        return self._core.hash()

    def to_text(self) -> str:
        return self._core.text()

    def to_json(self) -> str:
        return self._core.json()

    def to_dot(self) -> str:
        """The drawing, for Graphviz."""
        return self._core.dot()

    def to_svg(self) -> str:
        """The drawing; needs Graphviz's `dot`."""
        return _drawing.svg_of(self.to_dot())

    def _repr_svg_(self) -> Optional[str]:
        return self.to_svg() if _drawing.possible() else None

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<gqa.KernelGraph {self.hash[:8]}>"

    # ---- how

    def _value(self, core: _gqa.GraphValue) -> Value:
        return Value(self, core)

    def _unary(self, put: Callable[[_gqa.GraphValue], _gqa.GraphValue], x: Value) -> Value:
        return self._value(put(_core_of("x", x)))

    def _binary(
        self, put: Callable[[_gqa.GraphValue, _gqa.GraphValue], _gqa.GraphValue], a: Operand, b: Operand
    ) -> Value:
        return self._value(put(_core_of("a", a), _core_of("b", b)))


def new_kernel_graph() -> KernelGraph:
    """An empty graph."""
    return KernelGraph()


def graph_from_text(text: str) -> KernelGraph:
    """The graph whose to_text() or to_json() this is."""
    graph = KernelGraph.__new__(KernelGraph)
    graph._core = _gqa.Graph.parse(_kinds.text("text", text))
    return graph


graph_from_json = graph_from_text  # the two forms are told apart by their first character


_REDUCTIONS = ("sum", "max", "mean")


def _is_number(given: Any) -> bool:
    return isinstance(given, Real)


def _is_operand(given: Any) -> bool:
    return isinstance(given, (Value, Real))


def _core_of(name: str, value: Any) -> _gqa.GraphValue:
    if isinstance(value, Value):
        return value._core
    raise error_for(
        Status.ERROR_DTYPE,
        f"{name} is a {type(value).__name__}; expected a gqa.Value: what new_input or an operator of this graph gave",
    )
