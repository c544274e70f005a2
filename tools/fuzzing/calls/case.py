"""What a random call is: its fields, all at their simplest unless said, and the numbers that follow from them.

Owns: which fields go together: Lists makes any case a call that means something, so that a shrinker may change any
field by itself. Never: draws, or makes a tensor.
"""

import math
from dataclasses import dataclass, fields
from typing import Optional, Tuple

import numpy as np

DIMS = (16, 32, 64, 80, 96, 112, 128, 192, 256)
FUNCTIONS = ("attention", "flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")


@dataclass(frozen=True)
class Case:
    function: str = "flash_attn_func"
    type: str = "float16"
    frame: str = "numpy"  # or "torch"
    batch: int = 1
    q_len: int = 1
    kv_len: int = 1  # of a dense cache; of pages the columns follow from it
    kv_heads: int = 1
    group: int = 1
    dim: int = 64
    dim_v: int = 64
    causal: bool = False
    window: Optional[Tuple] = None
    scale: Optional[float] = None
    softcap: float = 0.0
    lse: bool = False
    probs: bool = False  # flash_attn_func's return_attn_probs
    slack: int = 0  # by which a maximum is too large
    tail: int = 0  # rows of a packed tensor that no sequence has
    out: Optional[str] = None  # a layout, where out is given
    layouts: Tuple = ("plain", "plain", "plain", "plain")  # of q, k, v and new keys; k "both": in one tensor with v
    numbers: str = "plain"
    power: int = 0
    seed: int = 0
    hidden: str = "nan"  # what lies in slots that nobody may see
    sink: Optional[str] = None
    score_scale: Optional[Tuple] = None  # () of heads, or which dimensions it has: (batch, heads)
    bias: Optional[Tuple] = None  # which dimensions it has: (batch, heads, rows)
    bias_type: str = "float32"
    bias_plain: bool = False  # 0 where it is not filled
    mask: Optional[str] = None
    fill: float = -math.inf
    checked: bool = False
    # One number a sequence.
    queries: Optional[Tuple] = None  # q is packed
    keys: Optional[Tuple] = None  # k and v are packed
    used: Optional[Tuple] = None  # seqused_q
    lengths: Optional[Tuple] = None
    one_length: bool = False  # lengths are one number
    page: Optional[int] = None
    rows: Optional[Tuple] = None  # cache_batch_idx
    pads: Optional[Tuple] = None  # cache_leftpad
    new: Optional[Tuple] = None
    new_packed: bool = False
    rotary: Optional[int] = None  # rotary_dim
    interleaved: bool = True
    positions: Optional[Tuple] = None  # rotary_seqlens

    @property
    def q_heads(self):
        return self.kv_heads * self.group


SIMPLEST = Case()
SEQUENCES = ("queries", "keys", "used", "lengths", "rows", "pads", "new", "positions")


def differing(case):
    """What a case says beyond the simplest."""
    simplest = type(case)()
    return {f.name: getattr(case, f.name) for f in fields(case) if getattr(case, f.name) != getattr(simplest, f.name)}


class Lists:
    """A case's sequences: how many queries and keys each has, and where they lie."""

    def __init__(self, case):
        c, b = case, case.batch
        self.case = case
        self.queries = np.array(c.queries if c.queries is not None else [c.q_len] * b, int)
        self.max_q = int(max([0, *self.queries]))
        self.q_starts = np.concatenate([[0], np.cumsum(self.queries)]).astype(int)
        self.used = self.queries if c.used is None else np.minimum(c.used, self.queries)
        self.cache_rows = b if c.rows is None else b + 2
        self.rows = np.arange(b) if c.rows is None else np.array(c.rows, int) % max(self.cache_rows, 1)
        self.columns = 0
        if c.page:
            self.columns = -(-c.kv_len // c.page)
            self.room = np.full(b, self.columns * c.page)
            self.kv_len = self.columns * c.page
        elif c.keys is not None:
            self.room = np.array(c.keys, int)
            self.kv_len = int(max([0, *self.room]))
        else:
            self.room = np.full(b, c.kv_len)
            self.kv_len = c.kv_len
        self.k_starts = np.concatenate([[0], np.cumsum(self.room)]).astype(int)
        self.given = self.room if c.lengths is None else np.array(c.lengths, int)
        if c.one_length and b:
            self.given = np.full(b, min(max(0, int(self.given[0])), self.kv_len))
        self.old = np.clip(self.given, 0, self.room)
        self.new = np.zeros(b, int)
        if c.new is not None:
            self.new = np.array(c.new, int) if c.new_packed else np.full(b, max([0, *c.new]))
        self.new_starts = np.concatenate([[0], np.cumsum(self.new)]).astype(int)
        self.pads = np.zeros(b, int) if c.pads is None else np.minimum(c.pads, self.old)
        # A length beyond the last slot leaves no room.
        self.lengths = np.minimum(self.old + np.where(self.given > self.room, 0, self.new), self.room)
        if c.page:
            # Sequences share pages, but where one of them writes.
            random, held = np.random.default_rng([c.seed, 8]), self.cache_rows * self.columns
            self.pages = held + 3
            numbers = (
                random.permutation(self.pages)[:held] if c.new is not None else random.integers(0, self.pages, held)
            )
            self.table = numbers.reshape(self.cache_rows, self.columns)

    @property
    def k_tokens(self):
        """The dimensions of k before its heads."""
        c = self.case
        if c.page:
            return self.pages, c.page
        return (int(self.k_starts[-1]) + c.tail,) if c.keys is not None else (self.cache_rows, c.kv_len)

    @property
    def q_tokens(self):
        c = self.case
        return (int(self.q_starts[-1]) + c.tail,) if c.queries is not None else (c.batch, c.q_len)

    @property
    def new_tokens(self):
        c = self.case
        return (int(self.new_starts[-1]) + c.tail,) if c.new_packed else (c.batch, int(max([0, *self.new])))

    def seen(self, b):
        """A sequence's slots."""
        return np.arange(self.pads[b], max(self.pads[b], self.lengths[b]))

    def at(self, b, slots):
        """Where they are in k and v."""
        c = self.case
        if c.page:
            return self.table[self.rows[b], slots // c.page], slots % c.page
        return (self.k_starts[b] + slots,) if c.keys is not None else (self.rows[b] + 0 * slots, slots)

    def query_rows(self, b):
        """Those of q and out that sequence b uses, and those of (heads, rows) in lse."""
        if self.case.queries is None:
            return b
        return slice(int(self.q_starts[b]), int(self.q_starts[b] + self.used[b]))

    def first_position(self, b):
        return int(self.case.positions[b]) if self.case.positions is not None else int(self.old[b])

    @property
    def positions(self):
        """How many rows a rotary table needs. Packed queries are counted on the device: a length that is a number is held
        to one at least."""
        first = [self.first_position(b) for b in range(self.case.batch)]
        rows = [self.case.q_len if self.case.queries is None else max(1, int(q)) for q in self.queries]
        return max([1, *(f + max(int(n), q) for f, n, q in zip(first, self.new, rows))])


def fits(case):
    """Whether a case is one that the functions are said to take."""
    c = case
    if c.rows is not None and c.new is not None and len(set(r % (c.batch + 2) for r in c.rows)) < c.batch:
        return False  # two sequences would write one row
    if c.checked:  # such a handle refuses lengths and new tokens that have no room
        lists = Lists(c)
        if (lists.given < 0).any() or (lists.given + lists.new > lists.room).any():
            return False
    return sum((c.softcap != 0, c.score_scale is not None, c.bias is not None)) < 3
