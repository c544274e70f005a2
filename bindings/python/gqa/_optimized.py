"""gqa.Optimized: the program found for a graph, called with tensors.

Owns: which program serves which device; the making of outputs in the callers' framework. Never: checks shapes; the
library does. Threads: any number of calls at once.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _defaults, _gqa, _kinds
from ._call import exported, refined
from ._dtypes import DType, from_code
from ._errors import Status, error_for
from ._frameworks import KINDS, Kind, adopt
from ._handle import Handle
from ._progress import SearchProgress, check_verbose, listener

Verbose = Union[bool, Callable[[SearchProgress], None], None]
Output = Tuple[Tuple[int, ...], DType]


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


class Optimized:
    """The fastest program for a graph. Call it with the inputs' tensors, in the order of new_input."""

    def __init__(self, asked: _Search, handle: Handle, any_device: bool) -> None:
        self._asked = asked
        self._first = asked.on(handle)
        self._by_device: Optional[Dict[str, _gqa.Program]] = {handle.device: self._first} if any_device else None
        self._lock = threading.Lock()
        self._inputs = self._first.inputs()
        self._outputs: List[Output] = [(dims, from_code(code, bits)) for dims, code, bits in self._first.outputs()]

    def __call__(self, *tensors: Any, out: Any = None) -> Any:
        """The output, or a tuple of the outputs, in the first input's framework, on its device and current stream.

        tensors: of any framework that speaks DLPack, one an input, or one list of them. out: a tensor to write, or a
        list of one for each output.
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
            kind = KINDS[type(inputs[0])]
            kind.refuse(*inputs)
            program = self._program(kind, inputs[0])
            results = self._results(kind, inputs[0], out)
            stream = kind.stream(inputs[0])
            program.run(
                [exported(x, kind, stream, f"input {at}") for at, x in enumerate(inputs)],
                [exported(x, kind, stream, f"output {at}") for at, x in enumerate(results)],
                stream,
            )
            if out is not None:
                return out
            return results[0] if len(results) == 1 else tuple(results)
        except Exception as error:
            raise refined(error, {f"input {at}": x for at, x in enumerate(inputs)}) from error.__cause__

    def explain(self) -> str:
        """What was searched, what was proved, what was measured."""
        programs = self._programs()
        if len(programs) == 1:
            return self._first.explain()
        return "\n".join(f"on {device}:\n{program.explain()}" for device, program in programs.items())

    @property
    def from_cache(self) -> bool:
        """True where nothing was searched, compiled or timed."""
        return self._first.from_cache()

    def to_text(self) -> str:
        """The program as a graph whose operators are the kernels that were made."""
        return self._first.text()

    def to_dot(self) -> str:
        return self._first.dot()

    def __repr__(self) -> str:
        return f"<gqa.Optimized ({_specs(self._inputs)}) -> ({_specs(self._first.outputs())})>"

    def _programs(self) -> Dict[str, _gqa.Program]:
        with self._lock:
            return dict(self._by_device) if self._by_device else {"": self._first}

    def _program(self, kind: Kind, tensor: Any) -> _gqa.Program:
        if self._by_device is None:
            return self._first  # whatever device the tensors are on: the library says if it is another
        device = kind.device(tensor)
        found = self._by_device.get(device)
        return found if found is not None else self._make(device)

    def _make(self, device: str) -> _gqa.Program:
        assert self._by_device is not None
        with self._lock:
            if device not in self._by_device:
                self._by_device[device] = self._asked.on(_defaults.of(device))
            return self._by_device[device]

    def _results(self, kind: Kind, like: Any, out: Any) -> Sequence[Any]:
        if out is None:
            return [kind.empty_of(like, dims, dtype) for dims, dtype in self._outputs]
        results = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(results) == len(self._outputs):
            return results
        raise error_for(
            Status.ERROR_OPTION,
            f"out holds {len(results)} tensors; expected {len(self._outputs)}, one for each output: "
            f"{_specs(self._first.outputs())}",
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
    check_verbose(verbose)
    asked = _Search(graph, **_kinds.read(_kinds.SEARCH, config=config, budget=budget, seed=seed), verbose=verbose)
    if isinstance(device, Handle):
        return Optimized(asked, device, any_device=False)
    if not isinstance(device, str):
        raise _kinds.refuse("device", device, "'auto', 'cuda', 'cuda:N', 'host' or a gqa.Handle")
    return Optimized(asked, _defaults.of(device), any_device=device == "auto")


def _specs(specs: Sequence[Tuple[Tuple[int, ...], int, int]]) -> str:
    return ", ".join(f"{from_code(code, bits)}{list(dims)}" for dims, code, bits in specs)
