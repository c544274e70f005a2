"""How long one call takes: medians of rounds in which every contestant runs on the same inputs.

Owns: rotation of inputs, graph capture and replay, the order of rounds. Never: knows what a contestant is.
On a GPU each contestant's calls over all input sets are one CUDA graph, so that neither Python nor the launch is timed,
and the sets hold more than three times the L2 cache, so that no call finds its inputs there. A card answers within
tenths of a second to the power that was used: each contestant follows each other equally often, or waits until the
card has idled, or runs for a while itself.
"""

from __future__ import annotations

import math
import time
from typing import Callable, Dict, List, Sequence

import torch

Call = Callable[[], torch.Tensor]
Replay = Callable[[], float]  # runs once and returns microseconds a call

_GRAPH_US = 4000.0  # a graph runs at least this long, so that an event's resolution does not matter
_MAX_CALLS = 1024  # in one graph
_CPU_ROUND_US = 50_000.0
_MAX_SETS = 512
_L2_ASSUMED = 60 << 20


def sets_needed(bytes_each: int, device: str) -> int:
    """Input sets so that together they hold more than three L2 caches; a CPU's caches are part of what is measured."""
    if device == "cpu":
        return 1
    l2 = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", _L2_ASSUMED) or _L2_ASSUMED
    return max(2, min(_MAX_SETS, math.ceil(3 * l2 / bytes_each)))


def alive(device: str) -> bool:
    """Whether the device still computes: an illegal access of one library's kernel ends it for all of the process."""
    try:
        if device != "cpu":
            torch.cuda.synchronize(device)
    except RuntimeError:
        return False
    return True


def replay_of(calls: Sequence[Call], device: str) -> Replay:
    """calls: the same work, one call an input set; each has run once already."""
    return _cpu_replay(calls[0]) if device == "cpu" else _graph_replay(calls, device)


def rounds(replays: Dict[str, Replay], count: int, *, rest: float = 0, settle: float = 0) -> Dict[str, List[float]]:
    """Microseconds of each contestant, a number a round; before each of them the device idles for `rest` seconds, and
    then the contestant runs for `settle` seconds."""
    names = list(replays)
    times: Dict[str, List[float]] = {name: [] for name in names}
    for name in names:
        replays[name]()  # not counted: the first replay uploads the graph
    for turn in range(count):
        for at in order(len(names), turn):
            time.sleep(rest)
            _settle(replays[names[at]], settle)
            times[names[at]].append(replays[names[at]]())
    return times


def order(count: int, turn: int) -> List[int]:
    """Who runs when in a round. In `count` rounds (odd: twice as many) each comes right after each other equally often:
    Williams, "Experimental designs balanced for the estimation of residual effects of treatments", 1949."""
    zigzag = [(at + 1) // 2 if at % 2 else -(at // 2) for at in range(count)]  # 0, 1, -1, 2, -2, ...
    row = [(at + turn) % count for at in zigzag]
    return row if count % 2 == 0 or turn // count % 2 == 0 else row[::-1]


def _settle(replay: Replay, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        replay()


def _cpu_replay(call: Call) -> Replay:
    start = time.perf_counter()
    call()
    once = (time.perf_counter() - start) * 1e6
    repeats = max(1, min(1000, math.ceil(_CPU_ROUND_US / once)))

    def replay() -> float:
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return (time.perf_counter() - begin) * 1e6 / repeats

    return replay


def _graph_replay(calls: Sequence[Call], device: str) -> Replay:
    with torch.cuda.device(device):
        once = _captured(calls)
        per_call = _timed(once, len(calls))
        passes = min(math.ceil(_GRAPH_US / (per_call * len(calls))), max(1, _MAX_CALLS // len(calls)))
        graph = once if passes <= 1 else _captured(list(calls) * passes)
    count = len(calls) * max(1, passes)

    def replay(_held: Sequence[Call] = calls) -> float:  # the graph reads tensors that the calls alone may own
        with torch.cuda.device(device):
            return _timed(graph, count)

    return replay


def _captured(calls: Sequence[Call]) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls[:2]:  # on the stream that will capture: libraries make their workspaces here
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for call in calls:
            call()
    graph.replay()
    torch.cuda.synchronize()
    return graph


def _timed(graph: torch.cuda.CUDAGraph, calls: int) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / calls
