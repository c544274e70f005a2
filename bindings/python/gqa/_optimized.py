"""gqa.Optimized: the programs found for a graph, called with tensors.

Owns: which program serves which device and dims; the making of outputs in the callers' framework. Never: checks shapes;
the library does. Threads: any number of calls at once; those that meet the same new dims search once.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _defaults, _gqa, _kinds
from ._call import refined
from ._dtypes import DType, from_code, name_of
from ._errors import Status, error_for
from ._export import exported
from ._frameworks import KINDS, Foreign, Kind, adopt
from ._handle import Handle
from ._progress import SearchProgress, check_verbose, listener
from ._specialise import specialised

Verbose = Union[bool, Callable[[SearchProgress], None], None]
HandleOf = Callable[[str], Handle]
Spec = Tuple[Tuple[int, ...], int, int]  # dims, and a DLDataType's code and bits


class _Search(NamedTuple):
    """What superoptimize was asked for."""

    graph: str  # its text
    config: Optional[str]
    budget: float
    seed: int
    verbose: Verbose

    def on(self, handle: Handle) -> _gqa.Program:
        with listener(self.verbose) as told:
            return _gqa.Program(
                graph=_gqa.Graph.parse(self.graph),  # its own: a graph may grow in another thread while this one waits
                handle=handle._core,
                config=self.config,
                budget=self.budget,
                seed=self.seed,
                progress=None if told is None else lambda fields: told(SearchProgress(**fields)),
            )


class _Found(NamedTuple):
    """A program for one device and one set of dims."""

    program: _gqa.Program
    outputs: List[Tuple[Tuple[int, ...], DType]]

    @classmethod
    def of(cls, program: _gqa.Program) -> "_Found":
        return cls(program, [(dims, from_code(code, bits)) for dims, code, bits in program.outputs()])


class Optimized:
    """The fastest program for a graph. Call it with the inputs' tensors, in the order of new_input.

    Tensors of other dims than declared get a program of their own at their first call: the same operators on inputs of
    these dims, superoptimized with the same options, and cached as such a graph is. Ranks and dtypes are as declared.
    """

    def __init__(self, asked: _Search, handle: Handle, handle_of: Optional[HandleOf]) -> None:
        """handle_of: the handle of another device, "host" or "cuda:N"; None: all tensors are for `handle`."""
        self._asked, self._handle, self._handle_of = asked, handle, handle_of
        self._first = asked.on(handle)
        self._inputs = self._first.inputs()
        self._declared = tuple(dims for dims, _, _ in self._inputs)
        key = (None if handle_of is None else handle.device, *self._declared)
        self._found: Dict[Tuple[Any, ...], _Found] = {key: _Found.of(self._first)}  # by device and dims
        self._lock = threading.Lock()
        self._making: Dict[Tuple[Any, ...], threading.Lock] = {}

    def __call__(self, *tensors: Any, out: Any = None) -> Any:
        """The output, or a tuple of the outputs, in the first input's framework, on its device and current stream.

        tensors: of any framework that speaks DLPack, one an input, or one list of them. out: a tensor to write, or a
        list of one for each output. Dims that are met first are searched for. Raises GqaValueError, naming the
        operator, where the graph's operators do not suit them, and GqaTypeError for another dtype than declared.
        """
        given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
        if len(given) != len(self._inputs):
            raise error_for(
                Status.ERROR_OPTION,
                f"{len(given)} tensors were given; expected {len(self._inputs)}, one for each input of the graph, in "
                f"the order of new_input: {_specs(self._inputs)}",
            )
        inputs = [x if type(x) in KINDS else adopt(x, f"input {at}") for at, x in enumerate(given)]
        try:
            first = inputs[0]
            kind = KINDS[type(first)]
            kind.refuse(*inputs)
            key = (None if self._handle_of is None else kind.device(first), *[x.shape for x in inputs])
            found = self._found.get(key) or self._make(key, kind, inputs)
            if out is None:
                results: Sequence[Any] = [kind.empty_of(first, dims, dtype) for dims, dtype in found.outputs]
            else:
                results = list(out) if isinstance(out, (list, tuple)) else [out]
                if len(results) != len(found.outputs):
                    raise self._wrong_out(len(results))
            as_is, stream = kind.as_is, kind.stream(first)
            found.program.run(
                [x if type(x) in as_is else exported(x, kind, stream, f"input {at}") for at, x in enumerate(inputs)],
                [x if type(x) in as_is else exported(x, kind, stream, f"output {at}") for at, x in enumerate(results)],
                stream,
            )
            if out is not None:
                return out
            return results[0] if len(results) == 1 else tuple(results)
        except Exception as error:
            raise refined(error, {f"input {at}": x for at, x in enumerate(inputs)}) from error.__cause__

    def explain(self) -> str:
        """What was searched, what was proved, what was measured; of each program where there are several."""
        programs = self._programs()
        if len(programs) == 1:
            return self._first.explain()
        return "\n".join(f"{_told(key)}:\n{found.program.explain()}" for key, found in programs.items())

    @property
    def from_cache(self) -> bool:
        """True where nothing was searched, compiled or timed, for any dims and device so far."""
        return all(found.program.from_cache() for found in self._programs().values())

    def to_text(self) -> str:
        """The program for the declared dims as a graph whose operators are the kernels that were made."""
        return self._first.text()

    def to_dot(self) -> str:
        return self._first.dot()

    def __repr__(self) -> str:
        return f"<gqa.Optimized ({_specs(self._inputs)}) -> ({_specs(self._first.outputs())})>"

    def _programs(self) -> Dict[Tuple[Any, ...], _Found]:
        with self._lock:
            return dict(self._found)

    def _make(self, met: Tuple[Any, ...], kind: Kind, inputs: Sequence[Any]) -> _Found:
        """For a device or dims that are met first, or are being met by another thread."""
        key = (met[0], *map(tuple, met[1:]))
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        try:
            with making:
                found = self._found.get(key)
                if found is None:
                    found = self._search(key[0], key[1:], kind, inputs)
                    with self._lock:
                        self._found[key] = found
            return found
        finally:
            with self._lock:
                self._making.pop(key, None)

    def _search(self, device: Optional[str], dims: Tuple[Any, ...], kind: Kind, inputs: Sequence[Any]) -> _Found:
        asked = self._asked
        if dims != self._declared:
            self._check(kind, inputs)
            asked = asked._replace(graph=specialised(asked.graph, dims))
        if kind.capturing(inputs[0]):
            raise error_for(
                Status.ERROR_CAPTURING,
                "a stream is being captured and no program for tensors of these dims is there yet; call it with such "
                "tensors once before the capture begins",
            )
        if self._handle_of is None or device is None:
            return _Found.of(asked.on(self._handle))
        return _Found.of(asked.on(self._handle_of(device)))

    def _check(self, kind: Kind, inputs: Sequence[Any]) -> None:
        """That no search is begun for tensors which its program would refuse."""
        device = kind.device(inputs[0])
        own = self._handle.device
        if self._handle_of is None and own != "auto" and (own == "host") != (device == "host"):
            raise error_for(
                Status.ERROR_DEVICE,
                f"input 0 is on {device}, and the graph was superoptimized for {own}; expected a tensor there, or "
                "superoptimize(device='auto')",
            )
        for at, (x, (_, code, bits)) in enumerate(zip(inputs, self._inputs)):
            given = (x.code, x.bits) if isinstance(x, Foreign) else name_of(x.dtype)
            declared = from_code(code, bits)
            if given not in ((code, bits), declared.name):
                raise error_for(
                    Status.ERROR_DTYPE,
                    f"input {at} is of dtype {given}; expected {declared}, as it was declared: a graph is specialised "
                    "to other dims, not to another dtype",
                )

    def _wrong_out(self, given: int) -> Exception:
        outputs = self._first.outputs()
        return error_for(
            Status.ERROR_OPTION,
            f"out holds {given} tensors; expected {len(outputs)}, one for each output: {_specs(outputs)}",
        )


def search(
    graph: str,
    config: Optional[str],
    budget: Optional[float],
    verbose: Verbose,
    device: Union[str, Handle],
    seed: Optional[int],
) -> Optimized:
    """KernelGraph.superoptimize for a graph's text."""
    asked = asked_for(graph, config, budget, verbose, seed)
    if isinstance(device, Handle):
        return Optimized(asked, device, None)
    if not isinstance(device, str):
        raise _kinds.refuse("device", device, "'auto', 'cuda', 'cuda:N', 'host' or a gqa.Handle")
    return Optimized(asked, _defaults.of(device), _defaults.of if device == "auto" else None)


def asked_for(
    graph: str, config: Optional[str], budget: Optional[float], verbose: Verbose, seed: Optional[int]
) -> _Search:
    check_verbose(verbose)
    return _Search(graph, **_kinds.read(_kinds.SEARCH, config=config, budget=budget, seed=seed), verbose=verbose)


def _specs(specs: Sequence[Spec]) -> str:
    return ", ".join(f"{from_code(code, bits)}{list(dims)}" for dims, code, bits in specs)


def _told(key: Tuple[Any, ...]) -> str:
    dims = ", ".join(str(list(each)) for each in key[1:])
    return f"inputs {dims}" if key[0] is None else f"inputs {dims} on {key[0]}"
