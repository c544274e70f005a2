"""Arguments of the wrong kind: each is refused by its own name in a line, before the library or the binding sees it, and
no tensor is printed. What None means."""

import itertools
import pathlib
import re

import gqa
import numpy as np
import pytest
from gqa import _errors, _kinds

from conftest import attention_float64, check, make_qkv

MOST = 400  # characters of a refusal
TINY = 1e-50  # 0 in float32


def said(call, kind=(gqa.GqaTypeError, gqa.GqaValueError)):
    """The refusal's text."""
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert len(text) <= MOST and "\n" not in text, text
    assert not re.search(r"\bgqa_\w|array\(|tensor\(", text), text
    return text


def attention(**given):
    return gqa.attention(*make_qkv(), **given)


def flash(**given):
    return gqa.flash_attn_func(*make_qkv(), **given)


def varlen(**given):
    q, k, v = (x[0] for x in make_qkv())
    starts = np.array([0, 16], np.int32)
    return gqa.flash_attn_varlen_func(
        **{"q": q, "k": k, "v": v, "cu_seqlens_q": starts, "cu_seqlens_k": starts, "max_seqlen_q": 16, "max_seqlen_k": 16, **given}
    )


def cached(**given):
    q, k, v = make_qkv(q_len=1)
    return gqa.flash_attn_with_kvcache(q, k, v, **given)


def appending(**given):
    q, k, v = make_qkv(q_len=2)
    cos, sin = (np.ones((8, 16), np.float16) for _ in range(2))
    given = {"rotary_cos": cos, "rotary_sin": sin, "cache_seqlens": 4, **given}
    return gqa.flash_attn_with_kvcache(q, k, v, k[:, :2].copy(), v[:, :2].copy(), **given)


SCORED = [flash, varlen, cached]
BIG = np.ones((40, 40), np.float16)


@pytest.mark.parametrize(
    "call,change,words",
    [
        *((call, {"softcap": "big"}, "softcap is 'big'; expected a number") for call in SCORED),
        *((call, {"softcap": TINY}, "softcap is 1e-50; expected a number above 0") for call in SCORED),
        *((call, {"softmax_scale": "auto"}, "softmax_scale is 'auto'; expected a number") for call in SCORED),
        *((call, {"softmax_scale": TINY}, "softmax_scale is 1e-50; expected a number above 0") for call in SCORED),
        *((call, {"softmax_scale": 0}, "softmax_scale is 0; expected a number above 0") for call in SCORED),
        *((call, {"softmax_scale": 1e300}, "softmax_scale is 1e+300; expected") for call in SCORED),
        *((call, {"softmax_scale": True}, "softmax_scale is True; expected a number") for call in SCORED),
        *((call, {"softmax_scale": BIG}, "softmax_scale is a ndarray; expected a number") for call in SCORED),
        *((call, {"softmax_scale": 10**5000}, "softmax_scale is a number of 16610 bits; expected") for call in SCORED),
        *((call, {"window_size": 4}, "window_size is 4; expected two numbers, (left, right): (4, 4) or (4, 0)?") for call in SCORED),
        *((call, {"window_size": (4.0, 0.0)}, "window_size[0] is 4.0; expected a whole number") for call in SCORED),
        *((call, {"window_size": (1, 2, 3)}, "window_size is (1, 2, 3); expected two numbers") for call in SCORED),
        *((call, {"window_size": (-2, 0)}, "window_size[0] is -2; expected -1 to") for call in SCORED),
        *((call, {"window_size": (True, 0)}, "window_size[0] is True; expected a whole number") for call in SCORED),
        *((call, {"causal": "no"}, "causal is 'no'; expected True or False") for call in SCORED),
        *((call, {"causal": BIG}, "causal is a ndarray; expected True or False") for call in SCORED),
        *((call, {"causal": None}, "causal is None; expected True or False") for call in SCORED),
        (flash, {"return_softmax_lse": "yes"}, "return_softmax_lse is 'yes'"),
        (flash, {"return_attn_probs": "yes"}, "return_attn_probs is 'yes'"),
        (varlen, {"return_attn_probs": "yes"}, "return_attn_probs is 'yes'"),
        (cached, {"return_softmax_lse": "yes"}, "return_softmax_lse is 'yes'"),
        (flash, {"dropout_p": "none"}, "dropout_p is 'none'; expected a number"),
        (flash, {"attention_chunk": BIG}, "attention_chunk is a ndarray; expected a whole number"),
        (attention, {"scale": "auto"}, "scale is 'auto'; expected a number"),
        (attention, {"scale": TINY}, "scale is 1e-50; expected a number above 0"),
        (attention, {"causal": "no"}, "causal is 'no'"),
        (attention, {"return_lse": 2}, "return_lse is 2"),
        (varlen, {"max_seqlen_q": 6.7}, "max_seqlen_q is 6.7; expected a whole number"),
        (varlen, {"max_seqlen_k": "16"}, "max_seqlen_k is '16'; expected a whole number"),
        (varlen, {"max_seqlen_q": -1}, "max_seqlen_q is -1; expected 0 to"),
        (varlen, {"max_seqlen_q": 2**70}, "max_seqlen_q is 1180591620717411303424; expected 0 to"),
        (varlen, {"handle": "host"}, "handle is 'host'; expected a gqa.Handle"),
        (cached, {"handle": "host"}, "handle is 'host'; expected a gqa.Handle"),
        (cached, {"cache_seqlens": True}, "cache_seqlens is True; expected a whole number"),
        (cached, {"cache_seqlens": 2**70}, "cache_seqlens is 1180591620717411303424; expected"),
        (cached, {"cache_seqlens": 4.0}, "cache_seqlens is a float; expected an array or tensor"),
        (appending, {"rotary_interleaved": "yes"}, "rotary_interleaved is 'yes'"),
        (appending, {"cache_seqlens": 7}, "cache_seqlens is 7, and tokens are rotated by position 7 to 8; expected 0 to 7"),
    ],
    ids=itertools.count(),
)
def test_arguments_of_a_call(call, change, words):
    assert words in said(lambda: call(**change))


