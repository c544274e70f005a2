"""flash_attn_varlen_func: FlashAttention-3's signature and meaning on packed sequences, and its refusals."""

import inspect
import os

import gqa
import numpy as np
import pytest

from conftest import Producer, attention_float64, check, run_python

# flash_attn_interface.flash_attn_varlen_func, in its order: a program may pass any of these by position.
FLASH_ATTENTION_3 = {
    "q": inspect.Parameter.empty,
    "k": inspect.Parameter.empty,
    "v": inspect.Parameter.empty,
    "cu_seqlens_q": inspect.Parameter.empty,
    "cu_seqlens_k": inspect.Parameter.empty,
    "max_seqlen_q": inspect.Parameter.empty,
    "max_seqlen_k": inspect.Parameter.empty,
    "seqused_q": None,
    "seqused_k": None,
    "softmax_scale": None,
    "causal": False,
    "qv": None,
    "q_descale": None,
    "k_descale": None,
    "v_descale": None,
    "window_size": (-1, -1),
    "attention_chunk": 0,
    "softcap": 0.0,
    "num_splits": 1,
    "pack_gqa": None,
    "deterministic": False,
    "sm_margin": 0,
    "return_attn_probs": False,
}

QUERIES, KEYS = [5, 0, 1, 17, 3], [20, 7, 33, 9, 0]  # none, one, many; more queries than keys, and no keys


def starts_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


class Case:
    """Five sequences, one after another."""

    def __init__(self, q_heads=4, kv_heads=2, head_dim=32):
        generator = np.random.default_rng(5)

        def normal(*shape):
            return generator.standard_normal(shape).astype(np.float16)

        self.q = normal(sum(QUERIES), q_heads, head_dim)
        self.k, self.v = normal(sum(KEYS), kv_heads, head_dim), normal(sum(KEYS), kv_heads, head_dim)
        self.starts_q, self.starts_k = starts_of(QUERIES), starts_of(KEYS)
        self.lists = (self.starts_q, self.starts_k, max(QUERIES), max(KEYS))

    def expected(self, causal=False, scale=None, used_q=QUERIES, used_k=KEYS, softcap=0, sink=None):
        """(out, lse), each sequence as a batch of its own; rows that are not used are 0."""
        out, lse = np.zeros(self.q.shape), np.zeros((self.q.shape[1], len(self.q)))
        for b in range(len(QUERIES)):
            rows = slice(self.starts_q[b], self.starts_q[b] + used_q[b])
            keys = slice(self.starts_k[b], self.starts_k[b] + used_k[b])
            if used_k[b] == 0:
                lse[:, rows] = -np.inf if sink is None else sink[:, None]
            elif used_q[b] > 0:
                one = (self.q[None, rows], self.k[None, keys], self.v[None, keys], causal, scale, softcap, sink)
                one = attention_float64(*one)
                out[rows], lse[:, rows] = one[0][0], one[1][0]
        return out, lse


def check_both(result, expected):
    check(result[0], expected[0])
    unseen = np.isinf(expected[1])
    assert np.array_equal(np.isneginf(np.asarray(result[1])), unseen)
    check(np.where(unseen, 0, result[1]), np.where(unseen, 0, expected[1]))


