"""A random call as Python text: its tensors, its lists, the call. The fuzz runs the very lines that a test has.

Owns: how numbers, layouts and options are written down, in NumPy and in torch. Never: runs them, knows what is right.
"""

from dataclasses import dataclass, field
from typing import Dict, List, Tuple

from ..types import TYPES, array_text
from .case import Lists

# A layout: what the tensor's memory is made of, and the view of it that is handed in. {x}: the array, in float64; gaps
# hold `fill`.
LAYOUTS = {
    "gaps": ("np.pad({x}, [(0, 1)] + [(0, 0)] * {rest} + [(0, 8)], constant_values={fill})", "[:-1, ..., :-8]"),
    "odd": ("np.pad({x}, [(0, 0)] * {ndim1} + [(0, 1)], constant_values={fill})", "[..., :-1]"),
    "heads": ("{x}.swapaxes(1, 2)", ".swapaxes(1, 2)"),
    "backward": ("{x}[::-1]", "[::-1]"),
}
PRELUDE = "def normal(key, *shape):\n    return np.random.default_rng(key).standard_normal(shape)\n"


@dataclass
class Text:
    """Lines that a test's body has, and what the fuzz must know of the names in them."""

    frame: str
    device: str
    body: List[str] = field(default_factory=list)
    made: List[str] = field(default_factory=list)  # names of tensors as the call takes them
    memory: Dict[str, Tuple[str, str]] = field(default_factory=dict)  # tensor: the name of its memory, its view of it

    def add(self, *lines):
        self.body.extend(lines)

    def array(self, text, kind):
        """The expression of a tensor of this element type."""
        return array_text(text, kind, self.frame, self.device)

    def ints(self, numbers):
        listed = repr([int(n) for n in numbers])
        if self.frame == "torch":
            on = ', device="cuda"' if self.device == "cuda" else ""
            return f"torch.tensor({listed}, dtype=torch.int32{on})"
        return f"np.array({listed}, np.int32)"

    def tensor(self, name, kind, layout="plain", ndim=4, fill="np.nan"):
        """Makes a tensor of the float64 array of this name."""
        if layout == "backward" and self.frame == "torch":
            layout = "plain"  # torch has no negative steps
        if layout == "heads" and ndim != 4:
            layout = "gaps"
        if layout == "same":
            self.add(f"{name}_all = {self.array(f'{name}[:1]', kind)}", f"{name} = {self.repeated(name)}")
        elif layout == "plain":
            self.add(f"{name} = {self.array(name, kind)}")
        else:
            base, view = LAYOUTS[layout]
            text = base.format(x=name, rest=ndim - 2, ndim1=ndim - 1, fill=fill)
            self.add(f"{name}_all = {self.array(text, kind)}", f"{name} = {name}_all{view}")
            self.memory[name] = f"{name}_all", view
        self.made.append(name)

    def repeated(self, name):
        if self.frame == "torch":
            return f"{name}_all.expand(len({name}), *{name}_all.shape[1:])"
        return (
            f"np.lib.stride_tricks.as_strided({name}_all, (len({name}), *{name}_all.shape[1:]), "
            f"(0, *{name}_all.strides[1:]))"
        )

    def pair(self, kind, layout, ndim, dim, heads):
        """k and v in one tensor: behind each other in a token's elements, or in its heads."""
        if layout == "both":
            axis, views = -1, (f"[..., :{dim}]", f"[..., {dim}:]")
        else:
            axis, views = -2, (f"[..., :{heads}, :]", f"[..., {heads}:, :]")
        self.add(f"kv = {self.array(f'np.concatenate([k, v], {axis})', kind)}")
        for name, view in zip("kv", views):
            self.add(f"{name} = kv{view}")
            self.memory[name] = "kv", view
            self.made.append(name)