def test_no_tensor_is_printed_where_what_is_not_computed_is_given():
    for call, name in itertools.product(SCORED, ("qv", "q_descale")):
        assert f"was given {name}=a ndarray" in said(lambda: call(**{name: BIG}), NotImplementedError)
    assert "alibi_slopes=a ndarray" in said(lambda: flash(alibi_slopes=BIG), NotImplementedError)


def test_none_is_none():
    q, k, v = make_qkv()
    expected = attention_float64(q, k, v)[0]
    check(flash(softcap=None, window_size=None), expected)
    check(varlen(softcap=None, window_size=None)[None], expected)
    check(cached(softcap=None, window_size=None), attention_float64(*make_qkv(q_len=1))[0])
    check(flash(softcap=0, window_size=(None, None)), expected)


def test_numbers_of_other_kinds_are_numbers():
    q, k, v = make_qkv()
    expected = attention_float64(q, k, v, causal=True, scale=0.25, window=(3, 0))[0]
    given = {"causal": np.True_, "softmax_scale": np.float32(0.25), "window_size": [np.int64(3), 0]}
    check(flash(**given), expected)
    check(flash(**{**given, "causal": 1, "softmax_scale": np.array(0.25)}), expected)
    check(varlen(**given, max_seqlen_q=np.int32(16), max_seqlen_k=np.array(16))[None], expected)


SHAPE = {"batch": 1, "q_len": 1, "kv_len": 16, "q_heads": 2, "kv_heads": 1, "head_dim": 32}
LAYER = {"q_heads": 2, "kv_heads": 1, "head_dim": 32}
HOST = {"device": "host", "cache_mode": "off"}


