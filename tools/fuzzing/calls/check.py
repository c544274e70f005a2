"""Runs a random call, and holds all that it wrote against what it should have written.

Owns: the order of these checks. Never: computes attention; see reference.py.
"""

import math
from dataclasses import replace

import numpy as np

import gqa

from .. import arrays
from ..judgement import Failure, equal_line, judge_lse, judge_rows, name_of
from ..types import TYPES
from . import known
from .reference import Sequence, attend, rotated
from .source import PRELUDE, ill, write

HANDLES = {}  # "checked", as a test's lines call it
DEVICE = {"name": "cpu"}
MODULES = {}  # torch and ml_dtypes, where they are installed: imported once, which takes seconds


def namespace():
    names = {"np": np, "gqa": gqa, **MODULES, **HANDLES}
    exec(PRELUDE, names)
    return names


def run_text(text, names):
    """Runs all but the last line, which is the call, then what is told of the tensors before, then the call."""
    exec("\n".join(text.body[:-1]), names)
    before = snapshot(text, names)
    exec(text.body[-1], names)
    return before


def snapshot(text, names):
    """The bits of each tensor that the call is given, and of the memory that it is a view of."""
    memories = {memory for memory, _ in text.memory.values()}
    return {name: arrays.host(names[name]) for name in {*text.made, *memories}}


def attempt_call(case):
    text, lists = write(case, DEVICE["name"])
    names = namespace()
    try:
        before = run_text(text, names)
    except (gqa.GqaError, NotImplementedError) as error:
        return known.labelled(case, lists, Failure("refused", f"{type(error).__name__}: {error}"), DEVICE["name"])
    found = Result(case, lists, text, names, before).judged()
    return found and known.labelled(case, lists, found, DEVICE["name"])


