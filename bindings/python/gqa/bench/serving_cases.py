"""Attention over a paged cache of keys, as a serving engine calls it: its text, its lengths and the default grid.

Owns: ServingCase, the lengths that its seed gives, its counts of operations and bytes. Never: makes a tensor
(serving_peers does).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Dict, List, Tuple, Union

from .shapes import DTYPES, SHORT

KIND = "serving"
SEED = 20261125
_ELEMENT = 2  # bytes
_FIELDS = {
    "b": "batch",
    "hq": "q_heads",
    "hk": "kv_heads",
    "sq": "q_len",
    "sk": "mean_len",
    "d": "head_dim",
    "page": "page",
    "seed": "seed",
}


@dataclass(frozen=True)
class ServingCase:
    """Causal, the last query of a sequence seeing all its keys. seed gives the lengths and the order of the pages."""

    batch: int
    mean_len: int
    sigma: float = 0.0  # of the logarithm of a length
    q_heads: int = 32
    kv_heads: int = 8
    q_len: int = 1
    head_dim: int = 128
    page: int = 16
    seed: int = SEED
    dtype: str = "bfloat16"

    def __str__(self) -> str:
        sizes = ",".join(f"{name}={getattr(self, field)}" for name, field in _FIELDS.items())
        return f"{KIND}:{sizes},sigma={self.sigma:g},dtype={SHORT[self.dtype]}"

    @property
    def decode(self) -> bool:
        """Bound by memory: its rate is told in bytes."""
        return True

    def of(self, dtype: str) -> ServingCase:
        """The same case of another dtype, a name of DTYPES."""
        return replace(self, dtype=DTYPES[dtype])

    def lengths(self) -> Tuple[int, ...]:
        """Keys of each sequence: lognormal, scaled to a mean of mean_len; all alike where sigma is 0."""
        source = random.Random(self.seed)
        shares = [source.lognormvariate(0.0, self.sigma) for _ in range(self.batch)]
        scale = self.mean_len * self.batch / sum(shares)
        return tuple(max(self.q_len, round(share * scale)) for share in shares)

    def pages(self) -> Tuple[int, ...]:
        """Of each sequence; the last may be partly filled."""
        return tuple(-(-length // self.page) for length in self.lengths())

    def flops(self) -> int:
        unseen = self.q_len * (self.q_len - 1) // 2  # by the queries before the last, in all
        pairs = sum(length * self.q_len - unseen for length in self.lengths())
        return 4 * self.q_heads * self.head_dim * pairs

    def bytes(self) -> int:
        """Keys and values that have to be read, by the lengths as they are."""
        return sum(self.lengths()) * self.kv_heads * 2 * self.head_dim * _ELEMENT

    def told(self) -> str:
        lengths = self.lengths()
        mean = sum(lengths) / len(lengths)
        return f"lengths by seed {self.seed}: {min(lengths)} to {max(lengths)}, mean {mean:.0f}"


def is_serving(text: str) -> bool:
    return text.partition(":")[0] == KIND


def parse(text: str) -> ServingCase:
    """ "serving:b=64,sk=4096,sigma=0.8"; what is left out is as in the grid."""
    given: Dict[str, Union[int, float, str]] = {}
    for item in text.partition(":")[2].split(","):
        name, _, value = item.strip().partition("=")
        if name == "dtype" and value in DTYPES:
            given["dtype"] = DTYPES[value]
        elif name == "sigma" and value.replace(".", "", 1).isdigit():
            given["sigma"] = float(value)
        elif name in _FIELDS and value.isdigit() and int(value) > 0:
            given[_FIELDS[name]] = int(value)
        else:
            known = ", ".join(_FIELDS)
            raise ValueError(f"'{item}' in '{text}' means nothing; expected {known} =N, sigma=X or dtype=bf16|fp16")
    missing = [name for name in ("b", "sk") if _FIELDS[name] not in given]
    if missing:
        raise ValueError(f"'{text}' lacks {', '.join(missing)}")
    return ServingCase(**given)  # type: ignore[arg-type]


def grid(device: str) -> List[ServingCase]:
    """Llama-8B's heads in pages of 16: lengths all alike, and lengths that differ; a CPU gets sizes that it answers in
    milliseconds."""
    if device == "cpu":
        return [ServingCase(4, 512), ServingCase(8, 256, 0.8)]
    return [ServingCase(16, 8192), ServingCase(64, 4096), ServingCase(64, 4096, 0.8)]
