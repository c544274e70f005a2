"""Random calls: what is drawn, and how often.

Owns: the choice. Never: says what a call means; see case.py. A case follows from the seed and its number alone.
"""

import math
import numpy as np

from .case import DIMS, FUNCTIONS, Case
from .merge import draw_merge

NUMBERS = "plain plain steep equal grow shrink one far huge big most tiny zero ones ill".split()
KEYS = (1, 2, 7, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 150, 200)
MASKS = "columns columns left right causal rows all far nan".split()
FILLS = (-math.inf, -math.inf, "own", "own", -65504.0, -1e9, -1e4, -5e9, -1e15, -1e30)
# So many calls in a row are alike but for their numbers and lists: a shape is tuned once. GPUs compile, too.
ALIKE = {"cpu": 6, "cuda": 60}


class Dice:
    def __init__(self, *key):
        self.random = np.random.default_rng(key)

    def some(self, share):
        return bool(self.random.random() < share)

    def of(self, *choices):
        return choices[int(self.random.integers(len(choices)))]

    def number(self, least, end):
        return int(self.random.integers(least, end))

    def numbers(self, count, least, end):
        return tuple(int(x) for x in self.random.integers(least, end, count))


def draw(seed, number, device):
    alike = ALIKE[device]
    shape = Dice(seed, 1, number // alike)
    function = shape.of(*"attention func func varlen varlen cache cache cache cache merge".split())
    own = Dice(seed, 2, number)
    if function == "merge":
        return draw_merge(shape, own, device)
    name = FUNCTIONS[("attention", "func", "varlen", "cache").index(function)]
    return drawn_numbers(own, drawn_shape(shape, name, device))


def drawn_shape(dice, function, device):
    c = dict(function=function, type=dice.of("float16", "bfloat16", "float32"))
    c["frame"] = "torch" if device == "cuda" else dice.of("numpy", "torch")
    d = dice.of(*DIMS) if dice.some(0.5) else 64
    c.update(dim=d, dim_v=dice.of(*DIMS) if dice.some(0.2) else d)
    c.update(batch=dice.number(1, 5), q_len=dice.of(1, 1, dice.number(0, 41)), kv_heads=dice.number(1, 4))
    c.update(
        kv_len=dice.of(*KEYS) if dice.some(0.6) else dice.number(1, 201), group=dice.of(1, 1, 2, dice.number(1, 9))
    )
    if dice.some(0.05):
        c.update(batch=0)
    c.update(causal=dice.some(0.5), scale=dice.of(None, None, None, 0.125, 1.0, 1e-4, 3.0), lse=dice.some(0.5))
    c["out"] = dice.of(None, None, "plain", "gaps", "odd")
    if dice.some(0.5):
        names = ["plain"] * 4 + ["heads", "gaps", "odd", "backward"] + ["same"] * (function in FUNCTIONS[:2])
        c["layouts"] = tuple(dice.of(*names) for _ in range(4))
        if dice.some(0.2):
            both = dice.of("both", "both heads") if function != "flash_attn_varlen_func" else "both"
            c["layouts"] = (c["layouts"][0], both, both, c["layouts"][3])
            if both == "both heads":
                c["dim_v"] = d
    if function == "attention":
        return c
    sides = (
        None,
        None,
        (dice.number(0, 50), 0),
        dice.numbers(2, 0, 200),
        (-1, dice.number(0, 50)),
        (dice.number(0, 50), None),
    )
    c.update(window=dice.of(*sides), softcap=dice.of(0.0, 0.0, 20.0, 0.5), slack=dice.of(0, 0, 3, 100))
    c["sink"] = dice.of("plain", "plain", "far", "huge") if dice.some(0.3) else None
    if function == "flash_attn_func":
        c["probs"] = c["lse"] and dice.some(0.3)
        kind = dice.of("scale", "bias", "bias", "both") if dice.some(0.7) else ""
        if kind in ("scale", "both"):
            c["score_scale"] = dice.of((), (dice.some(0.5), dice.some(0.5)))
        if kind in ("bias", "both"):
            c["bias"] = dice.some(0.5), dice.some(0.5), dice.some(0.7)
            c["bias_type"] = dice.of(c["type"], "float32")
        if kind == "both":
            c["softcap"] = 0.0
        return c
    c["tail"] = 3 * dice.some(0.3)
    c["queries"] = () if dice.some(0.8 if function == "flash_attn_varlen_func" else 0.3) else None
    if function == "flash_attn_varlen_func":
        c["keys"] = () if dice.some(0.8) else None
        c["lengths"] = () if dice.some(0.3) else None
        c["used"] = () if c["queries"] is not None and dice.some(0.3) else None
    else:
        c["page"] = dice.of(None, dice.number(1, 34), 16, 1)
        c["lengths"] = () if dice.some(0.8) else None
        c["one_length"] = c["lengths"] is not None and dice.some(0.15)
        c["rows"] = () if dice.some(0.25) else None
        c["pads"] = () if dice.some(0.15) else None
        if c["lengths"] is not None and dice.some(0.5):
            c["new"] = (dice.of(1, 1, max(1, c["q_len"]), dice.number(1, 20)),)
            c["new_packed"] = dice.some(0.2)
            c["rotary"] = 16 * dice.number(1, d // 16 + 1) if dice.some(0.5) else None
            c["interleaved"] = dice.some(0.5)
            c["positions"] = () if c["rotary"] and dice.some(0.3) else None
    c["checked"] = dice.some(0.2)
    return c


def drawn_numbers(dice, c):
    """The lists and the kinds of numbers, which calls of one shape do not share."""
    c, b = dict(c), c["batch"]
    c.update(seed=dice.number(0, 1 << 30), numbers=dice.of(*NUMBERS), hidden=dice.of("nan", "nan", "inf", "most"))
    c["power"] = dice.number(1, 11) if dice.some(0.6) else dice.number(11, 56)
    if c.get("queries") is not None:
        c["queries"] = dice.numbers(b, 0, c["q_len"] + 1)
    if c.get("keys") is not None:
        c["keys"] = dice.numbers(b, 0, c["kv_len"] + 1)
    if c.get("used") is not None:
        c["used"] = tuple(dice.number(0, n + 1) for n in c["queries"])
    room = c.get("keys") or (c["kv_len"] if not c.get("page") else -(-c["kv_len"] // c["page"]) * c["page"],) * b
    if c.get("lengths") is not None:
        lengths = [n if dice.some(0.2) else dice.number(0, n + 1) for n in room]
        if dice.some(0.15) and not c["checked"]:  # numbers out of range count as the end that is nearer
            lengths = [-5 if not n else n + dice.of(1, 2**30) if n == most else n for n, most in zip(lengths, room)]
        c["lengths"] = tuple(lengths)
    if c.get("rows") is not None:
        distinct = c.get("new") is not None
        c["rows"] = tuple(int(r) for r in dice.random.permutation(b + 2)[:b]) if distinct else dice.numbers(b, 0, b + 2)
    if c.get("pads") is not None:
        c["pads"] = dice.numbers(b, 0, 9)
    if c.get("new") is not None:
        most = c["new"][0]
        c["new"] = dice.numbers(b, 0, most + 1) if c["new_packed"] else (most,) * b
        if c.get("positions") is not None:
            c["positions"] = dice.numbers(b, 0, 50)
    if c.get("bias") is not None:
        fill = dice.of(*FILLS)
        c["mask"] = dice.of(*MASKS) if dice.some(0.8) else None
        c["fill"] = least_of(c["bias_type"]) if fill == "own" else fill
        c["bias_plain"] = c["mask"] is not None and dice.some(0.5)
    return Case(**c)


def least_of(name):
    from ..types import TYPES

    return -TYPES[name].most