@pytest.mark.parametrize(
    "call,words",
    [
        (lambda: gqa.warm(**{**SHAPE, "batch": 1.5}), "batch is 1.5; expected a whole number"),
        (lambda: gqa.warm(**{**SHAPE, "kv_len": 2**70}), "kv_len is 1180591620717411303424; expected 1 to"),
        (lambda: gqa.warm(**SHAPE, head_dim_v=0), "head_dim_v is 0; expected 1 to"),
        (lambda: gqa.warm(**SHAPE, page="16"), "page is '16'; expected a whole number"),
        (lambda: gqa.warm(**SHAPE, window_size=4), "window_size is 4; expected two numbers"),
        (lambda: gqa.warm(**SHAPE, causal="no"), "causal is 'no'; expected True or False"),
        (lambda: gqa.warm(**SHAPE, softcap=30.0), "softcap is 30.0; expected True or False"),
        (lambda: gqa.warm(**SHAPE, align=4), "align is 4; expected 16 or 2 bytes"),
        (lambda: gqa.warm(**SHAPE, tma="no"), "tma is 'no'; expected True or False"),
        (lambda: gqa.warm(**SHAPE, dtype=BIG), "dtype is a ndarray; expected gqa.float16, gqa.bfloat16 or gqa.float32"),
        (lambda: gqa.warm(**SHAPE, device=0), "device is 0; expected a text"),
        (lambda: gqa.warm_serving(3, **LAYER, device="host"), "range is 3; expected a text"),
        (lambda: gqa.warm_serving("batch=x,kv=1", **LAYER, device="host"), "range: "),
        (lambda: gqa.Handle(**HOST, threads=1.5), "threads is 1.5; expected a whole number"),
        (lambda: gqa.Handle(**HOST, threads=2**40), "threads is 1099511627776; expected"),
        (lambda: gqa.Handle(**HOST, tuning_budget="long"), "tuning_budget is 'long'; expected a number"),
        (lambda: gqa.Handle(**HOST, tuning_budget=0), "tuning_budget is 0; expected more than 0"),
        (lambda: gqa.Handle(**HOST, checked="no"), "checked is 'no'; expected True or False"),
        (lambda: gqa.Handle(**HOST, cache_path=3), "cache_path is 3; expected a path"),
        (lambda: gqa.Handle(**{**HOST, "cache_mode": ["off"]}), "cache_mode is ['off']; expected one of"),
        (lambda: gqa.Handle(5), "device is 5; expected a text"),
        (lambda: gqa.merge_states(5, 5), "outs is 5; expected several"),
        (lambda: gqa.merge_states([BIG], [BIG], handle=3), "handle is 3; expected a gqa.Handle"),
    ],
    ids=itertools.count(),
)
def test_arguments_of_handles_and_warming(call, words):
    assert words in said(call)


@pytest.mark.parametrize(
    "call,words",
    [
        (lambda p, s: p.add("3"), "tokens is '3'; expected a whole number"),
        (lambda p, s: p.add(2**31), "tokens is 2147483648; expected"),
        (lambda p, s: p.add(True), "tokens is True; expected a whole number"),
        (lambda p, s: p.append([s], [1.5]), "tokens[0] is 1.5; expected a whole number"),
        (lambda p, s: p.append(s, 1.5), "tokens is 1.5; expected a whole number"),
        (lambda p, s: p.append([s], "1"), "tokens is '1'; expected a whole number"),
        (lambda p, s: p.append([s + 0.5]), "sequences[0] is"),
        (lambda p, s: p.append(None), "sequences[0] is None; expected a whole number"),
        (lambda p, s: p.share(s, 1.5), "tokens is 1.5; expected a whole number"),
        (lambda p, s: p.share("first"), "sequence is 'first'; expected a whole number"),
        (lambda p, s: p.length(2**64), "sequence is 18446744073709551616; expected"),
        (lambda p, s: p.free(str(s)), "sequences[0] is"),
        (lambda p, s: p.table(s, columns="all"), "columns is 'all'; expected a whole number"),
    ],
    ids=itertools.count(),
)
def test_arguments_of_a_pool(call, words, handle):
    pool = gqa.PagePool(np.zeros((8, 4, 1, 32), np.float16), handle=handle)
    sequence = pool.add(2)
    assert words in said(lambda: call(pool, sequence))
    assert pool.length(sequence) == 2 and pool.free_pages == 7
    pool.append(np.array([sequence]), np.array([3]))
    pool.append(np.int64(sequence), np.int32(1))
    assert pool.length(sequence) == 6


