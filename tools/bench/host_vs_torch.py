#!/usr/bin/env python3
"""Compares the host device with PyTorch's CPU scaled_dot_product_attention: same shapes, same threads, same run.

  python tools/bench/host_vs_torch.py build/release/tools/bench/bench_host_attention [--threads N] [--most RATIO]

The two take turns, so that a machine whose clock drifts treats both alike. With --most it exits 1 if the causal
prefill's ratio (gqa / PyTorch) is over RATIO.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch

# name in bench_host_attention -> query length, key length, causal
SHAPES = {
    "prefill_1k_causal": (1024, 1024, True),
    "prefill_1k_full": (1024, 1024, False),
    "decode_8k": (1, 8192, False),
}
Q_HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128


def gqa_ms(program, threads):
    """Milliseconds by shape: medians of repeated runs, and what ran."""
    command = [program, f"--threads={threads}", "--benchmark_format=json", "--benchmark_repetitions=9",
               "--benchmark_min_time=0.05"]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    failed = [run["error_message"] for run in result["benchmarks"] if run.get("error_occurred")]
    if failed:
        sys.exit(f"{program}: {failed[0]}")
    times, labels = {}, {}
    for run in result["benchmarks"]:
        name = run["run_name"].split("/")[0]
        labels.setdefault(name, run.get("label", ""))
        if run.get("aggregate_name") == "median":
            times[name] = run["real_time"]
    return times, labels


def torch_ms(q_len, kv_len, causal):
    q = torch.randn(1, Q_HEADS, q_len, HEAD_DIM, dtype=torch.bfloat16)
    k = torch.randn(1, KV_HEADS, kv_len, HEAD_DIM, dtype=torch.bfloat16)
    v = torch.randn_like(k)
    group = Q_HEADS // KV_HEADS
    # Expanded once, outside the clock: PyTorch is timed on what suits it best.
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    samples = []
    begin = time.perf_counter()
    while len(samples) < 10 or time.perf_counter() - begin < 1:
        start = time.perf_counter()
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        samples.append(1e3 * (time.perf_counter() - start))
    return statistics.median(samples[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the built bench_host_attention")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--most", type=float, help="the causal prefill's largest allowed ratio")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    ours, theirs = {name: [] for name in SHAPES}, {name: [] for name in SHAPES}
    for _ in range(options.rounds):
        times, labels = gqa_ms(options.program, options.threads)
        for name, shape in SHAPES.items():
            ours[name].append(times[name])
            theirs[name].append(torch_ms(*shape))

    print(f"PyTorch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()}), {options.threads} threads, bf16, "
          f"{Q_HEADS}/{KV_HEADS} heads of {HEAD_DIM}, milliseconds (best of {options.rounds} medians)")
    print(f"{'':20}{'gqa':>9}{'PyTorch':>9}{'ratio':>7}")
    for name in SHAPES:
        a, b = min(ours[name]), min(theirs[name])
        print(f"{name:20}{a:9.2f}{b:9.2f}{a / b:7.2f}  {labels[name]}")
    ratio = min(ours["prefill_1k_causal"]) / min(theirs["prefill_1k_causal"])
    if options.most and ratio > options.most:
        sys.exit(f"prefill_1k_causal: gqa takes {ratio:.2f} of PyTorch's time, at most {options.most:.2f} is allowed")


if __name__ == "__main__":
    main()
