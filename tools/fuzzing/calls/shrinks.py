"""Smaller calls, the boldest first: fewer sequences, then fewer features, then smaller numbers.

Never: runs one.
"""

from dataclasses import fields, replace

from .case import DIMS, SEQUENCES, SIMPLEST

# Fields that become simple at once, those first that most of a test's lines come of.
FEATURES = (
    "new rotary positions new_packed page rows pads lengths used queries keys one_length tail slack checked out probs "
    "lse softcap window sink score_scale bias mask scale causal layouts bias_type hidden frame type interleaved"
).split()


def simpler_calls(case):
    for b in reversed(range(case.batch)):
        if case.batch > 1:
            yield without_sequence(case, b)
    for name in FEATURES:
        if getattr(case, name) != getattr(SIMPLEST, name):
            simple = without_feature(case, name)
            if simple is not None:
                yield simple
    yield from simpler_numbers(case)
    yield from smaller(case)


def without_sequence(case, b):
    fewer = {
        name: tuple(n for at, n in enumerate(getattr(case, name)) if at != b)
        for name in SEQUENCES
        if getattr(case, name) is not None
    }
    return replace(case, batch=case.batch - 1, **fewer)


def without_feature(case, name):
    """None where another field needs it."""
    changed = {name: getattr(SIMPLEST, name)}
    if name == "new":
        changed.update(new_packed=False, rotary=None, positions=None)
    if name == "rotary":
        changed.update(positions=None)
    if name == "queries":
        changed.update(q_len=max([1, *case.queries]), used=None, tail=0 if case.keys is None else case.tail)
    if name == "keys":
        changed.update(kv_len=max([1, *case.keys]), tail=0 if case.queries is None else case.tail)
    if name == "bias":
        changed.update(mask=None, bias_plain=False, fill=SIMPLEST.fill)
    if name == "lengths" and case.new is not None:
        return None
    if name == "lse":
        changed.update(probs=False)
    return replace(case, **changed)


def simpler_numbers(case):
    for numbers in ("flat", "ones", "plain"):
        if numbers == case.numbers:
            break
        yield replace(case, numbers=numbers)
    if case.bias is not None and not case.bias_plain:
        yield replace(case, bias_plain=True)
    for at, layout in enumerate(case.layouts):
        if layout != "plain" and not layout.startswith("both"):
            yield replace(case, layouts=(*case.layouts[:at], "plain", *case.layouts[at + 1 :]))
    if case.power:
        yield from (replace(case, power=power) for power in (0, case.power // 2, case.power - 1))
    if case.seed > 9:
        yield from (replace(case, seed=seed) for seed in range(3))


def smaller(case):
    for name in ("batch", "group", "kv_heads", "q_len", "kv_len", "page"):
        size = getattr(case, name)
        for less in (1, 2, (size or 0) // 2, (size or 0) - 1):
            if (
                size
                and 0 < less < size
                and (name != "batch" or not any(getattr(case, x) is not None for x in SEQUENCES))
            ):
                yield replace(case, **{name: less})
    for name in ("dim", "dim_v"):
        for less in DIMS[: DIMS.index(getattr(case, name))]:
            rotary = min(case.rotary, less) if case.rotary and name == "dim" else case.rotary
            yield replace(case, rotary=rotary, **{name: less})
    if case.rotary and case.rotary > 16:
        yield replace(case, rotary=16)
    for name in SEQUENCES:
        listed = getattr(case, name)
        if listed is None or name == "rows" and case.new is not None:
            continue
        for at, number in enumerate(listed):
            for less in (0, 1, number // 2, number - 1):
                if less < number:
                    yield replace(case, **{name: (*listed[:at], less, *listed[at + 1 :])})
    if case.window is not None:
        for at, side in enumerate(case.window):
            for less in (-1, 0, (side or 0) // 2):
                if side is not None and side > 0 and less < side:
                    yield replace(case, window=tuple(less if i == at else s for i, s in enumerate(case.window)))


assert set(FEATURES) <= {f.name for f in fields(SIMPLEST)}