def write(c, device):
    """The text of a call."""
    text, lists = Text(c.frame, device), Lists(c)
    write_numbers(text, c, lists)
    write_hidden(text, c, lists)
    text.tensor("q", c.type, c.layouts[0], len(lists.q_tokens) + 2)
    ndim = len(lists.k_tokens) + 2
    if c.layouts[1].startswith("both"):
        text.pair(c.type, c.layouts[1] if c.dim == c.dim_v else "both", ndim, c.dim, c.kv_heads)
    else:
        # A cache that is written has its own memory for each row.
        for name, layout in zip("kv", c.layouts[1:3]):
            text.tensor(name, c.type, "plain" if layout == "same" and written(c) else layout, ndim)
    options = options_of(text, c, lists)
    write_out(text, c, lists, options)
    names = {"attention": "scale", "flash_attn_func": "softmax_scale"}
    if c.scale is not None:
        options.append((names.get(c.function, "softmax_scale"), repr(c.scale)))
    if c.causal:
        options.append(("causal", "True"))
    arguments = ", ".join(f"{name}={value}" for name, value in options)
    lhs = "out, lse, _" if c.probs and c.lse else "out, lse" if c.lse else "out"
    text.add(f"{lhs} = gqa.{c.function}(q, k, v{', ' if arguments else ''}{arguments})")
    return text, lists


def written(c):
    return c.new is not None


def write_numbers(text, c, lists):
    s, tokens, heads = c.seed, lists.k_tokens, c.kv_heads
    q, k, v = (*lists.q_tokens, c.q_heads, c.dim), (*tokens, heads, c.dim), (*tokens, heads, c.dim_v)
    for at, (name, shape) in enumerate((("q", q), ("k", k), ("v", v))):
        text.add(
            f"{name} = {simple_array(c, name) or f'normal([{s}, {at}], {listed(shape)})'}".replace("SHAPE", repr(shape))
        )
    names = ["q", "k", "v"]
    if written(c):
        fresh = lists.new_tokens
        for at, (name, dim) in enumerate((("k_new", c.dim), ("v_new", c.dim_v))):
            shape = *fresh, heads, dim
            simple = simple_array(c, name[0])
            text.add(f"{name} = {simple or f'normal([{s}, {at + 3}], {listed(shape)})'}".replace("SHAPE", repr(shape)))
        names += ["k_new", "v_new"]
    add_kind(
        text, c, names, {name: shape[:-2] for name, shape in zip(names, (q, k, v, *[(*lists.new_tokens, 0, 0)] * 2))}
    )


def listed(shape):
    return ", ".join(map(str, shape))


def simple_array(c, name):
    """An array of a kind that is no random numbers."""
    if c.numbers == "zero" and "qkv"[c.power % 3] == name:
        return "np.zeros(SHAPE)"
    if c.numbers == "ones" and name == "v" or c.numbers == "flat" and name == "v":
        return "np.ones(SHAPE)"
    if c.numbers == "flat":
        return "np.zeros(SHAPE)"
    return None


def add_kind(text, c, names, tokens):
    s, kind = c.seed, TYPES[c.type]
    keys, values, random = [n for n in names if n[0] == "k"], [n for n in names if n[0] == "v"], "np.random.default_rng"
    if c.numbers == "steep":
        text.add("q *= 8")
    elif c.numbers == "equal":
        text.add(*(f"{n}[...] = normal([{s}, 7], {c.kv_heads}, {c.dim})" for n in keys))
    elif c.numbers in ("grow", "shrink", "one", "far"):
        text.add(f"q[..., 0] = np.sqrt({c.dim})")
        for n in keys:
            shape = *tokens[n], 1
            count = 1
            for size in shape:
                count *= size
            ends = {"grow": "0, 300", "shrink": "300, 0"}
            if c.numbers in ends:
                text.add(f"{n}[..., 0] = np.linspace({ends[c.numbers]}, {count}).reshape{shape}")
            elif c.numbers == "one":
                text.add(f"{n}[..., 0] = 40.0 * ({random}([{s}, 9]).random({shape}) < 0.05)")
            else:
                text.add(f"{n}[..., 0] = np.where({random}([{s}, 9]).random({shape}) < 0.5, -60, 60)")
    elif c.numbers == "huge":  # one element of each vector is not zero, so that scores are exact at any size
        power = min(c.power, 15) if c.type == "float16" else c.power
        most = kind.most if c.type == "float16" else 1e18
        for n in ["q", *keys]:
            text.add(f"{n}[..., 1:] = 0", f"{n} = ({n} * 2.0**{power}).clip({-most!r}, {most!r})")
    elif c.numbers in ("big", "most"):
        for n in values:
            factor = kind.most / 6 if c.numbers == "big" else beyond(kind)
            text.add(f"{n} = ({n} * {factor!r}).clip({-kind.most!r}, {kind.most!r})")
    elif c.numbers == "tiny":
        text.add(*(f"{n} *= {kind.small!r}" for n in names))


