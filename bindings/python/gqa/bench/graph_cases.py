"""The graphs to run: their text and the default grid.

Owns: GraphCase, its counts of operations and bytes. Never: makes a tensor or a graph (graph_peers does).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Dict, List, Tuple

from .shapes import BYTES, DTYPES, SHORT


# name: the sizes it has. m: rows of x; k, n: x (m, k) times a weight (k, n); r: LoRA's rank; attention: q (b, sq, d),
# k (b, d, sk), v (b, sk, d).
KINDS: Dict[str, Tuple[str, ...]] = {
    "attention": ("b", "sq", "sk", "d"),
    "rms_norm_linear": ("m", "k", "n"),
    "gated_mlp": ("m", "k", "n"),
    "lora": ("m", "k", "n", "r"),
}


@dataclass(frozen=True)
class GraphCase:
    kind: str
    sizes: Tuple[int, ...]  # in the order of KINDS
    dtype: str = "bfloat16"

    def __getitem__(self, size: str) -> int:
        return self.sizes[KINDS[self.kind].index(size)]

    def __str__(self) -> str:
        sizes = ",".join(f"{name}={size}" for name, size in zip(KINDS[self.kind], self.sizes))
        return f"{self.kind}:{sizes},dtype={SHORT[self.dtype]}"

    @property
    def decode(self) -> bool:
        """Bound by memory: its rate is told in bytes."""
        return self.kind != "attention"

    def of(self, dtype: str) -> GraphCase:
        """The same graph of another dtype, a name of DTYPES."""
        return replace(self, dtype=DTYPES[dtype])

    def inputs(self) -> List[Tuple[int, ...]]:
        """The sizes of each input."""
        if self.kind == "attention":
            b, sq, sk, d = self.sizes
            return [(b, sq, d), (b, d, sk), (b, sk, d)]
        m, k, n, *rank = self.sizes
        if self.kind == "lora":
            return [(m, k), (k, n), (k, *rank), (*rank, n)]
        return [(m, k), (k,) if self.kind == "rms_norm_linear" else (k, n), (k, n)]

    def output(self) -> Tuple[int, ...]:
        return self.inputs()[0] if self.kind == "attention" else (self["m"], self["n"])

    def flops(self) -> int:
        """Those of its products."""
        if self.kind == "attention":
            b, sq, sk, d = self.sizes
            return 2 * b * sq * sk * 2 * d
        weights = (dims for dims in self.inputs()[1:] if len(dims) == 2)
        return 2 * self["m"] * sum(rows * columns for rows, columns in weights)

    def bytes(self) -> int:
        """What has to be read and written once."""
        return sum(math.prod(dims) for dims in self.inputs() + [self.output()]) * BYTES[self.dtype]


def is_graph(text: str) -> bool:
    return text.partition(":")[0] in KINDS


def parse(text: str) -> GraphCase:
    """ "gated_mlp:m=4,k=4096,n=11008,dtype=bf16"; dtype is bf16 unless said."""
    kind, _, rest = text.partition(":")
    if kind not in KINDS:
        raise ValueError(f"graph '{kind}' is not known; expected one of {', '.join(KINDS)}")
    sizes: Dict[str, int] = {}
    dtype = "bfloat16"
    for item in rest.split(","):
        name, _, value = item.strip().partition("=")
        if name == "dtype" and value in DTYPES:
            dtype = DTYPES[value]
        elif name in KINDS[kind] and value.isdigit() and int(value) > 0:
            sizes[name] = int(value)
        else:
            raise ValueError(
                f"'{item}' in graph '{text}' means nothing; expected {', '.join(KINDS[kind])} =N or dtype=bf16|fp16|fp32"
            )
    missing = [name for name in KINDS[kind] if name not in sizes]
    if missing:
        raise ValueError(f"graph '{text}' lacks {', '.join(missing)}")
    return GraphCase(kind, tuple(sizes[name] for name in KINDS[kind]), dtype)


def grid(device: str) -> List[GraphCase]:
    """Attention written as its formula, and what a decoder layer does for few rows; a CPU gets sizes that it answers in
    milliseconds."""
    if device == "cpu":
        cases = [GraphCase("attention", (2, 64, 512, 64), "float16")]
        sizes = {"rms_norm_linear": (512, 512), "gated_mlp": (512, 1408), "lora": (512, 512, 16)}
    else:
        cases = [GraphCase("attention", (2, 256, 4096, 64), "float16")]
        sizes = {"rms_norm_linear": (4096, 4096), "gated_mlp": (4096, 11008), "lora": (4096, 4096, 16)}
    return cases + [GraphCase(kind, (rows, *rest)) for kind, rest in sizes.items() for rows in (1, 4, 16)]
