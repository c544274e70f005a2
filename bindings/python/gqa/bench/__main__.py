"""python -m gqa.bench: reads the command line, runs each shape, prints the table.

Exit code: 0; 1 if gqa itself failed on a shape; 2 for a command line or machine it cannot work with.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, Callable, Dict, List, Optional

import gqa

try:
    import torch
except ImportError:
    sys.exit("gqa.bench compares with PyTorch, which is not installed here: pip install torch")

from . import peers, report, timing
from .reference import worst_error
from .shapes import Shape, grid, parse

_ROUNDS = 9


def main(arguments: Optional[List[str]] = None) -> int:
    options = _options().parse_args(arguments)
    device = options.device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    device = {"cuda": "cuda:0", "host": "cpu"}.get(device, device)
    try:
        shapes = [parse(text) for text in options.shapes] if options.shapes else grid(options.grid, device)
    except ValueError as error:
        _options().error(str(error))
    if device != "cpu" and not torch.cuda.is_available():
        _options().error(f"--device {device}: PyTorch sees no GPU here; use --device cpu")
    return _run(shapes, device, options)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m gqa.bench", description="gqa beside PyTorch's attention, in one run")
    spec = "such as b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,dtype=bf16,causal"
    parser.add_argument("--shapes", nargs="+", metavar="SPEC", help=f"shapes to run, {spec}")
    parser.add_argument("--grid", choices=("prefill", "decode", "all", "hopper", "sweep"), default="all", help="else this grid (all)")
    parser.add_argument("--device", help="cpu, cuda or cuda:N; default: the first GPU, else the CPU")
    parser.add_argument("--json", metavar="FILE", help="also write every sample there")
    parser.add_argument("--rounds", type=_positive, default=_ROUNDS, help=f"rounds to time ({_ROUNDS})")
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


def _run(shapes: List[Shape], device: str, options: argparse.Namespace) -> int:
    torch.set_num_threads(options.threads)
    name = "host" if device == "cpu" else device
    threads = options.threads if device == "cpu" else None
    models: List[str] = []  # what gqa says of its cost model, a line a tuning
    handle = gqa.Handle(
        name, cache_path=options.cache, tuning_budget=options.budget, threads=threads, log=_model_lines(models)
    )
    others, absent = peers.contestants(device)
    machine = _machine(device, options)
    print(" | ".join(f"{key}: {value}" for key, value in machine.items()))
    if absent:
        print(f"not installed here: {', '.join(absent)}")
    results = []
    with torch.no_grad():
        for shape in shapes:
            results.append(_measure(shape, device, [peers.gqa_peer(handle)] + others, options.rounds))
            print(report.summary(results[-1]), flush=True)
            while models:
                print(f"  {models.pop(0)}", flush=True)
    print("\n" + report.table(results))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine, "results": [result.as_json() for result in results]}, file, indent=1)
    handle.close()
    return 1 if any("gqa" in result.failures for result in results) else 0


def _model_lines(lines: List[str]) -> Callable[[str, str], None]:
    """A log that keeps how the cost model ranked what was timed; shapes found in the cache have no such line."""

    def log(level: str, message: str) -> None:
        mark = message.find("cost model: ")
        if mark >= 0:
            lines.append(message[mark:])

    return log


def _machine(device: str, options: argparse.Namespace) -> Dict[str, Any]:
    facts: Dict[str, Any] = {"gqa": gqa.version(), "torch": torch.__version__, "rounds": options.rounds}
    if device == "cpu":
        return {"device": f"cpu, {options.threads} threads", **facts}
    return {"device": torch.cuda.get_device_name(device), "cudnn": torch.backends.cudnn.version(), **facts}


def _measure(shape: Shape, device: str, contestants: List[peers.Peer], rounds: int) -> report.Result:
    sets = timing.sets_needed(shape.bytes(), device)
    inputs = [peers.make_inputs(shape, device, seed) for seed in range(sets)]
    result = report.Result(shape, sets)
    replays = {}
    for peer in contestants:
        try:
            calls = [peer.prepare(shape, each) for each in inputs]
            result.errors[peer.name] = worst_error(shape, inputs[0], calls[0]())
            replays[peer.name] = timing.replay_of(calls, device)
        except Exception as error:  # whatever a library raises: it is named and not timed
            result.errors.pop(peer.name, None)
            result.failures[peer.name] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    result.times = timing.rounds(replays, rounds) if replays else {}
    return result


if __name__ == "__main__":
    sys.exit(main())