class Result:
    """What a call left behind."""

    def __init__(self, case, lists, text, names, before):
        self.case, self.lists, self.text, self.names, self.before = case, lists, text, names, before
        self.kind = TYPES[case.type]
        self.after = snapshot(text, names)

    def judged(self):
        return self.appended() or self.computed() or self.overwritten()

    # What was written into the caches.

    def appended(self):
        c, lists = self.case, self.lists
        if c.new is None:
            return None
        for name in "kv":
            fresh = arrays.decoded(self.before[f"{name}_new"], self.kind).reshape(
                -1, c.kv_heads, c.dim if name == "k" else c.dim_v
            )
            raw = self.before[f"{name}_new"].reshape(fresh.shape)
            have = self.after[name]
            for b, t, at in self.written_slots():
                row = int(lists.new_starts[b]) + t
                if name == "v" or c.rotary is None:
                    off = have[at] != raw[row]
                    want, allowed = fresh[row], np.zeros_like(fresh[row])
                    nan = np.isnan(fresh[row]) & np.isnan(arrays.decoded(have[at], self.kind))
                    off = off & ~nan
                else:
                    want = self.rotated_key(fresh[row], b, t)
                    largest = np.abs(fresh[row]).max()
                    allowed = 0.51 * self.kind.step * np.abs(want) + 2.0**-21 * largest + self.kind.least
                    got = arrays.decoded(have[at], self.kind)
                    off = ~(np.abs(got - want) <= allowed) & ~(np.isnan(want) & np.isnan(got))
                if off.any():
                    return self.append_failure(name, at, off, want, allowed, (b, t))
        return None

    def written_slots(self):
        """(sequence, its new token, where that is in k and v) of new tokens that have room."""
        lists = self.lists
        for b in range(self.case.batch):
            if lists.given[b] > lists.room[b]:
                continue
            for t in range(int(lists.new[b])):
                slot = int(lists.old[b]) + t
                if slot < lists.room[b]:
                    yield b, t, tuple(int(i) for i in lists.at(b, np.array(slot)))

    def tables(self):
        return (arrays.decoded(self.before[name], self.kind) for name in ("cos", "sin"))

    def rotated_key(self, key, b, t):
        cos, sin = self.tables()
        place = np.array([self.lists.first_position(b) + t])
        return rotated(key[None], cos, sin, place, self.case.interleaved)[0]

    def append_failure(self, name, at, off, want, allowed, which):
        where = tuple(np.argwhere(off)[0])
        full = (*at, *where)
        got = arrays.decoded(self.after[name], self.kind)[full]
        words = f"{name}{name_of(full)} is {got:.6g}, expected {want[where]:.6g}: new token "
        words += f"{which[1]} of sequence {which[0]}"
        return Failure("append", words, equal_line(name, full, want[where], float(allowed[where])))

    # Whatever else was written.

    def overwritten(self):
        c = self.case
        changed_slots = np.zeros(self.lists.k_tokens, bool)
        if c.new is not None:
            for _, _, at in self.written_slots():
                changed_slots[at] = True
        for name in self.text.made:
            if name == "out":
                continue
            differs = self.before[name] != self.after[name]
            if name in ("k", "v"):
                differs &= ~changed_slots[..., None, None]
            if differs.any():
                return self.overwritten_failure(name, tuple(np.argwhere(differs)[0]))
        return self.out_overwritten() or self.memory_overwritten()

    def overwritten_failure(self, name, at):
        before, after = (
            arrays.decoded(x[name], self.kind)[at] if x[name].itemsize == 2 else x[name][at]
            for x in (self.before, self.after)
        )
        words = f"{name}{name_of(at)} was {before:.6g} and is {after:.6g}; the call has no business there"
        place = f"float({name}{name_of(at)})"
        return Failure("overwritten", words, f"np.testing.assert_equal({place}, {literal(before)})")

    def out_overwritten(self):
        """Rows of a given out that no sequence uses."""
        c, lists = self.case, self.lists
        if c.out is None or c.queries is None:
            return None
        free = np.ones(lists.q_tokens, bool)
        for b in range(c.batch):
            free[lists.query_rows(b)] = False
        differs = (self.before["out"] != self.after["out"]) & free[:, None, None]
        return self.overwritten_failure("out", tuple(np.argwhere(differs)[0])) if differs.any() else None

    def memory_overwritten(self):
        """What lies between the elements of a view."""
        for memory in {m for m, _ in self.text.memory.values()}:
            before = self.before[memory].copy()
            for name, (of, view) in self.text.memory.items():
                if of == memory:
                    eval(f"x{view}", {"x": before})[...] = self.after[name]
            differs = before != self.after[memory]
            if differs.any():
                self.before[memory] = before
                return self.overwritten_failure(memory, tuple(np.argwhere(differs)[0]))
        return None

    # What was computed.

    def computed(self):
        c, lists = self.case, self.lists
        out = arrays.numbers(self.names["out"])
        lse = arrays.numbers(self.names["lse"]) if c.lse else None
        for b in range(c.batch):
            if b == 0 and ill(c, lists):
                continue
            found = self.sequence_judged(b, out, lse)
            if found:
                return replace(
                    found,
                    words=f"{found.words}; sequence {b} has {int(lists.used[b])} queries and {len(lists.seen(b))} keys",
                )
        return None

    def sequence_judged(self, b, out, lse):
        lists, packed = self.lists, self.case.queries is not None
        rows = lists.query_rows(b)
        got = out[rows]
        if not got.size:
            return None
        start = int(lists.q_starts[b])
        expected, want, naive, doubt = attend(self.sequence(b))
        found = judge_rows(got, expected, self.kind, "out", lambda at: (start + at[0], *at[1:]) if packed else (b, *at))
        if found or lse is None:
            return found
        got_lse = lse[:, rows] if packed else lse[b]
        return judge_lse(got_lse, want, naive, doubt, "lse", lambda at: (at[0], start + at[1]) if packed else (b, *at))

    def sequence(self, b):
        c, lists = self.case, self.lists
        rows, slots = lists.query_rows(b), lists.at(b, lists.seen(b))
        q = arrays.decoded(self.before["q"][rows], self.kind)
        k, v = (arrays.decoded(self.after[name][slots], self.kind) for name in "kv")
        s = Sequence(q, k, v, c.group, c.scale or 1 / math.sqrt(c.dim), self.kind, c.causal, c.window, c.softcap)
        if c.rotary is not None:
            cos, sin = self.tables()
            steps = np.arange(len(q)) * bool(c.causal or c.window not in (None, (-1, -1)))
            turned = rotated(q, cos, sin, lists.first_position(b) + steps, c.interleaved)
            s = replace(s, q=turned, q_rounded=self.kind.rounded(turned).astype(np.float64))
        sides = {}
        if c.sink is not None:
            sides["sink"] = self.side("sink")
        if c.score_scale is not None:
            factor = self.side("score_scale")
            full = c.batch, c.q_heads, c.q_len
            sides["score_scale"] = np.broadcast_to(factor if c.score_scale else factor[:, None], full)[b]
        if c.bias is not None:
            full = c.batch, c.q_heads, c.q_len, lists.kv_len
            sides["bias"] = np.broadcast_to(self.side("bias"), full)[b]
        return replace(s, **sides)

    def side(self, name):
        kind = TYPES[self.case.bias_type if name == "bias" else "float32"]
        return arrays.decoded(self.before[name], kind)


def literal(number):
    return "np.nan" if np.isnan(number) else repr(float(number))


def call_test(case, failure, name):
    """The lines that ran, with what they need, as a test."""
    text, _ = write(case, DEVICE["name"])
    return as_test(text, failure, name, case.checked if hasattr(case, "checked") else False)


def as_test(text, failure, name, checked=False):
    body = [f'"""{failure.kind[0].upper() + failure.kind[1:]}: {docstring(failure.words)}"""']
    used = "\n".join(text.body)
    if "ml_dtypes." in used:
        body.append('ml_dtypes = pytest.importorskip("ml_dtypes")')
    if "torch." in used:
        body.append('torch = pytest.importorskip("torch")')
    if "normal(" in used:
        body += ["", *PRELUDE.strip().split("\n"), ""]
    if checked:
        body.append(f'checked = gqa.Handle("{"cuda" if text.device == "cuda" else "host"}", checked=True)')
    body += text.body
    if failure.assertion:
        body.append(failure.assertion)
    lines = "\n".join(f"    {line}" if line else "" for line in body)
    mark = "@pytest.mark.gpu\n" if text.device == "cuda" else ""
    return f"import gqa\nimport numpy as np\nimport pytest\n\n\n{mark}def {name}():\n{lines}\n"


def docstring(words):
    words = " ".join(words.split()).replace("\\", "/").replace('"', "'")
    return words if len(words) < 300 else words[:297] + "..."
