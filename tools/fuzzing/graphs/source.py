"""A graph as lines of Python: the inputs of one set of magnitudes, the building of the graph, its program's call.

Owns: what a printed test says; the fuzz runs the same lines. Never: judges.
"""

from ..types import TYPES, array_text
from .case import dims_of, shape_of

# What memory a layout has, and the tensor in it; {x}: the array, {n}: its last dimension.
LAYOUTS = {
    "plain": ("{x}", ""),
    "swapped": ("{x}.swapaxes(-1, -2)", ".swapaxes(-1, -2)"),
    "gaps": ("np.concatenate([{x}, {x}], -1)", "[..., :{n}]"),
}


def numbers_text(case, at, power):
    each, shape = case.inputs[at], shape_of(case, case.inputs[at].dims)
    random = f"np.random.default_rng([{case.seed}, {at}])"
    if each.kind in ("hides", "least", "zero or one"):
        least = -65504.0 if each.type == "float16" else -1e30
        fill = {"hides": "-np.inf", "least": least, "zero or one": 0.0}[each.kind]
        rest = 1.0 if each.kind == "zero or one" else 0.0
        return f"np.where({random}.random({shape}) < 0.5, {fill}, {rest})"
    text = f"{random}.standard_normal({shape}) * 2.0**{power}"
    return f"np.abs({text})" if each.kind == "positive" else text


def input_lines(case, powers, device):
    lines = []
    for at, each in enumerate(case.inputs):
        x, shape, most = each.name, shape_of(case, each.dims), TYPES[each.type].most
        lines.append(f"{x} = {numbers_text(case, at, powers[at])}")
        if each.kind in ("normal", "positive") and each.type == "float16":
            lines.append(f"{x} = {x}.clip({-most}, {most})")
        base, view = (text.format(x=x, n=shape[-1]) for text in LAYOUTS[each.layout])
        lines.append(f"{x} = {array_text(base, each.type, case.frame, device)}{view}")
    return lines


def graph_lines(case):
    lines = ["graph = gqa.new_kernel_graph()"]
    for each in case.inputs:
        x = each.name
        strides = f"{x}.stride()" if case.frame == "torch" else f"[s // {x}.itemsize for s in {x}.strides]"
        lines.append(f"{x}_value = graph.new_input({x}.shape, gqa.{each.type}, strides={strides})")
    inputs = {each.name for each in case.inputs}
    for step in case.steps:
        given = [f"{name}_value" if name in inputs else name for name in step.of]
        lines.append(f"{step.name} = graph.{step.op}({', '.join(given + rest_of(case, step))})")
    return [*lines, f"graph.mark_output({case.steps[-1].name})"]


def rest_of(case, step):
    if step.op == "rms_norm":
        return [*([] if len(step.of) > 1 else ["None"]), repr(step.numbers[0])]
    if step.op == "transpose":
        rank = len(dims_of(case)[step.of[0]])
        return [repr([*range(rank - 2), rank - 1, rank - 2])]
    return [repr(number) for number in step.numbers]


def call_line(case):
    listed = ", ".join(each.name for each in case.inputs)
    return f"out = program([{listed}])"


def program_line(case, budget):
    return f"program = graph.superoptimize(config={case.config!r}, budget={budget!r}, device=handle)"