def beyond(kind):
    """A factor that takes all normal numbers to the ends of a type."""
    return kind.most * 1e30 if kind.name != "float16" else kind.most * 1e9


def ill(c, lists):
    """Whether sequence 0 is all NaN, which no other may notice: its slots must be its own."""
    if c.numbers != "ill" or c.batch < 2 or not lists.queries[0] or "same" in c.layouts[:3]:
        return False
    return c.rows is None and (not c.page or c.new is not None)


def write_hidden(text, c, lists):
    """What nobody may see, in k and v."""
    hidden = {"nan": "np.nan", "inf": "np.inf", "most": repr(TYPES[c.type].most)}[c.hidden]
    known = {b: (int(lists.pads[b]), int(max(lists.pads[b], lists.old[b]))) for b in range(c.batch)}
    if c.page:
        text.add(f"table = np.array({lists.table.tolist()!r}).reshape({lists.cache_rows}, {lists.columns})")
    whole = not c.page and c.rows is None and not c.tail and all(known[b] == (0, lists.room[b]) for b in known)
    if not whole:
        text.add(f"unseen = np.ones({lists.k_tokens!r}, bool)")
        for b, (first, end) in known.items():
            if first >= end:
                continue
            if c.page:
                text.add(f"at = np.arange({first}, {end})")
                text.add(f"unseen[table[{lists.rows[b]}, at // {c.page}], at % {c.page}] = False")
            elif c.keys is not None:
                text.add(f"unseen[{lists.k_starts[b] + first}:{lists.k_starts[b] + end}] = False")
            else:
                text.add(f"unseen[{lists.rows[b]}, {first}:{end}] = False")
        text.add(f"k[unseen] = v[unseen] = {hidden}")
    if ill(c, lists):
        first, end = known[0]
        rows = f"{lists.q_starts[0]}:{lists.q_starts[1]}" if c.queries is not None else "0"
        text.add(f"q[{rows}] = np.nan")
        if c.page:
            text.add(f"at = np.arange({first}, {end})")
            slots = f"table[0, at // {c.page}], at % {c.page}"
        else:
            slots = (
                f"{lists.k_starts[0] + first}:{lists.k_starts[0] + end}" if c.keys is not None else f"0, {first}:{end}"
            )
        text.add(f"k[{slots}] = v[{slots}] = np.nan")


def write_out(text, c, lists, options):
    if c.out is None:
        return
    text.add(f"out = np.full({(*lists.q_tokens, c.q_heads, c.dim_v)!r}, 777.0)")
    text.tensor("out", c.type, c.out, len(lists.q_tokens) + 2, fill="777")
    options.append(("out", "out"))


def options_of(text, c, lists):
    """(name, text) of the call's arguments but for the scale and causal; adds the lines of those that are tensors."""
    options, function = [], c.function
    if c.lse:
        name = {"attention": "return_lse", "flash_attn_varlen_func": "return_attn_probs"}.get(
            function, "return_softmax_lse"
        )
        options.append(("return_attn_probs" if c.probs else name, "True"))
    if function == "attention":
        return options
    if c.window is not None:
        options.append(("window_size", repr(tuple(c.window))))
    if c.softcap:
        options.append(("softcap", repr(c.softcap)))
    add_score_options(text, c, lists, options)
    if function == "flash_attn_varlen_func":
        options.append(("cu_seqlens_q", text.ints(lists.q_starts) if c.queries is not None else "None"))
        options.append(("cu_seqlens_k", text.ints(lists.k_starts) if c.keys is not None else "None"))
        options += [("max_seqlen_q", str(lists.max_q + c.slack)), ("max_seqlen_k", str(lists.kv_len + c.slack))]
        if c.used is not None:
            options.append(("seqused_q", text.ints(lists.used)))
    elif c.queries is not None:
        options += [("cu_seqlens_q", text.ints(lists.q_starts)), ("max_seqlen_q", str(lists.max_q + c.slack))]
    if c.lengths is not None:
        name = "seqused_k" if function == "flash_attn_varlen_func" else "cache_seqlens"
        one = c.one_length and c.batch and name == "cache_seqlens"
        options.append((name, str(int(lists.given[0])) if one else text.ints(lists.given)))
    if c.page:
        shown = write_table(text, c, lists)
        options.append(("page_table", shown))
    if c.rows is not None:
        options.append(("cache_batch_idx", text.ints(lists.rows)))
    if c.pads is not None:
        options.append(("cache_leftpad", text.ints(lists.pads)))
    if c.new is not None:
        add_new_options(text, c, lists, options)
    if c.checked:
        options.append(("handle", "checked"))
    return options


