"""flash_attn_with_kvcache: FlashAttention-3's signature and meaning on dense and paged caches, and its refusals."""

import inspect
import os
import time

import gqa
import numpy as np
import pytest

from conftest import Producer, check, run_python

# flash_attn_interface.flash_attn_with_kvcache, in its order: a program may pass any of these by position.
FLASH_ATTENTION_3 = {
    "q": inspect.Parameter.empty,
    "k_cache": inspect.Parameter.empty,
    "v_cache": inspect.Parameter.empty,
    "k": None,
    "v": None,
    "qv": None,
    "rotary_cos": None,
    "rotary_sin": None,
    "cache_seqlens": None,
    "cache_batch_idx": None,
    "cache_leftpad": None,
    "page_table": None,
    "cu_seqlens_q": None,
    "cu_seqlens_k_new": None,
    "max_seqlen_q": None,
    "rotary_seqlens": None,
    "q_descale": None,
    "k_descale": None,
    "v_descale": None,
    "softmax_scale": None,
    "causal": False,
    "window_size": (-1, -1),
    "attention_chunk": 0,
    "softcap": 0.0,
    "rotary_interleaved": True,
    "scheduler_metadata": None,
    "num_splits": 0,
    "pack_gqa": None,
    "sm_margin": 0,
    "return_softmax_lse": False,
}

LENGTHS = [40, 0, 17, 48]
PAST = 0x7FFFFFFF  # what table entries past a length hold


