"""python -m gqa.bench: reads the command line, runs each shape, prints the table.

Exit code: 0; 1 if gqa itself failed on a shape; 2 for a command line or machine it cannot work with; 3 if a library
left the device unusable, with what was measured until then.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import gqa

try:
    import torch
except ImportError:
    sys.exit("gqa.bench compares with PyTorch, which is not installed here: pip install torch")

from . import accuracy, graph_cases, graph_peers, peers, report, serving_cases, serving_peers, shapes, timing
from .graph_cases import GraphCase
from .reference import worst_error
from .serving_cases import ServingCase
from .shapes import DTYPES, SHORT, Shape

_ROUNDS = 9
_REST_MS = 200
_GRIDS = ("prefill", "decode", "all", "hopper", "sweep", "graph", "serving")

Case = Union[Shape, GraphCase, ServingCase]
Rival = Tuple[str, Callable[..., Any]]  # a name, and what prepares its call


class DeviceLost(RuntimeError):
    """A library's kernel ended the device's context; nothing more can be measured in this process."""


def main(arguments: Optional[List[str]] = None) -> int:
    options = _options().parse_args(arguments)
    device = options.device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    device = {"cuda": "cuda:0", "host": "cpu"}.get(device, device)
    try:
        cases = _cases(options, device)
    except ValueError as error:
        _options().error(str(error))
    if device != "cpu" and not torch.cuda.is_available():
        _options().error(f"--device {device}: PyTorch sees no GPU here; use --device cpu")
    if options.rest is None:
        options.rest = _default_rest(device, options.settle)
    return _run(cases, device, options)


def _default_rest(device: str, settle: float) -> float:
    """A GPU's clock answers to the power used in the tenths of a second before; a CPU is not made to wait."""
    return 0 if device == "cpu" or settle > 0 else _REST_MS


def _cases(options: argparse.Namespace, device: str) -> List[Case]:
    if not options.shapes:
        return [case if options.dtype is None else case.of(options.dtype) for case in _grid(options.grid, device)]
    if options.dtype is not None:
        raise ValueError("--dtype is of a grid; a shape says its own: b=1,...,dtype=fp16")
    return [_parsed(text) for text in options.shapes]


def _parsed(text: str) -> Case:
    if serving_cases.is_serving(text):
        return serving_cases.parse(text)
    return graph_cases.parse(text) if graph_cases.is_graph(text) else shapes.parse(text)


def _grid(name: str, device: str) -> List[Case]:
    if name == "serving":
        return [*serving_cases.grid(device)]
    return [*graph_cases.grid(device)] if name == "graph" else [*shapes.grid(name, device)]


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m gqa.bench", description="gqa beside PyTorch's attention, in one run")
    spec = "such as b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,dtype=bf16,causal"
    graph = "gated_mlp:m=4,k=4096,n=11008,dtype=bf16"
    served = "serving:b=64,sk=4096,sigma=0.8"
    parser.add_argument(
        "--shapes", nargs="+", metavar="SPEC", help=f"shapes to run, {spec}, or graphs, {graph}, or {served}"
    )
    parser.add_argument("--grid", choices=_GRIDS, default="all", help="else this grid (all)")
    parser.add_argument(
        "--accuracy",
        action="store_true",
        help="instead of times: errors beside float64, as ratios to FlashAttention-2's",
    )
    parser.add_argument(
        "--dtype", choices=sorted(SHORT.values()), help="of the grid's shapes (bf16; of --grid graph, its own)"
    )
    parser.add_argument(
        "--without", nargs="+", default=[], metavar="LIBRARY", help="attention and serving: leave these peers out"
    )
    parser.add_argument("--no-compile", action="store_true", help="graphs: leave torch.compile out")
    parser.add_argument("--device", help="cpu, cuda or cuda:N; default: the first GPU, else the CPU")
    parser.add_argument("--json", metavar="FILE", help="also write every sample there")
    parser.add_argument("--rounds", type=_positive, default=_ROUNDS, help=f"rounds to time ({_ROUNDS})")
    parser.add_argument(
        "--rest",
        type=_milliseconds,
        metavar="MS",
        help="idle for so long before each sample; 0: one library after the other, at the clock that their mix leaves"
        f" ({_REST_MS} on a GPU, which is enough for it to recover; 0 with --settle)",
    )
    parser.add_argument(
        "--settle",
        type=_milliseconds,
        default=0,
        metavar="MS",
        help="run each library for so long before each of its samples: at the clock that its own power leaves (0; 250"
        " is enough)",
    )
    parser.add_argument("--cache", metavar="PATH", help="gqa's cache file; default: gqa's own default")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="what gqa may spend on a shape never seen")
    parser.add_argument(
        "--threads", type=_positive, default=len(os.sched_getaffinity(0)), help="of every library, on a CPU"
    )
    return parser


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of milliseconds, 0 or more")
    return value