@pytest.mark.parametrize(
    "call,words",
    [
        (lambda g, x: g.new_input(dims=(4,), dtype="float16", name=5), "name is 5; expected a text"),
        (lambda g, x: g.new_input(dims=(4,), dtype=BIG), "dtype is a ndarray; expected gqa.float16"),
        (lambda g, x: g.find(5), "name is 5; expected a text"),
        (lambda g, x: g.find("y"), "to_text() shows its names"),
        (lambda g, x: g.matmul(x, x, transpose_b="no"), "transpose_b is 'no'; expected True or False"),
        (lambda g, x: g.scale(x, BIG), "factor is a ndarray; expected a number"),
        (lambda g, x: g.clamp(x, low="0"), "low is '0'; expected a number"),
        (lambda g, x: g.reduction(x, 0, op=5), "op is 5; expected one of"),
        (lambda g, x: g.superoptimize(budget="long"), "budget is 'long'; expected a number"),
        (lambda g, x: g.superoptimize(budget=0), "budget is 0; expected more than 0"),
        (lambda g, x: g.superoptimize(seed=1.5), "seed is 1.5; expected a whole number"),
        (lambda g, x: g.superoptimize(seed=-1), "seed is -1; expected 0 to"),
        (lambda g, x: g.superoptimize(config=5), "config is 5; expected a text"),
        (lambda g, x: g.superoptimize(device=5), "device is 5; expected"),
        (lambda g, x: gqa.graph_from_text(5), "text is 5; expected a text"),
    ],
    ids=itertools.count(),
)
def test_arguments_of_a_graph(call, words):
    graph = gqa.new_kernel_graph()
    x = graph.new_input(dims=(4, 4), dtype="float16")
    graph.mark_output(graph.exp(x))
    assert words in said(lambda: call(graph, x))


def test_a_refusal_has_the_names_of_the_function_that_was_called():
    q, k, v = make_qkv(q_len=2)
    new = np.zeros((1, 2, 1, 32), np.float16)
    lengths = np.array([4], np.int32)
    call = lambda *tensors: lambda: gqa.flash_attn_with_kvcache(*tensors, cache_seqlens=lengths)  # noqa: E731
    assert said(call(q, k, v, new, None)).startswith("k is given without v,")
    assert said(call(q, k[..., :16], v)).startswith("k_cache has head_dim 16, but q has head_dim 32")
    assert said(call(q, k, v.astype(np.float32))).startswith("v_cache is float32")
    assert said(call(q, k, v, new[:, :, :, :16], new)).startswith("k has head_dim 16, but q has")
    assert said(call(q, [1], v)).startswith("k_cache is a list")
    assert said(call(q, k, v, [1], new)).startswith("k is a list")
    assert said(lambda: varlen(seqused_k=np.zeros(2, np.int32))).startswith("seqused_k has batch 2")
    with gqa.Handle("host", cache_mode="off", tuning="guess", checked=True) as checked:
        wrong = np.array([17], np.int32)
        assert said(lambda: varlen(seqused_k=wrong, handle=checked)).startswith("seqused_k[0] is 17")


def test_the_names_of_c_do_not_reach_python():
    """Each text of the library that could be a message, as Python has it."""
    root = pathlib.Path(__file__).parents[2]
    texts = [
        text
        for folder in ("runtime/api", "runtime/session", "search")
        for path in (root / folder).rglob("*.cc")
        for line in path.read_text().splitlines()
        if not re.match(r"\s*(#|//|GQA_|extern)", line)
        for text in re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    ]
    assert len(texts) > 500
    structs = {"gqa_call", "gqa_graph", "gqa_options", "gqa_search_options", "gqa_serving", "gqa_shape"}  # of a wrong size
    left = {name for text in texts for name in re.findall(r"gqa_\w+", _errors.in_python(text))}
    assert left <= structs


def test_dtypes_are_called_what_they_are(handle):
    q, k, v = make_qkv()
    assert said(lambda: handle.attention(q.astype(bool), k, v)).startswith("q is bool,")
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="test_dtypes_are_called_what_they_are needs ml_dtypes")
    assert said(lambda: handle.attention(q.astype(ml_dtypes.float8_e4m3fn), k, v)).startswith("q is float8_e4m3fn")