class Case:
    """Four sequences of at most 48 keys: dense with NaN past each length, and the same in pages, out of order."""

    def __init__(self, q_len=2, page=16, q_heads=4, kv_heads=2, head_dim=32):
        generator = np.random.default_rng(3)
        batch, most = len(LENGTHS), 48

        def normal(*shape):
            return generator.standard_normal(shape).astype(np.float16)

        self.q = normal(batch, q_len, q_heads, head_dim)
        self.k, self.v = normal(batch, most, kv_heads, head_dim), normal(batch, most, kv_heads, head_dim)
        width = -(-most // page)
        free = list(generator.permutation(batch * width + 2))
        self.k_pages = np.full((len(free), page, kv_heads, head_dim), np.nan, np.float16)
        self.v_pages = self.k_pages.copy()
        self.table = np.full((batch, width), PAST, np.int32)
        self.lengths = np.array(LENGTHS, np.int32)
        for b, length in enumerate(LENGTHS):
            self.k[b, length:] = self.v[b, length:] = np.nan
            for at in range(-(-length // page)):
                self.table[b, at] = free.pop()
                kept = slice(at * page, min(length, (at + 1) * page))
                self.k_pages[self.table[b, at], : kept.stop - kept.start] = self.k[b, kept]
                self.v_pages[self.table[b, at], : kept.stop - kept.start] = self.v[b, kept]

    def expected(self, causal=False, window=(-1, -1), lengths=LENGTHS, scale=None, softcap=0, sink=None):
        """(out, lse), sequence by sequence and query by query."""
        q, k, v = (x.astype(np.float64) for x in (self.q, self.k, self.v))
        batch, q_len, q_heads, head_dim = q.shape
        left, right = window[0], 0 if causal else window[1]
        out, lse = np.zeros(q.shape), np.full((batch, q_heads, q_len), -np.inf)
        for b, length in enumerate(lengths):
            for i in range(q_len):
                own = length - q_len + i
                seen = [
                    j for j in range(length) if (left < 0 or j >= own - left) and (right < 0 or j <= own + right)
                ]
                if not seen:
                    lse[b, :, i] = -np.inf if sink is None else sink
                    continue
                for h in range(q_heads):
                    of = h // (q_heads // k.shape[2])
                    scores = k[b, seen, of] @ q[b, i, h] * (head_dim**-0.5 if scale is None else scale)
                    if softcap:
                        scores = softcap * np.tanh(scores / softcap)
                    weights = np.exp(scores - scores.max())
                    total = weights.sum() + (0 if sink is None else np.exp(sink[h] - scores.max()))
                    lse[b, h, i] = scores.max() + np.log(total)
                    out[b, i, h] = weights @ v[b, seen, of] / total
        return out, lse


def check_both(result, expected):
    out, lse = result
    check(out, expected[0])
    hidden = np.isinf(expected[1])
    assert (np.asarray(lse)[hidden] == -np.inf).all()
    check(np.where(hidden, 0, np.asarray(lse)), np.where(hidden, 0, expected[1]))


def test_signature():
    parameters = inspect.signature(gqa.flash_attn_with_kvcache).parameters.values()
    by_position = {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
    assert list(by_position.items()) == list(FLASH_ATTENTION_3.items())


WINDOWS = [(False, (-1, -1)), (True, (-1, -1)), (True, (5, 3)), (False, (None, 1))]


@pytest.mark.parametrize("causal,window", WINDOWS, ids=str)
def test_dense_cache(causal, window):
    t = Case()
    plain = tuple(-1 if side is None else side for side in window)
    result = gqa.flash_attn_with_kvcache(
        t.q, t.k, t.v, cache_seqlens=t.lengths, causal=causal, window_size=window, return_softmax_lse=True
    )
    check_both(result, t.expected(causal, plain))
    assert not np.asarray(result[0])[1].any()  # of length 0


@pytest.mark.parametrize("cap", [0.5, 30.0])
def test_softcap(cap):
    t = Case()
    pages = dict(cache_seqlens=t.lengths, page_table=t.table, causal=True, window_size=(5, 0))
    result = gqa.flash_attn_with_kvcache(t.q, t.k_pages, t.v_pages, softcap=cap, return_softmax_lse=True, **pages)
    check_both(result, t.expected(True, (5, 0), softcap=cap))


def test_out():
    t = Case()
    memory = np.full((len(LENGTHS), 2, 3, 4, 32), -7, np.float16)
    out = memory[:, :, 1]  # of a larger tensor
    pages = dict(cache_seqlens=t.lengths, page_table=t.table, causal=True)
    result = gqa.flash_attn_with_kvcache(t.q, t.k_pages, t.v_pages, out=out, return_softmax_lse=True, **pages)
    assert result[0] is out and (memory[:, :, ::2] == -7).all()
    check_both(result, t.expected(True))
    with pytest.raises(gqa.GqaValueError, match="overlap"):
        gqa.flash_attn_with_kvcache(t.q, t.k_pages, t.v_pages, out=t.q, **pages)


def test_sink():
    t = Case()
    sink = np.linspace(-1, 4, t.q.shape[2], dtype=np.float32)
    pages = dict(cache_seqlens=t.lengths, page_table=t.table, causal=True, window_size=(5, 0))
    out, lse = gqa.flash_attn_with_kvcache(t.q, t.k_pages, t.v_pages, sink=sink, return_softmax_lse=True, **pages)
    check_both((out, lse), t.expected(True, (5, 0), sink=sink))


@pytest.mark.parametrize("page", [1, 3, 16, 64])
@pytest.mark.parametrize("q_len", [1, 16, 100])
def test_pages(page, q_len):
    t = Case(q_len, page)
    result = gqa.flash_attn_with_kvcache(
        t.q, t.k_pages, t.v_pages, cache_seqlens=t.lengths, page_table=t.table, causal=True, return_softmax_lse=True
    )
    check_both(result, t.expected(True))


def test_a_window_on_pages():
    t = Case(3)
    result = gqa.flash_attn_with_kvcache(
        t.q,
        t.k_pages,
        t.v_pages,
        cache_seqlens=t.lengths,
        page_table=t.table,
        window_size=(7, 1),
        softmax_scale=0.3,
        return_softmax_lse=True,
    )
    check_both(result, t.expected(False, (7, 1), scale=0.3))


def test_one_number_of_keys_and_none():
    t = Case()
    t.k[np.isnan(t.k)] = 0
    t.v[np.isnan(t.v)] = 0
    check(gqa.flash_attn_with_kvcache(t.q, t.k, t.v, cache_seqlens=9), t.expected(lengths=[9] * 4)[0])
    check(gqa.flash_attn_with_kvcache(t.q, t.k, t.v, cache_seqlens=np.int64(9)), t.expected(lengths=[9] * 4)[0])
    check(gqa.flash_attn_with_kvcache(t.q, t.k, t.v, causal=True), t.expected(True, lengths=[48] * 4)[0])


def test_torch_and_dlpack():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    t = Case()
    q, k, v, lengths, table = (torch.from_numpy(x) for x in (t.q, t.k_pages, t.v_pages, t.lengths, t.table))
    out = gqa.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, page_table=table, causal=True)
    assert type(out) is torch.Tensor and out.dtype == torch.float16
    check(out.numpy(), t.expected(True)[0])
    dense = (torch.from_numpy(x) for x in (t.k, t.v))
    check(gqa.flash_attn_with_kvcache(q, *dense, cache_seqlens=0), np.zeros(t.q.shape))
    mixed = gqa.flash_attn_with_kvcache(t.q, t.k_pages, t.v_pages, cache_seqlens=Producer(t.lengths), page_table=table)
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
    with pytest.raises(NotImplementedError, match=f"flash_attn_with_kvcache was given {name}="):
        gqa.flash_attn_with_kvcache(t.q, t.k, t.v, **{name: value})


@pytest.mark.parametrize(
    "change,error,says",
    [
        (dict(cache_seqlens=np.array(LENGTHS, np.int64)), gqa.GqaTypeError, "cache_seqlens is int64, expected int32"),
        (dict(cache_seqlens=np.array([LENGTHS], np.int32)), gqa.GqaValueError, "cache_seqlens has 2 dimensions"),
        (dict(cache_seqlens=np.array([1], np.int32)), gqa.GqaValueError, "cache_seqlens has batch 1, but q has"),
        (dict(cache_seqlens=49), gqa.GqaValueError, "cache_seqlens is 49; expected 0 to 48"),
        (dict(page_table=np.zeros((4, 3), np.int64)), gqa.GqaTypeError, "page_table is int64, expected int32"),
        (dict(page_table=np.zeros((3, 3), np.int32)), gqa.GqaValueError, "page_table has batch 3, but q has batch 4"),
        (dict(page_table=np.zeros(3, np.int32)), gqa.GqaValueError, "page_table has 1 dimensions, expected 2"),
        (dict(window_size=(-2, 0)), gqa.GqaValueError, "window_size[0] is -2; expected -1 to"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_refused_by_name(change, error, says):
    t = Case()
    given = dict(cache_seqlens=t.lengths, page_table=t.table)
    with pytest.raises(error) as caught:
        gqa.flash_attn_with_kvcache(t.q, t.k_pages, t.v_pages, **{**given, **change})
    assert says in str(caught.value)


CHECKED = """
import numpy as np, gqa
q = np.zeros((2, 1, 2, 32), np.float16)
pages = np.zeros((9, 16, 2, 32), np.float16)
table = np.array([[0, 1, 2], [3, 9, 4]], np.int32)
def run(second):
    lengths = np.array([48, second], np.int32)
    try:
        gqa.flash_attn_with_kvcache(q, pages, pages, cache_seqlens=lengths, page_table=table)
        print("ok")
    except gqa.GqaValueError as error:
        print(error)
for second in (16, 49, 17):
    run(second)
"""


def test_a_checked_process_names_sequence_and_page():
    lines = run_python(CHECKED, GQA_CHECKED="1", GQA_CACHE=os.environ["GQA_CACHE"]).splitlines()
    assert lines[0] == "ok"  # entry 9 lies past the length
    assert lines[1].startswith("cache_seqlens[1] is 49, expected 0 to 48")
    assert lines[2].startswith("page_table[1][1] is 9, expected 0 to 8")


def test_warming_takes_a_cache(tmp_path):
    lines = []
    log = lambda level, text: lines.append(text)  # noqa: E731
    with gqa.Handle("host", cache_path=tmp_path / "c.db", tuning_budget=0.2, log=log) as h:
        shape = dict(batch=4, q_len=2, kv_len=48, q_heads=4, kv_heads=2, head_dim=32, dtype="float16", causal=True)
        h.warm(**shape, page=16, window_size=(5, -1), cache_seqlens=True)
        assert any("page=16" in line and "left=5" in line and "lens" in line for line in lines)


def test_a_handle_of_its_own_may_be_checked(tmp_path):
    t = Case()
    given = dict(cache_seqlens=t.lengths, page_table=t.table)
    with gqa.Handle("host", cache_path=tmp_path / "c.db", tuning_budget=0.2, checked=True) as handle:
        check(gqa.flash_attn_with_kvcache(t.q, t.k_pages, t.v_pages, **given, handle=handle), t.expected()[0])
        t.table[2, 1] = -4
        with pytest.raises(gqa.GqaValueError, match=r"page_table\[2\]\[1\] is -4, expected 0 to 13"):
            gqa.flash_attn_with_kvcache(t.q, t.k_pages, t.v_pages, **given, handle=handle)


# ---- on a GPU


def on_gpu(case, handle, q=None):
    """The paged call on tensors that live on the GPU, and those tensors."""
    import torch

    held = {name: torch.from_numpy(getattr(case, name)).cuda() for name in ("q", "k_pages", "v_pages", "lengths", "table")}

    def call():
        return gqa.flash_attn_with_kvcache(
            held["q"], held["k_pages"], held["v_pages"], cache_seqlens=held["lengths"], page_table=held["table"],
            causal=True, return_softmax_lse=True, handle=handle,
        )  # fmt: skip

    return held, call


@pytest.mark.gpu
def test_a_captured_call_reads_the_lengths_of_its_replay():
    import torch

    handle = gqa.Handle("cuda:0", cache_mode="off", tuning_budget=1)
    case = Case(q_len=2)
    held, call = on_gpu(case, handle)
    check_lse(call(), case.expected(causal=True))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = call()
    for shorter in ([40, 0, 17, 48], [3, 0, 16, 48], [0, 0, 1, 30], [40, 0, 2, 0]):
        held["lengths"].copy_(torch.tensor(shorter, dtype=torch.int32))
        graph.replay()
        torch.cuda.synchronize()
        check_lse((out, lse), case.expected(causal=True, lengths=shorter))


@pytest.mark.gpu
@pytest.mark.times_cpu
def test_a_growing_cache_neither_compiles_nor_tunes():
    handle = gqa.Handle("cuda:0", cache_mode="off", tuning_budget=4)
    held, call = on_gpu(Case(q_len=1), handle)
    call()
    began = time.perf_counter()
    for length in range(1, 40):
        held["lengths"].fill_(length)
        call()
    assert time.perf_counter() - began < 1  # one more tuning would take four seconds


@pytest.mark.gpu
def test_a_checked_handle_names_the_page_on_a_gpu():
    handle = gqa.Handle("cuda:0", cache_mode="off", tuning_budget=1, checked=True)
    held, call = on_gpu(Case(), handle)
    call()
    held["table"][0, 1] = 900
    with pytest.raises(gqa.GqaValueError, match=r"page_table\[0\]\[1\] is 900, expected 0 to "):
        call()


def check_lse(given, expected):
    for mine, right in zip((x.float().cpu().numpy() for x in given), expected):
        np.testing.assert_allclose(mine, right, rtol=2e-3, atol=2e-3)