def test_signature():
    parameters = inspect.signature(gqa.flash_attn_varlen_func).parameters.values()
    by_position = {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
    assert list(by_position.items()) == list(FLASH_ATTENTION_3.items())


@pytest.mark.parametrize("causal", [False, True])
def test_each_sequence_gives_what_it_gives_alone(causal):
    t = Case()
    result = gqa.flash_attn_varlen_func(t.q, t.k, t.v, *t.lists, causal=causal, return_attn_probs=True)
    assert result[1].shape == (4, sum(QUERIES)) and result[1].dtype == np.float32
    check_both(result, t.expected(causal))
    check(gqa.flash_attn_varlen_func(t.q, t.k, t.v, *t.lists, causal=causal), t.expected(causal)[0])


def test_out():
    t = Case()
    out = np.full_like(t.q, np.nan)
    assert gqa.flash_attn_varlen_func(t.q, t.k, t.v, *t.lists, causal=True, out=out) is out
    check(out, t.expected(True)[0])


def test_scale_and_window():
    t = Case()
    check(gqa.flash_attn_varlen_func(t.q, t.k, t.v, *t.lists, softmax_scale=0.3), t.expected(scale=0.3)[0])
    windowed = gqa.flash_attn_varlen_func(t.q, t.k, t.v, *t.lists, window_size=(-1, 0))
    check(windowed, t.expected(True)[0])
    # Each query's own key alone: its value.
    own = gqa.flash_attn_varlen_func(t.q, t.q[:, :2], t.q[:, 2:], *(t.starts_q,) * 2, 17, 17, window_size=(0, 0))
    check(own, np.repeat(t.q[:, 2:].astype(np.float64), 2, axis=1))


def test_softcap_and_sink():
    t = Case()
    sink = np.linspace(-1, 4, t.q.shape[1], dtype=np.float32)
    scores = dict(softcap=2.0, sink=sink)
    result = gqa.flash_attn_varlen_func(t.q, t.k, t.v, *t.lists, causal=True, return_attn_probs=True, **scores)
    check_both(result, t.expected(True, **scores))


def test_used_rows():
    t = Case()
    used_q, used_k = [2, 0, 1, 17, 0], [20, 3, 30, 9, 0]
    for b, used in enumerate(used_k):
        t.k[t.starts_k[b] + used : t.starts_k[b + 1]] = t.v[t.starts_k[b] + used : t.starts_k[b + 1]] = np.nan
    lists = (np.array(used_q, np.int32), np.array(used_k, np.int32))
    out = gqa.flash_attn_varlen_func(t.q, t.k, t.v, *t.lists, *lists, causal=True)
    used = np.zeros(len(t.q), bool)
    for b, count in enumerate(used_q):
        used[t.starts_q[b] : t.starts_q[b] + count] = True
    check(out[used], t.expected(True, used_q=used_q, used_k=used_k)[0][used])


@pytest.mark.parametrize("head_dim_v", [32, 128])
@pytest.mark.parametrize("rows", [0, 4])
def test_no_sequence_has_a_key(rows, head_dim_v):
    t = Case()
    k, v = (np.full((rows, 2, size), np.nan, np.float16) for size in (32, head_dim_v))
    none = np.zeros(len(KEYS) + 1, np.int32)
    for sink in (None, np.linspace(-1, 4, t.q.shape[1], dtype=np.float32)):
        out = np.full((*t.q.shape[:2], head_dim_v), np.nan, np.float16)
        given = dict(causal=True, return_attn_probs=True, sink=sink, out=out)
        lse = gqa.flash_attn_varlen_func(t.q, k, v, t.starts_q, none, max(QUERIES), 0, **given)[1]
        assert not out.any()
        assert (np.asarray(lse) == (-np.inf if sink is None else sink[:, None])).all()


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim,head_dim_v", [(64, 64), (64, 256), (128, 128)])
def test_no_sequence_has_a_key_on_a_gpu(head_dim, head_dim_v):
    import torch

    handle = gqa.Handle("cuda:0", cache_mode="off", tuning_budget=2)
    on = dict(device="cuda", dtype=torch.float16)
    q = torch.randn(300, 8, head_dim, **on)
    k, v = (torch.empty(0, 2, size, **on) for size in (head_dim, head_dim_v))
    starts = torch.tensor([0, 1, 1, 40, 300], device="cuda", dtype=torch.int32)
    sink = torch.linspace(-1, 4, 8, device="cuda")
    for given in (None, sink):
        out = torch.full((300, 8, head_dim_v), float("nan"), **on)
        lists = (starts, torch.zeros_like(starts), 260, 0)
        scores = dict(causal=True, return_attn_probs=True, sink=given, out=out, handle=handle)
        lse = gqa.flash_attn_varlen_func(q, k, v, *lists, **scores)[1]
        assert not out.any() and not out.isnan().any()
        assert (lse == (-torch.inf if given is None else sink[:, None])).all()


def test_no_query():
    t = Case()
    nothing = np.zeros(1, np.int32)
    out, lse = gqa.flash_attn_varlen_func(t.q[:0], t.k, t.v, nothing, nothing, 0, 0, return_attn_probs=True)
    assert out.shape == (0, 4, 32) and lse.shape == (4, 0)
    none = np.zeros(len(QUERIES) + 1, np.int32)
    assert len(gqa.flash_attn_varlen_func(t.q[:0], t.k, t.v, none, t.starts_k, 0, 33)) == 0
    out = np.full_like(t.q, 7)  # of rows that no sequence has
    gqa.flash_attn_varlen_func(t.q, t.k, t.v, none, t.starts_k, 0, 33, out=out)
    assert (out == 7).all()
    empty = np.empty((0, 1, 4, 32), np.float16), t.k[None], t.v[None]
    lists = dict(cache_seqlens=nothing[:0], page_table=np.empty((0, 3), np.int32))
    assert gqa.flash_attn_with_kvcache(*empty, **lists).shape == (0, 1, 4, 32)
    merged = gqa.merge_states([empty[0][:, 0]] * 2, [np.empty((4, 0), np.float32)] * 2)
    assert merged[0].shape == (0, 4, 32) and merged[1].shape == (4, 0)


def test_packed_queries_on_a_cache():
    t = Case()
    dense = np.full((5, 40, 2, 32), np.nan, np.float16), np.full((5, 40, 2, 32), np.nan, np.float16)
    for b, count in enumerate(KEYS):
        for into, given in zip(dense, (t.k, t.v)):
            into[b, :count] = given[t.starts_k[b] : t.starts_k[b + 1]]
    lengths, table = np.array(KEYS, np.int32), np.arange(25, dtype=np.int32).reshape(5, 5)
    pages = [x.reshape(25, 8, 2, 32) for x in dense]
    expected = t.expected(True)
    packed = dict(cu_seqlens_q=t.starts_q, max_seqlen_q=17, cache_seqlens=lengths, causal=True)
    check(gqa.flash_attn_with_kvcache(t.q, *dense, **packed), expected[0])
    check_both(gqa.flash_attn_with_kvcache(t.q, *pages, page_table=table, return_softmax_lse=True, **packed), expected)
    check(gqa.flash_attn_varlen_func(t.q, *dense, t.starts_q, None, 17, 0, None, lengths, causal=True), expected[0])
    with pytest.raises(gqa.GqaValueError, match="max_seqlen_q is None beside cu_seqlens_q"):
        gqa.flash_attn_with_kvcache(t.q, *dense, **{**packed, "max_seqlen_q": None})


def test_torch_and_dlpack():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    t = Case()
    q, k, v, starts_q, starts_k = (torch.from_numpy(x) for x in (t.q, t.k, t.v, t.starts_q, t.starts_k))
    out, lse = gqa.flash_attn_varlen_func(q, k, v, starts_q, starts_k, 17, 33, causal=True, return_attn_probs=True)
    assert type(out) is torch.Tensor and out.dtype == torch.float16 and lse.dtype == torch.float32
    check_both((out.numpy(), lse.numpy()), t.expected(True))
    mixed = gqa.flash_attn_varlen_func(t.q, k, t.v, Producer(t.starts_q), starts_k, 17, 33)
    check(mixed, t.expected()[0])


@pytest.mark.parametrize(
    "name,value",
    [
        ("qv", np.zeros(1)),
        ("q_descale", np.zeros(1)),
        ("k_descale", np.zeros(1)),
        ("v_descale", np.zeros(1)),
        ("attention_chunk", 128),
    ],
)
def test_what_is_not_computed_is_refused(name, value):
    t = Case()
    with pytest.raises(NotImplementedError, match=f"flash_attn_varlen_func was given {name}="):
        gqa.flash_attn_varlen_func(t.q, t.k, t.v, *t.lists, **{name: value})


@pytest.mark.parametrize(
    "change,error,says",
    [
        (dict(q=np.zeros((1, 26, 4, 32), np.float16)), gqa.GqaValueError, "q has 4 dimensions, (1, 26, 4, 32); expected"),
        (dict(v=np.zeros((1, 69, 2, 32), np.float16)), gqa.GqaValueError, "v has 4 dimensions, (1, 69, 2, 32); expected"),
        (dict(cu_seqlens_q=np.zeros(6, np.int64)), gqa.GqaTypeError, "cu_seqlens_q is int64, expected int32"),
        (dict(cu_seqlens_k=starts_of(KEYS)[:-1]), gqa.GqaValueError, "cu_seqlens_k has 5 numbers, expected 6"),
        (dict(max_seqlen_q=-1), gqa.GqaValueError, "max_seqlen_q is -1; expected 0 to"),
        (dict(seqused_q=np.zeros(3, np.int32)), gqa.GqaValueError, "seqused_q has batch 3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_refused_by_name(change, error, says):
    t = Case()
    given = dict(zip(FLASH_ATTENTION_3, (t.q, t.k, t.v, *t.lists)))
    with pytest.raises(error) as caught:
        gqa.flash_attn_varlen_func(**{**given, **change})
    assert says in str(caught.value)


CHECKED = """
import numpy as np, gqa
q = np.zeros((8, 2, 32), np.float16)
def run(*starts):
    lists = np.array(starts, np.int32)
    try:
        gqa.flash_attn_varlen_func(q, q, q, lists, np.array([0, 4, 8], np.int32), 4, 4)
        print("ok")
    except gqa.GqaValueError as error:
        print(error)
run(0, 4, 8)
run(0, 4, 9)
run(0, 5, 8)
"""


def test_a_checked_process_names_the_sequence():
    lines = run_python(CHECKED, GQA_CHECKED="1", GQA_CACHE=os.environ["GQA_CACHE"]).splitlines()
    assert lines[0] == "ok"
    assert lines[1].startswith("cu_seqlens_q[2] is 9, expected 4 to 8")
    assert lines[2].startswith("sequence 0 of cu_seqlens_q has 5 queries, expected at most 4")


def test_a_checked_handle_refuses_lengths_as_starts_and_tells_of_rows_without_a_sequence_once():
    q, told = np.zeros((8, 2, 32), np.float16), []
    with gqa.Handle("host", cache_mode="off", tuning="guess", checked=True, log=lambda *line: told.append(line)) as handle:

        def run(*starts):
            lists = np.array(starts, np.int32)
            return gqa.flash_attn_varlen_func(q, q, q, lists, lists, 8, 8, handle=handle)

        def warnings():
            return [text for level, text in told if level == "warning"]

        run(0, 4, 8)
        assert warnings() == []
        for starts in ((4, 4, 8), (4, 4)):
            with pytest.raises(gqa.GqaValueError, match=r"cu_seqlens_q\[0\] is 4, expected 0: .*summed up, from 0 on"):
                run(*starts)
        run(0, 4, 7)
        run(0, 4, 6)
        assert warnings() == [
            "cu_seqlens_q ends at 7, and q has 8 rows: those from there on belong to no sequence"
        ]


def test_warming_takes_packed_sequences(tmp_path):
    lines = []
    log = lambda level, text: lines.append(text)  # noqa: E731
    with gqa.Handle("host", cache_path=tmp_path / "c.db", tuning_budget=0.2, log=log) as h:
        h.warm(batch=4, q_len=9, kv_len=48, q_heads=4, kv_heads=2, head_dim=32, cu_seqlens_q=True, cu_seqlens_k=True)
        assert any("packk,packq" in line for line in lines)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("keys", [1, 6])
def test_a_window_to_the_right_of_fewer_keys_than_queries(device, keys):
    draw = np.random.default_rng(7)
    q, k, v = (draw.standard_normal((1, rows, 2, 32)).astype(np.float16) for rows in (13, keys, keys))
    expected = attention_float64(q, k, v, window=(-1, 10))[0]  # the first queries see none of one key
    if device == "cuda":
        torch = pytest.importorskip("torch")
        q, k, v = (torch.from_numpy(x).cuda() for x in (q, k, v))
    out = gqa.flash_attn_func(q, k, v, window_size=(-1, 10))
    check(out.cpu().numpy() if device == "cuda" else out, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
def test_on_a_gpu(causal):
    import torch

    t = Case(q_heads=8, head_dim=128)
    q, k, v, starts_q, starts_k = (torch.from_numpy(x).cuda() for x in (t.q, t.k, t.v, t.starts_q, t.starts_k))
    given = dict(causal=causal, return_attn_probs=True)
    out, lse = gqa.flash_attn_varlen_func(q, k, v, starts_q, starts_k, 17, 33, **given)
    check_both((out.cpu().numpy(), lse.cpu().numpy()), t.expected(causal))


@pytest.mark.gpu
def test_a_captured_call_reads_the_lists_of_each_replay():
    import torch

    t = Case(head_dim=64)
    q, k, v, starts_q, starts_k = (torch.from_numpy(x).cuda() for x in (t.q, t.k, t.v, t.starts_q, t.starts_k))
    gqa.flash_attn_varlen_func(q, k, v, starts_q, starts_k, 17, 33, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = gqa.flash_attn_varlen_func(q, k, v, starts_q, starts_k, 17, 33, causal=True)
    graph.replay()
    check(out.cpu().numpy(), t.expected(True)[0])
    starts_q.copy_(torch.tensor([0, 0, 0, 0, 9, 26], dtype=torch.int32))
    starts_k.copy_(torch.tensor([0, 0, 0, 0, 33, 66], dtype=torch.int32))
    graph.replay()
    for rows, keys in ((slice(0, 9), slice(0, 33)), (slice(9, 26), slice(33, 66))):
        expected = attention_float64(t.q[None, rows], t.k[None, keys], t.v[None, keys], True)[0][0]
        check(out[rows].cpu().numpy(), expected)