def write_table(text, c, lists):
    """Entries that no length reaches name no page, where rows are not looked up."""
    if c.rows is None:
        wild = (-1, 2**31 - 1, lists.pages)[c.seed % 3]
        reach = [int(n) for n in lists.lengths]
        text.add(f"table[np.arange({lists.columns}) * {c.page} >= np.array({reach!r}, int).reshape(-1, 1)] = {wild}")
    return text.array("table", "int32")


def add_new_options(text, c, lists, options):
    ndim = len(lists.new_tokens) + 2
    for name in ("k_new", "v_new"):
        text.tensor(name, c.type, c.layouts[3] if c.layouts[3] != "same" else "plain", ndim)
        options.append((name[0], name))
    if c.new_packed:
        options.append(("cu_seqlens_k_new", text.ints(lists.new_starts)))
    if c.rotary is None:
        return
    text.add(f"angle = 7 * np.random.default_rng([{c.seed}, 10]).random(({lists.positions}, {c.rotary // 2}))")
    text.add("cos, sin = np.cos(angle), np.sin(angle)")
    for name in ("cos", "sin"):
        text.tensor(name, c.type, "plain", 2)
        options.append((f"rotary_{name}", name))
    options.append(("rotary_interleaved", repr(c.interleaved)))
    if c.positions is not None:
        options.append(("rotary_seqlens", text.ints(c.positions)))


SINKS = {"plain": "normal([{s}, 11], {h})", "far": "60 * normal([{s}, 11], {h})", "huge": "np.full({h}, 3e38)"}


def add_score_options(text, c, lists, options):
    s = c.seed
    if c.sink is not None:
        text.add("sink = " + SINKS[c.sink].format(s=s, h=c.q_heads))
        if s % 4 == 0:
            text.add("sink[::3] = -np.inf")
        text.tensor("sink", "float32", "plain", 1)
        options.append(("sink", "sink"))
    if c.score_scale is not None:
        full = (c.batch, c.q_heads)
        shape = [n if has else 1 for has, n in zip(c.score_scale, full)] + [c.q_len] if c.score_scale else [c.q_heads]
        text.add(f"score_scale = {(1, 1, 8)[s % 3]} * normal([{s}, 12], {listed(shape)})")
        text.tensor("score_scale", "float32", "plain", len(shape))
        options.append(("score_scale", "score_scale"))
    if c.bias is not None:
        shape = [n if has else 1 for has, n in zip(c.bias, (c.batch, c.q_heads, c.q_len))] + [lists.kv_len]
        text.add(
            f"bias = {f'np.zeros({tuple(shape)!r})' if c.bias_plain else f'2 * normal([{s}, 13], {listed(shape)})'}"
        )
        add_mask(text, c, shape)
        text.tensor("bias", c.bias_type, ("plain", "gaps", "odd")[s % 3], 4)
        options.append(("bias", "bias"))


def add_mask(text, c, shape):
    """What people write to hide keys."""
    rows, keys = shape[2], shape[3]
    fill = c.fill if c.fill == -float("inf") else max(c.fill, -TYPES[c.bias_type].most)
    fill = "-np.inf" if fill == -float("inf") else repr(fill)
    hidden = f"np.triu(np.ones(({rows}, {keys}), bool), {keys - rows + 1})"
    some = int(keys * (0.2, 0.5, 0.9)[c.seed % 3])
    if c.mask == "columns":
        text.add(f"bias[..., np.random.default_rng([{c.seed}, 14]).random({keys}) < {(0.2, 0.9)[c.seed % 2]}] = {fill}")
    elif c.mask == "left":
        text.add(f"bias[..., :{some}] = {fill}")
    elif c.mask == "right":
        text.add(f"bias[..., {keys - some}:] = {fill}")
    elif c.mask == "causal":
        text.add(f"bias[..., {hidden}] = {fill}")
    elif c.mask == "rows":
        text.add(f"bias[..., ::2, :] = {fill}")
    elif c.mask == "all":
        text.add(f"bias[...] = {fill}")
    elif c.mask == "far":
        text.add("bias *= 30")
    elif c.mask == "nan" and c.causal and c.bias[2]:  # where the mask hides a key the bias may be no number
        text.add(f"bias[..., {hidden}] = np.nan")
