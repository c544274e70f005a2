"""Draws graphs: a fragment of a model or a plain input, then up to a dozen steps more; sizes around those of tiles,
five sets of magnitudes.

Never: makes a tensor. A case is a function of its seed and number.
"""

import numpy as np

from .case import BINARY, REDUCTIONS, UNARY, Case, Input, Step, dims_of, result_dims, swap, tidy

SIZES = (1, 2, 3, 5, 8, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 128)
BATCHES = (1, 2, 3)
MOST_STEPS = 12
POWERS = ((0,), (-2, -1, 0, 1, 2), tuple(range(-8, 9)), (-8, 0, 8), (-8, 8))


class Growing:
    """A graph on its way; `at` is the value that the next step reads."""

    def __init__(self, random):
        self.random, self.inputs, self.steps, self.dims = random, [], [], {}
        self.type = self.one_of("float16", "float16", "bfloat16", "float32")
        self.batch = self.one_of((), ("b",), ("b",))

    def one_of(self, *choices):
        return choices[int(self.random.integers(len(choices)))]

    def now_and_then(self, share):
        return bool(self.random.random() < share)

    def input(self, dims, kind="normal", of=None):
        name = "abcdefghijklmnopqrstuvwxyz"[len(self.inputs)]
        layout = self.one_of("plain", "plain", "plain", "gaps", "swapped" if len(dims) > 1 else "gaps")
        of = of or ("float32" if self.now_and_then(0.05) else self.type)
        self.inputs.append(Input(name, tuple(dims), of, kind, layout))
        self.dims[name] = tuple(dims)
        return name

    def step(self, op, *of, numbers=()):
        step = Step(f"t{len(self.steps)}", op, of, tuple(numbers))
        self.dims[step.name] = result_dims(step, [self.dims[name] for name in of])
        self.steps.append(step)
        return step.name

    def linear(self, x, letter):
        """x times a new weight, which may be given transposed."""
        turned = self.now_and_then(0.3)
        dims = (self.dims[x][-1], letter)
        shared = self.dims[x][:-2] if self.now_and_then(0.7) else ()
        weight = self.input(shared + (dims[::-1] if turned else dims))
        return self.step("matmul", x, weight, numbers=(False, turned))

    def normalised(self, x, along=-1):
        """softmax, in one of its spellings."""
        spelling = self.one_of("name", "below the maximum", "plain", "reciprocal")
        if spelling == "name":
            return self.step("softmax", x, numbers=(along,))
        if spelling == "below the maximum":
            x = self.step("sub", x, self.step("max", x, numbers=(along,)))
        weights = self.step("exp", x)
        total = self.step("sum", weights, numbers=(along,))
        if spelling == "reciprocal":
            return self.step("mul", weights, self.step("reciprocal", total))
        return self.step("div", weights, total)

    def hidden(self, x):
        """Scores some of which count for nothing."""
        if self.now_and_then(0.4):
            return self.step("mask", x, numbers=self.one_of((None, 0), (2, 0), (1, 1), (4, 2)))
        dims = tuple("1" if self.now_and_then(0.2) else d for d in self.dims[x])
        if self.now_and_then(0.2):
            return self.step("mul", x, self.input(dims, "zero or one"))
        mask = self.input(dims, self.one_of("hides", "least"), self.one_of(self.type, "float32"))
        return self.step("add", x, mask)

    def attention(self):
        q, k, v = (self.input((*self.batch, *dims)) for dims in (("n", "d"), ("m", "d"), ("m", "e")))
        scores = self.step("matmul", q, k, numbers=(False, True))
        if self.now_and_then(0.5):
            scores = self.step("scale", scores, numbers=(self.one_of(0.125, 0.01, 3.0),))
        if self.now_and_then(0.2):
            bent = self.step("tanh", self.step("scale", scores, numbers=(0.1,)))
            scores = self.step("scale", bent, numbers=(10.0,))
        if self.now_and_then(0.4):
            scores = self.hidden(scores)
        return self.step("matmul", self.normalised(scores), v, numbers=(False, False))

    def rms_norm(self, x):
        weight = (self.input(self.dims[x][-1:], "positive"),) if self.now_and_then(0.6) else ()
        return self.step("rms_norm", x, *weight, numbers=(self.one_of(1e-6, 1e-5),))

    def layer_norm(self, x):
        off = self.step("sub", x, self.step("mean", x, numbers=(-1,)))
        spread = self.step("mean", self.step("square", off), numbers=(-1,))
        return self.step("div", off, self.step("sqrt", self.step("add_constant", spread, numbers=(1e-5,))))

    def gated(self, x):
        gate = self.step(self.one_of("silu", "gelu", "relu"), self.linear(x, "m"))
        return self.step("mul", gate, self.linear(x, "m"))

    def low_rank(self, x):
        update = self.linear(self.linear(x, "e"), "m")
        return self.step("add", self.linear(x, "m"), self.step("scale", update, numbers=(0.5,)))

    def begin(self):
        what = self.one_of("attention", "attention", "norm", "layer norm", "gate", "low rank", "softmax", "input")
        if what == "attention":
            return self.attention()
        x = self.input((*self.batch, "n", "d"))
        if what == "norm":
            return self.linear(self.rms_norm(x), "m")
        if what == "softmax":
            return self.normalised(self.hidden(x) if self.now_and_then(0.5) else x, self.one_of(-1, -1, 0))
        grow = {"layer norm": self.layer_norm, "gate": self.gated, "low rank": self.low_rank}
        return grow[what](x) if what in grow else x

    def beside(self, x):
        """Another value that meets x, or a new input that does."""
        meets = [y for y, dims in self.dims.items() if y != x and dims == self.dims[x]]
        if meets and self.now_and_then(0.6):
            return self.one_of(*meets)
        dims = tuple("1" if self.now_and_then(0.3) else d for d in self.dims[x])
        return self.input(dims, self.one_of("normal", "normal", "positive"))

    def grow(self, x):
        rank, last = len(self.dims[x]), self.dims[x][-1]
        what = self.one_of("unary", "unary", "number", "binary", "binary", "own", "fold", "softmax", "norm", "linear",
                           "linear", "mask", "turn")  # fmt: skip
        if what == "unary":
            return self.step(self.one_of(*UNARY), x)
        if what == "number":
            op, numbers = self.one_of(("scale", (0.125,)), ("scale", (-3.0,)), ("scale", (1 / 1024,)),
                                      ("add_constant", (1.0,)), ("add_constant", (-0.5,)), ("clamp", (-1.0, 2.0)),
                                      ("clamp", (None, 2.0)))  # fmt: skip
            return self.step(op, x, numbers=numbers)
        if what == "binary":
            pair = (x, self.beside(x))
            return self.step(self.one_of(*BINARY), *(pair if self.now_and_then(0.7) else pair[::-1]))
        if what == "own":
            folded = self.step(self.one_of(*REDUCTIONS), x, numbers=(self.one_of(-1, 0),))
            return self.step(self.one_of("sub", "div", "mul"), x, folded)
        if what == "fold":
            return self.step(self.one_of(*REDUCTIONS), x, numbers=(self.one_of(-1, -1, 0),))
        if what == "softmax":
            return self.normalised(self.hidden(x) if rank > 1 and self.now_and_then(0.3) else x)
        if what == "norm" and last != "1":
            return self.rms_norm(x)
        if what == "linear" and last != "1" and rank > 1:
            return self.linear(x, self.one_of("m", "d", "e", "n"))
        if what == "mask" and rank > 1:
            return self.hidden(x)
        if what == "turn" and rank > 1 and swap(self.dims[x]) != self.dims[x]:
            return self.step("transpose", x)
        return x


def draw(seed, number, device):
    random = np.random.default_rng([seed, number])
    growing = Growing(random)
    x, most = growing.begin(), int(random.integers(1, MOST_STEPS + 1))
    for _ in range(2 * MOST_STEPS):
        if len(growing.steps) < most and len(growing.inputs) < 20:
            x = growing.grow(x)
    if x not in (step.name for step in growing.steps):
        return None
    upto = 1 + next(at for at, step in enumerate(growing.steps) if step.name == x)
    case = Case(
        tuple(growing.inputs),
        tuple(growing.steps[:upto]),
        tuple((letter, int(random.choice(BATCHES if letter == "b" else SIZES))) for letter in "bnmde"),
        tuple(tuple(int(random.choice(reach)) for _ in growing.inputs) for reach in POWERS),
        growing.one_of(None, None, "attention"),
        "torch" if device == "cuda" or growing.now_and_then(0.3) else "numpy",
        int(random.integers(1 << 30)),
    )
    tidied = tidy(case)
    return tidied if tidied and dims_of(tidied) else None
