"""gqa.PagePool: pages for sequences, shared beginnings, tables; a decode from them; its refusals."""

import os
import threading

import gqa
import numpy as np
import pytest

from conftest import Producer, attention_float64, check

PAGES, PAGE, HEADS, DIM = 12, 4, 2, 32


def make_caches(layers=1):
    """Keys and values that nobody has written: NaN."""
    return [np.full((PAGES, PAGE, HEADS, DIM), np.nan, np.float16) for _ in range(2 * layers)]


@pytest.fixture
def caches():
    return make_caches()


@pytest.fixture
def pool(handle, caches):
    return gqa.PagePool(*caches, handle=handle)


class Cached:
    """Sequences in a pool, and what each should hold."""

    def __init__(self, handle):
        self.handle, self.caches = handle, make_caches(layers=2)
        self.pool = gqa.PagePool(*self.caches, handle=handle)
        self.generator = np.random.default_rng(3)
        self.keys = {}  # (tokens, heads, dim) of each cache

    def normal(self, *shape):
        return self.generator.standard_normal(shape).astype(np.float16)

    def add(self):
        sequence = self.pool.add()
        self.keys[sequence] = [np.zeros((0, HEADS, DIM), np.float16) for _ in self.caches]
        return sequence

    def share(self, sequence, tokens=None):
        copy = self.pool.share(sequence, tokens)
        self.keys[copy] = [own[:tokens] for own in self.keys[sequence]]
        return copy

    def truncate(self, sequence, tokens):
        self.pool.truncate(sequence, tokens)
        self.keys[sequence] = [own[:tokens] for own in self.keys[sequence]]

    def append(self, sequences, tokens):
        self.pool.append(sequences, tokens)
        table, lengths = self.pool.table(sequences)
        for row, length, sequence in zip(table, lengths, sequences):
            for at, cache in enumerate(self.caches):
                new = self.normal(tokens, HEADS, DIM)
                places = np.arange(length - tokens, length)
                cache[row[places // PAGE], places % PAGE] = new
                self.keys[sequence][at] = np.concatenate([self.keys[sequence][at], new])

    def check(self, sequences):
        table, lengths = self.pool.table(sequences)
        q = self.normal(len(sequences), 1, 2 * HEADS, DIM)
        for layer in (0, 2):
            out = gqa.flash_attn_with_kvcache(
                q,
                self.caches[layer],
                self.caches[layer + 1],
                cache_seqlens=lengths,
                page_table=table,
                causal=True,
                handle=self.handle,
            )
            for b, sequence in enumerate(sequences):
                k, v = (own[None] for own in self.keys[sequence][layer : layer + 2])
                check(out[b : b + 1], attention_float64(q[b : b + 1], k, v, causal=True)[0])


def test_sequences_that_share_a_beginning_decode_apart(handle):
    t = Cached(handle)
    first = t.add()
    t.append([first], 6)
    second, third = t.share(first), t.share(first, 5)
    for _ in range(4):
        t.append([second, first, third], 1)
        t.check([first, third, second])
    t.pool.free(first)
    fourth = t.add()
    t.append([fourth], 7)
    t.check([second, third, fourth])


def test_a_refused_draft_goes_and_what_stays_is_as_it_was(handle):
    t = Cached(handle)
    first = t.add()
    t.append([first], 6)
    t.append([first], 4)  # a draft, of which one token is taken
    t.truncate(first, 7)
    t.append([first], 1)
    t.check([first])
    second = t.share(first)
    t.append([first, second], 3)
    t.truncate(second, 7)
    t.append([second], 2)
    t.check([first, second])


def test_an_append_keeps_to_a_tables_columns(pool):
    sequence = pool.add(PAGE)
    with pytest.raises(gqa.GqaValueError, match="would have 2 pages with 1 more tokens, but the table has 1 columns"):
        pool.append(sequence, columns=1)
    assert pool.length(sequence) == PAGE and pool.free_pages == PAGES - 1
    pool.append(sequence, columns=2)
    pool.table(sequence, columns=2)
    with pytest.raises(gqa.GqaValueError, match=f"tokens is {PAGE + 2}, expected 0 to {PAGE + 1}"):
        pool.truncate(sequence, PAGE + 2)
    with pytest.raises(TypeError, match="tokens"):
        pool.truncate(sequence, None)


def test_numbers(pool):
    assert (pool.pages, pool.page, pool.free_pages) == (PAGES, PAGE, PAGES)
    a, b = pool.add(9), pool.add()
    assert pool.free_pages == PAGES - 3 and pool.length(a) == 9 and pool.length(b) == 0
    pool.append(b, 4)
    pool.append([a, b], [4, 1])
    table, lengths = pool.table([b, a], columns=5)
    assert lengths.dtype == table.dtype == np.int32 and lengths.tolist() == [5, 13]
    assert table.shape == (2, 5) and (table[0, 2:] == 0).all() and (table[1, 4:] == 0).all()
    assert len(set(table[0, :2]) | set(table[1, :4])) == 6
    assert pool.table(a)[0].shape == (1, 4)
    assert repr(pool) == f"gqa.PagePool({PAGES - 6} of {PAGES} pages free, {PAGE} tokens each)"
    pool.free(a, b)
    assert pool.free_pages == PAGES


def test_what_has_no_room_changes_nothing(pool):
    sequence = pool.add(5)
    with pytest.raises(gqa.GqaMemoryError, match=f"needs 11 more pages, but 10 of the pool's {PAGES} are free"):
        pool.append(sequence, 44)
    with pytest.raises(MemoryError):
        pool.add(41)
    assert pool.length(sequence) == 5 and pool.free_pages == PAGES - 2


def test_refused(pool, handle, caches):
    other = gqa.PagePool(*caches, handle=handle)
    sequence, foreign = pool.add(3), other.add(3)
    pool.free(sequence)
    for call in (pool.free, pool.append, pool.share, pool.length, pool.table):
        with pytest.raises(gqa.GqaValueError, match=f"sequence {sequence} was freed before"):
            call(sequence)
        with pytest.raises(gqa.GqaValueError, match=f"sequence {foreign} is none of this pool's"):
            call(foreign)
    kept = pool.add(5)
    for call, words in {
        lambda: pool.append(kept, -1): "is -1, expected 0 to",
        lambda: pool.append([kept], [1, 2]): "there are 1 sequences and 2 tokens",
        lambda: pool.share(kept, 6): "tokens is 6, expected 0 to 5",
        lambda: pool.share(kept, -1): "tokens is -1",
        lambda: pool.table([kept], columns=1): "has 1 columns, but sequence",
        lambda: pool.table([]): "a table of 0 sequences",
        lambda: pool.table([kept], columns=0): "and 0 columns",
        lambda: gqa.PagePool(): "there is no cache",
        lambda: gqa.PagePool(caches[0], caches[1][:5], handle=handle): r"caches\[1\] has pages 5",
        lambda: gqa.PagePool(caches[0], caches[1][:, :2], handle=handle): r"caches\[1\] has page 2",
        lambda: gqa.PagePool(caches[0][0], handle=handle): r"caches\[0\] has 3 dimensions",
    }.items():
        with pytest.raises(gqa.GqaValueError, match=words):
            call()
    with pytest.raises(gqa.GqaTypeError, match=r"caches\[1\] is a list"):
        gqa.PagePool(caches[0], [], handle=handle)
    assert pool.free_pages == PAGES - 2


def test_a_pool_keeps_its_handle_and_its_tensors(caches):
    handle = gqa.Handle("host", cache_mode="off")
    pool = gqa.PagePool(*caches, handle=handle)
    handle.close()
    first = pool.add(3)
    pool.append(pool.share(first))
    with pytest.raises(gqa.GqaValueError, match="closed"):
        gqa.PagePool(*caches, handle=handle)


def test_views_and_tensors_of_other_kinds(handle):
    together = np.zeros((PAGES, 2, HEADS, PAGE, DIM), np.float16)
    k, v = together[:, 0].transpose(0, 2, 1, 3), together[:, 1].transpose(0, 2, 1, 3)
    pool = gqa.PagePool(k, v, handle=handle)
    first = pool.add(2)
    page = pool.table(first)[0][0, 0]
    k[page], v[page] = 1, 2
    second = pool.share(first)
    pool.append(second)
    own = pool.table(second)[0][0, 0]
    assert own != page and (k[own] == 1).all() and (v[own] == 2).all()
    assert (together != 0).sum() == 4 * PAGE * HEADS * DIM
    foreign = gqa.PagePool(*(Producer(cache) for cache in make_caches()), handle=handle)
    table, lengths = foreign.table(foreign.add(5))
    assert repr(table) == "gqa.Array(shape=(1, 2), dtype=int32)"
    assert np.from_dlpack(lengths).tolist() == [5] and len(set(np.from_dlpack(table)[0])) == 2
    torch = pytest.importorskip("torch", reason="test_views_and_tensors_of_other_kinds needs PyTorch")
    of_torch = gqa.PagePool(torch.zeros(PAGES, PAGE, HEADS, DIM, dtype=torch.float8_e5m2).view(torch.uint8))
    table, lengths = of_torch.table(of_torch.add(5))
    assert table.dtype == torch.int32 and lengths.tolist() == [5]


def test_threads(pool):
    failures = []

    def work():
        try:
            for _ in range(200):
                mine = pool.add(3)
                copy = pool.share(mine)
                assert pool.length(copy) == 3
                pool.free(copy, mine)
        except Exception as failure:  # noqa: BLE001
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and pool.free_pages == PAGES


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_makes_its_own():
    caches = make_caches()
    pool = gqa.PagePool(*caches)
    pool.add(3)
    child = os.fork()
    if child == 0:
        try:
            pool.add(3)
        except gqa.GqaValueError as refusal:
            fresh = gqa.PagePool(*caches)
            os._exit(0 if "before the process forked" in str(refusal) and fresh.add(3) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert pool.free_pages == PAGES - 1


@pytest.mark.gpu
def test_on_a_gpu_the_page_is_copied_on_the_current_stream():
    import torch

    k, v = (torch.zeros(PAGES, PAGE, HEADS, DIM, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        pool = gqa.PagePool(k, v.permute(0, 1, 2, 3))
        first = pool.add(2)
        page = int(pool.table(first)[0][0, 0])
        torch.cuda._sleep(100_000_000)  # what follows waits for it, and so must the copy
        k[page], v[page] = 1, 2
        second = pool.share(first)
        pool.append(second)
        own = int(pool.table(second)[0][0, 0])
    stream.synchronize()
    assert own != page and bool((k[own] == 1).all()) and bool((v[own] == 2).all())
    assert int((k != 0).sum() + (v != 0).sum()) == 4 * PAGE * HEADS * DIM


@pytest.mark.gpu
def test_on_a_gpu_no_copy_goes_into_a_capture():
    import torch

    k, v = (torch.zeros(PAGES, PAGE, HEADS, DIM, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    pool = gqa.PagePool(k, v)
    second = pool.share(pool.add(2))
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        pool.add(3)
        with pytest.raises(gqa.GqaError, match="append before the capture begins"):
            pool.append(second)
        k.zero_()
    assert pool.length(second) == 2