def _run(cases: List[Case], device: str, options: argparse.Namespace) -> int:
    torch.set_num_threads(options.threads)
    name = "host" if device == "cpu" else device
    threads = options.threads if device == "cpu" else None
    models: List[str] = []  # what gqa says of its cost model, a line a tuning
    others, absent = peers.contestants(device)
    _check_without(options.without, [peer.name for peer in others] + absent + serving_peers.names(device))
    handle = gqa.Handle(
        name, cache_path=options.cache, tuning_budget=options.budget, threads=threads, log=_model_lines(models)
    )
    here = [peers.gqa_peer(handle)] + [peer for peer in others if peer.name not in options.without]

    def attention(dtype: str) -> List[Rival]:
        return [(peer.name, peer.prepare) for peer in here if dtype in peer.dtypes]

    machine = _machine(device, options)
    print(" | ".join(f"{key}: {value}" for key, value in machine.items()))
    if absent and any(isinstance(case, Shape) for case in cases):
        print(f"not installed here: {', '.join(absent)}")
    if options.accuracy:
        return _run_accuracy(device, attention, options)
    serving, left_out = _serving(cases, device, handle, options)

    def rivals_of(case: Case) -> List[Rival]:
        if isinstance(case, GraphCase):
            return [*graph_peers.contestants(case, device, handle, not options.no_compile)]
        return serving if isinstance(case, ServingCase) else attention(case.dtype)

    results: List[report.Result] = []
    lost = False
    with torch.no_grad():
        for case in cases:
            try:
                results.append(_measure(case, device, rivals_of(case), options))
            except DeviceLost as error:
                print(error, file=sys.stderr)
                lost = True
                break
            print(report.summary(results[-1]), flush=True)
            while models:
                print(f"  {models.pop(0)}", flush=True)
    print("\n" + report.table(results))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            found = {"machine": machine, "left_out": left_out, "results": [result.as_json() for result in results]}
            json.dump(found, file, indent=1)
    if lost:
        return 3
    handle.close()
    return 1 if any("gqa" in result.failures for result in results) else 0


def _run_accuracy(device: str, rivals: Callable[[str], List[Rival]], options: argparse.Namespace) -> int:
    names = [DTYPES[options.dtype]] if options.dtype else ["bfloat16", "float16"]
    results: List[Tuple[accuracy.Case, Dict[str, accuracy.Errors]]] = []
    failed = False
    with torch.no_grad():
        for case in accuracy.cases(device, names):
            found, failures = accuracy.measure(case, device, rivals(case.shape.dtype))
            results.append((case, found))
            failed |= "gqa" in failures
            for name, why in failures.items():
                print(f"{case}: {name} failed: {why}", flush=True)
    print(accuracy.table(results))
    return 1 if failed else 0


def _check_without(libraries: List[str], known: List[str]) -> None:
    for library in libraries:
        if library not in known:
            _options().error(f"--without {library}: no such library; known here: {', '.join(dict.fromkeys(known))}")


def _serving(
    cases: List[Case], device: str, handle: gqa.Handle, options: argparse.Namespace
) -> Tuple[List[Rival], Dict[str, str]]:
    """Who runs the serving cases, loaded only if there is one, and why the others do not; says so."""
    if not any(isinstance(case, ServingCase) for case in cases):
        return [], {}
    rivals, left_out = serving_peers.contestants(device, handle, options.without)
    for name, why in left_out.items():
        print(f"left out: {name} ({why})")
    return [*rivals], left_out


def _model_lines(lines: List[str]) -> Callable[[str, str], None]:
    """A log that keeps how the cost model ranked what was timed; shapes found in the cache have no such line."""

    def log(level: str, message: str) -> None:
        mark = message.find("cost model: ")
        if mark >= 0:
            lines.append(message[mark:])

    return log


def _machine(device: str, options: argparse.Namespace) -> Dict[str, Any]:
    facts: Dict[str, Any] = {
        "gqa": gqa.version(),
        "torch": torch.__version__,
        "rounds": options.rounds,
        "rest_ms": options.rest,
        "settle_ms": options.settle,
    }
    if device == "cpu":
        return {"device": f"cpu, {options.threads} threads", **facts}
    return {"device": torch.cuda.get_device_name(device), "cudnn": torch.backends.cudnn.version(), **facts}


def _inputs_and_error(case: Case) -> Tuple[Callable[..., Any], Callable[..., float]]:
    """What makes a case's inputs, and what holds an answer against a wider type's."""
    if isinstance(case, Shape):
        return peers.make_inputs, worst_error
    if isinstance(case, GraphCase):
        return graph_peers.make_inputs, graph_peers.worst_error
    return serving_peers.make_inputs, serving_peers.worst_error


def _measure(
    case: Any, device: str, contestants: List[Rival], options: argparse.Namespace
) -> report.Result:
    make_inputs, error_of = _inputs_and_error(case)
    sets = timing.sets_needed(case.bytes(), device)
    inputs: List[Any] = [make_inputs(case, device, seed) for seed in range(sets)]
    result = report.Result(case, sets)
    replays = {}
    for name, prepare in contestants:
        try:
            calls = [prepare(case, each) for each in inputs]
            out = calls[0]()
            result.errors[name] = error_of(case, inputs[0], out)
            if isinstance(case, GraphCase):
                result.error_ratios[name] = graph_peers.error_ratio(case, inputs[0], out)
            replays[name] = timing.replay_of(calls, device)
        except Exception as error:  # whatever a library raises: it is named and not timed
            result.errors.pop(name, None)
            result.error_ratios.pop(name, None)
            result.failures[name] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            if not timing.alive(device):
                raise DeviceLost(
                    f"{name} left {device} unusable on {case} ({result.failures[name]}): the shapes from here on are not"
                    f" measured; --without {name} leaves it out"
                ) from error
    if replays:
        result.times = timing.rounds(replays, options.rounds, rest=options.rest / 1e3, settle=options.settle / 1e3)
    return result


if __name__ == "__main__":
    sys.exit(main())
