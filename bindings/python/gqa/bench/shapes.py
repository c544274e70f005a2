"""The shapes to run: their text, as gqa-cache writes it, and the default grids.

Owns: Shape, its counts of operations and bytes. Never: makes a tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, List

_FIELDS = {
    "b": "batch",
    "hq": "q_heads",
    "hk": "kv_heads",
    "sq": "q_len",
    "sk": "kv_len",
    "d": "head_dim",
    "dv": "head_dim_v",
}
DTYPES = {
    **dict.fromkeys(("bf16", "bfloat16"), "bfloat16"),
    **dict.fromkeys(("f16", "fp16", "float16"), "float16"),
    **dict.fromkeys(("f32", "fp32", "float32"), "float32"),
}
SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True)
class Shape:
    batch: int
    q_heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    head_dim_v: int
    dtype: str = "bfloat16"
    causal: bool = False

    @property
    def decode(self) -> bool:
        return self.q_len == 1

    def __str__(self) -> str:
        dv = "" if self.head_dim_v == self.head_dim else f",dv={self.head_dim_v}"
        return (
            f"b={self.batch},hq={self.q_heads},hk={self.kv_heads},sq={self.q_len},sk={self.kv_len},"
            f"d={self.head_dim}{dv},dtype={SHORT[self.dtype]}{',causal' if self.causal else ''}"
        )

    def of(self, dtype: str) -> Shape:
        """The same shape of another dtype, a name of DTYPES."""
        return replace(self, dtype=DTYPES[dtype])

    def pairs(self) -> int:
        """Query-key pairs that are not masked, of one head of one batch entry."""
        if not self.causal:
            return self.q_len * self.kv_len
        seen = self.kv_len - self.q_len  # by the query before the first
        return sum(max(0, seen + i + 1) for i in range(self.q_len))

    def flops(self) -> int:
        return 2 * self.batch * self.q_heads * self.pairs() * (self.head_dim + self.head_dim_v)

    def bytes(self) -> int:
        """What has to be read and written once: q, k, v and out."""
        q_rows, kv_rows = self.q_len * self.q_heads, self.kv_len * self.kv_heads
        return self.batch * (q_rows + kv_rows) * (self.head_dim + self.head_dim_v) * BYTES[self.dtype]


def parse(text: str) -> Shape:
    """A SPEC, as `gqa-cache help spec` has it, of sizes, dtype and causal: "hq=32,hk=8,sq=4096,d=128,causal"."""
    given: Dict[str, str] = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        known = (name in _FIELDS and value.isdigit() and int(value) > 0) or (name == "dtype" and value in DTYPES)
        if not (known or (name == "causal" and (value in ("0", "1") or not equals))):
            raise ValueError(
                f"'{item}' in shape '{text}' means nothing here; "
                "expected b, hq, hk, sq, sk, d, dv =N, dtype=bf16|f16|f32 or causal; gqa-cache help spec has the grammar"
            )
        if name in given:
            raise ValueError(f"'{name}' stands twice in shape '{text}'; expected once")
        given[name] = value
    missing = [name for name in ("hq", "sq", "d") if name not in given]
    if missing:
        raise ValueError(f"shape '{text}' lacks {', '.join(missing)}; expected at least hq, sq and d")
    for name, like in (("hk", "hq"), ("sk", "sq"), ("dv", "d")):
        given.setdefault(name, given[like])
    sizes = {field: int(given.get(name, 1)) for name, field in _FIELDS.items()}
    return Shape(dtype=DTYPES[given.get("dtype", "bf16")], causal=given.get("causal", "0") != "0", **sizes)


def _llama_8b(batch: int, q_len: int, kv_len: int, causal: bool) -> Shape:
    return Shape(batch, 32, 8, q_len, kv_len, 128, 128, "bfloat16", causal)


def _hopper() -> List[Shape]:
    """Prefill where Hopper's own kernels count: lengths, head dims, masks and groups of today's models."""

    def shape(batch: int, heads: str, q_len: int, head_dim: int, mask: str = "causal", kv_len: int = 0) -> Shape:
        q_heads, kv_heads = (int(count) for count in heads.split("/"))
        kv_len = kv_len or q_len
        return Shape(batch, q_heads, kv_heads, q_len, kv_len, head_dim, head_dim, "bfloat16", mask == "causal")

    return [
        shape(1, "32/8", 512, 128),
        shape(1, "32/8", 4096, 128),
        shape(1, "64/8", 8192, 128),
        shape(1, "16/2", 16384, 128),
        shape(1, "16/16", 16384, 128),
        shape(1, "16/16", 16384, 128, "full"),
        shape(4, "32/8", 2048, 128),
        shape(16, "32/8", 1024, 128),
        shape(1, "32/32", 16384, 64),
        shape(1, "32/32", 16384, 64, "full"),
        shape(1, "8/8", 16384, 256),
        shape(1, "8/8", 16384, 256, "full"),
        shape(1, "32/8", 512, 128, kv_len=16384),
    ]


_SWEEP_TOKENS = 16384
_SWEEP_HEADS = {64: 32, 96: 16, 128: 16, 192: 8, 256: 8}


def _sweep() -> List[Shape]:
    """Every head dim, length, mask and group, 16k tokens in all (one sequence where it is longer)."""
    return [
        Shape(max(1, _SWEEP_TOKENS // n), heads, heads // group, n, n, head_dim, head_dim, "bfloat16", causal)
        for head_dim, heads in _SWEEP_HEADS.items()
        for n in (512, 1024, 2048, 4096, 8192, 16384, 32768)
        for causal in (True, False)
        for group in (1, 4, 8)
    ]


def grid(name: str, device: str) -> List[Shape]:
    """prefill, decode, all: Llama-8B's heads: prefill of one prompt, decode of a batch; a CPU gets shapes that it
    answers in seconds. hopper: prefill of many models. sweep: 210 shapes of prefill."""
    if name in ("hopper", "sweep"):
        return _hopper() if name == "hopper" else _sweep()
    if device == "cpu":
        prefill = [_llama_8b(1, n, n, True) for n in (512, 1024)]
        decode = [_llama_8b(batch, 1, 4096, False) for batch in (1, 8)]
    else:
        prefill = [_llama_8b(1, n, n, True) for n in (2048, 4096, 8192, 16384)]
        decode = [_llama_8b(batch, 1, 4096, False) for batch in (1, 8, 32, 128)] + [_llama_8b(1, 1, 8192, False)]
    return {"prefill": prefill, "decode": decode, "all": prefill + decode}[name]
