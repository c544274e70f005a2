"""Attention as a serving engine calls it, over a paged cache of keys or packed prompts: its text, its lengths and the
default grid.

Owns: ServingCase, the lengths that its seed gives, its counts of operations and bytes. Never: makes a tensor
(serving_peers does).
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, replace
from typing import Dict, List, Tuple, Union

from .shapes import BYTES, DTYPES, SHORT

KIND = "serving"
SEED = 20261125
_DECODES = 16  # queries a sequence: with more, arithmetic counts
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
    """Causal, the last query of a sequence seeing all its keys. seed gives the lengths and the order of the pages.
    packed: prompts one after another in a tensor, as many queries as keys each; then q_len and page mean nothing."""

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
    packed: bool = False

    def __str__(self) -> str:
        told = {name: field for name, field in _FIELDS.items() if not (self.packed and field in ("q_len", "page"))}
        sizes = ",".join(f"{name}={getattr(self, field)}" for name, field in told.items())
        return f"{KIND}:{sizes},sigma={self.sigma:g},dtype={SHORT[self.dtype]}{',packed' * self.packed}"

    @property
    def decode(self) -> bool:
        """Bound by memory: its rate is told in bytes."""
        return not self.packed and self.q_len <= _DECODES

    def of(self, dtype: str) -> ServingCase:
        """The same case of another dtype, a name of DTYPES."""
        return replace(self, dtype=DTYPES[dtype])

    def lengths(self) -> Tuple[int, ...]:
        """Keys of each sequence: lognormal, scaled to a mean of mean_len; all alike where sigma is 0."""
        return _lengths(self.batch, self.mean_len, self.sigma, self.seed, 1 if self.packed else self.q_len)

    def queries(self) -> Tuple[int, ...]:
        """Each sequence's number of queries."""
        return self.lengths() if self.packed else (self.q_len,) * self.batch

    def pages(self) -> Tuple[int, ...]:
        """Each sequence's number of pages; the last may be partly filled."""
        return tuple(-(-length // self.page) for length in self.lengths())

    def flops(self) -> int:
        # Less what the queries before the last do not see.
        sizes = zip(self.lengths(), self.queries())
        pairs = sum(keys * queries - queries * (queries - 1) // 2 for keys, queries in sizes)
        return 4 * self.q_heads * self.head_dim * pairs

    def bytes(self) -> int:
        """Keys and values that have to be read, by the lengths as they are."""
        return sum(self.lengths()) * self.kv_heads * 2 * self.head_dim * BYTES[self.dtype]

    def told(self) -> str:
        lengths = self.lengths()
        mean = sum(lengths) / len(lengths)
        return f"lengths by seed {self.seed}: {min(lengths)} to {max(lengths)}, mean {mean:.0f}"


@functools.lru_cache(maxsize=None)
def _lengths(batch: int, mean: int, sigma: float, seed: int, least: int) -> Tuple[int, ...]:
    source = random.Random(seed)
    shares = [source.lognormvariate(0.0, sigma) for _ in range(batch)]
    scale = mean * batch / sum(shares)
    return tuple(max(least, round(share * scale)) for share in shares)


def is_serving(text: str) -> bool:
    return text.partition(":")[0] == KIND


def parse(text: str) -> ServingCase:
    """ "serving:b=64,sk=4096,sigma=0.8"; what is left out is as a ServingCase has it."""
    given: Dict[str, Union[int, float, str]] = {}
    for item in text.partition(":")[2].split(","):
        name, _, value = item.strip().partition("=")
        if name == "dtype" and value in DTYPES:
            given["dtype"] = DTYPES[value]
        elif name == "sigma" and value.replace(".", "", 1).isdigit():
            given["sigma"] = float(value)
        elif item.strip() == "packed":
            given["packed"] = True
        elif name in _FIELDS and value.isdigit() and int(value) > 0:
            given[_FIELDS[name]] = int(value)
        else:
            known = ", ".join(_FIELDS)
            expected = f"{known} =N, sigma=X, packed or dtype=bf16|fp16|fp32"
            raise ValueError(f"'{item}' in '{text}' means nothing; expected {expected}")
    missing = [name for name in ("b", "sk") if _FIELDS[name] not in given]
    if missing:
        raise ValueError(f"'{text}' lacks {', '.join(missing)}")
    return ServingCase(**given)  # type: ignore[arg-type]


def grid(device: str) -> List[ServingCase]:
    """Decodes of equal and of other lengths, a few tokens at once, a chunk of a prompt, packed prompts; 32/8 heads
    where not said. A CPU gets sizes that it answers in milliseconds."""
    if device == "cpu":
        return [
            ServingCase(4, 512),
            ServingCase(8, 256, 0.8),
            ServingCase(2, 512, q_len=64),
            ServingCase(4, 128, 0.8, packed=True),
        ]
    return [
        ServingCase(16, 8192),
        ServingCase(256, 1024),
        ServingCase(1, 32768),
        ServingCase(128, 8192, page=64),
        ServingCase(64, 4096, q_heads=64, page=64),
        ServingCase(64, 4096, 0.8),
        ServingCase(8, 32768, 0.8, q_heads=64),
        ServingCase(32, 8192, q_len=4),
        ServingCase(4, 8192, q_len=512),
        ServingCase(16, 1024, 0.8, packed=True),
        ServingCase(64, 256, 0.8, packed=True),
        ServingCase(4, 8192, 0.8, q_heads=64, packed=True),
    ]