def test_cpu_is_the_host_and_a_tilde_is_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with gqa.Handle("cpu", cache_path="~/mine/cache.db", tuning="guess") as handle:
        assert handle.device == "host"
        handle.attention(*make_qkv())
    assert (tmp_path / "mine" / "cache.db").is_file()
    monkeypatch.setenv("GQA_CACHE", "~/other.db")
    with gqa.Handle("host", tuning="guess") as handle:
        handle.attention(*make_qkv())
    assert (tmp_path / "other.db").is_file()
    gqa.warm(**SHAPE, device="cpu")


def test_what_was_given_is_shown_in_short():
    assert _kinds.shown("x" * 1000) == repr("x" * 1000)[:57] + "..."
    assert _kinds.shown([np.ones(4)] * 1000) == "a list"
    assert _kinds.shown((1, "a", None)) == "(1, 'a', None)"
    assert len(_kinds.shown(list(range(10**6)))) <= 60


def test_odd_tensors_of_torch_are_refused_in_a_line(handle):
    torch = pytest.importorskip("torch", reason="test_odd_tensors_of_torch_are_refused_in_a_line needs PyTorch")
    q, k, v = (torch.from_numpy(x) for x in make_qkv())
    nested = torch.nested.nested_tensor([q[0], q[0]])
    jagged = torch.nested.nested_tensor([q[0], q[0]], layout=torch.jagged)
    for odd, words in (
        (q.to_sparse(), "a sparse tensor (torch.sparse_coo); expected a dense one"),
        (nested, "a nested tensor; expected a dense one"),
        (jagged, "a nested tensor; expected a dense one"),
        # a fake one is for the operators (test_operators.py), which have no handle
    ):
        assert said(lambda: handle.attention(odd, k, v)).startswith(f"q is {words}")
        assert said(lambda: gqa.flash_attn_func(q, odd, v)).startswith(f"k is {words}")
        assert said(lambda: gqa.flash_attn_with_kvcache(q, k, odd)).startswith(f"v_cache is {words}")
        assert said(lambda: handle.attention(q, k, v, out=odd)).startswith(f"out is {words}")
        assert said(lambda: gqa.PagePool(q, odd, handle=handle)).startswith(f"caches[1] is {words}")
        assert said(lambda: gqa.merge_states([q, odd], [q, q])).startswith(f"outs[1] is {words}")
        assert words in said(lambda: gqa.flash_attn_func(q, k, v, sink=odd)) or "sink" in said(
            lambda: gqa.flash_attn_func(q, k, v, sink=odd)
        )
    assert "handle is given where PyTorch records" in said(
        lambda: torch.vmap(lambda x: handle.attention(x, k, v))(q[None])
    )
    assert said(lambda: handle.attention(q.bool(), k, v)).startswith("q is bool,")
    assert said(lambda: handle.attention(q.to(torch.float8_e4m3fn), k, v)).startswith("q is float8_e4m3fn,")
    assert said(lambda: handle.attention(q.to(torch.float8_e5m2), k, v)).startswith("q is float8_e5m2,")
    check(handle.attention(q, k, v).numpy(), attention_float64(*make_qkv())[0])


def test_tensors_of_mixed_places_and_types_are_refused_with_what_to_do():
    torch = pytest.importorskip("torch", reason="test_tensors_of_mixed_places_and_types needs PyTorch")
    q, k, v = (torch.from_numpy(x) for x in make_qkv())
    meta = torch.empty_like(k, device="meta")
    for name, call in (("k", gqa.attention), ("k", gqa.flash_attn_func), ("k_cache", gqa.flash_attn_with_kvcache)):
        with pytest.raises(gqa.GqaError) as refused:
            call(q, meta, v)
        assert refused.value.status == gqa.Status.ERROR_NO_DEVICE
        assert str(refused.value) == (
            f"{name} is on 'meta'; expected 'cpu' or 'cuda', where the call's other tensors are: move it there"
        )
    for call in (gqa.attention, gqa.flash_attn_func):
        assert said(lambda: call(q, k.bfloat16(), v)) == "k is bfloat16, but q is float16: cast k to float16"
        assert said(lambda: call(q.float(), k, v)) == "k is float16, but q is float32: cast k to float32"
        expected = "q is float64, expected float32, float16 or bfloat16: cast it"
        assert said(lambda: call(q.double(), k, v)) == expected
