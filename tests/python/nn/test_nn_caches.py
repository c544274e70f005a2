"""gqa.nn.GroupedQueryAttention on caches: a prefill and then tokens one at a time, dense and in pages, give what one
pass over all gives in float64; lengths, room, and pages of gqa.PagePool."""

import gqa
import pytest

torch = pytest.importorskip("torch", reason="test_nn_caches.py needs PyTorch")

import gqa.nn  # noqa: E402
from torch_layers import close, each_dtype, guessed, layer64, randomised  # noqa: E402, F401
from torch_tensors import each_device, made  # noqa: E402

DIM, HEADS, KV_HEADS, WIDTH = 128, 6, 2, 32
TOKENS, PREFILL, ROOM, PAGE = 21, 12, 32, 8
TABLE = [[9, 2, 5, 0], [1, 7, 4, 3]]  # pages of two sequences, in no order

SCORES = {
    "llama": ({}, {}),
    "mistral": ({"window": 7}, {"window": (6, 0)}),
    "gpt-oss": ({"sinks": True, "bias": True}, {}),
}


def layer_of(turns=True, dtype=torch.bfloat16, device="cpu", **options):
    rope = gqa.nn.Rope(WIDTH, 64) if turns else None
    layer = gqa.nn.GroupedQueryAttention(DIM, HEADS, KV_HEADS, WIDTH, rope=rope, **options)
    return randomised(layer).to(device, dtype)


def cache_of(layer, kind, lengths=0, fill=float("nan")):
    """What no token is in may hold anything."""
    like = layer.k_proj.weight
    if kind == "dense":
        cache = layer.new_cache(2, ROOM)
        cache.lengths = lengths
    else:
        k, v = (like.new_empty((10, PAGE, KV_HEADS, WIDTH)) for _ in "kv")
        cache = gqa.nn.KVCache(k, v, lengths, torch.tensor(TABLE, dtype=torch.int32, device=like.device))
    for x in (cache.k, cache.v):
        x.detach().fill_(fill)
    return cache


def in_steps(layer, x, cache, steps):
    out, at = [], 0
    for tokens in steps:
        out.append(layer(x[:, at : at + tokens], cache=cache))
        cache.advance(tokens)
        at += tokens
    return torch.cat(out, 1)


@each_device
@each_dtype
@pytest.mark.parametrize("kind", ["dense", "paged"])
@pytest.mark.parametrize("name", SCORES)
def test_prefill_then_decode(name, kind, dtype, device):
    """A prefill, tokens one at a time, and a chunk of several, as one pass over all of them."""
    options, scores = SCORES[name]
    layer = layer_of(dtype=dtype, device=device, **options)
    x = made(2, TOKENS, DIM, device=device, dtype=dtype)
    expected = layer64(layer, x, **scores)
    steps = [PREFILL, 1, 1, 1, 1, 1, 4]
    for lengths in (0, torch.zeros(2, dtype=torch.int32, device=device)):
        with torch.no_grad():
            out = in_steps(layer, x, cache_of(layer, kind, lengths), steps)
        close(out, expected)


@each_device
def test_heads_of_16(device):
    layer = gqa.nn.GroupedQueryAttention(DIM, HEADS, KV_HEADS, 16, rope=gqa.nn.Rope(16, 64))
    layer = randomised(layer).to(device, torch.bfloat16)
    x = made(2, TOKENS, DIM, device=device, dtype=torch.bfloat16)
    with torch.no_grad():
        close(in_steps(layer, x, layer.new_cache(2, ROOM), [PREFILL, 1, 8]), layer64(layer, x))


@pytest.mark.parametrize("kind", ["dense", "paged"])
def test_without_a_rope(kind):
    layer = layer_of(turns=False)
    x = made(2, TOKENS, DIM, dtype=torch.bfloat16)
    with torch.no_grad():
        close(in_steps(layer, x, cache_of(layer, kind), [PREFILL, 1, 8]), layer64(layer, x))


@pytest.mark.parametrize("kind", ["dense", "paged"])
def test_sequences_of_their_own_lengths(kind):
    """Each stands behind its own tokens, and turns by its own place."""
    layer, have = layer_of(), (5, 11)
    x = made(2, TOKENS, DIM, dtype=torch.bfloat16)
    cache = cache_of(layer, kind)
    with torch.no_grad():
        layer(x[:, :11], cache=cache)
        cache.lengths = torch.tensor(have, dtype=torch.int32)  # of the first, those past its fifth are forgotten
        new = torch.stack([x[row, length : length + 3] for row, length in enumerate(have)])
        out = layer(new, cache=cache)
    assert cache.lengths.tolist() == list(have)
    for row, length in enumerate(have):
        close(out[row : row + 1], layer64(layer, x[row : row + 1, : length + 3])[:, length:])


def test_pages_of_a_pool():
    """Two layers share pages' numbers and lengths; a sequence that begins as another has what that one has."""
    layers = [layer_of(), layer_of(qk_norm=True)]
    pages = [torch.zeros(12, PAGE, KV_HEADS, WIDTH, dtype=torch.bfloat16) for _ in range(4)]
    pool = gqa.PagePool(*pages)
    x = made(1, TOKENS, DIM, dtype=torch.bfloat16)

    def step(sequences, tokens):
        before = torch.tensor([pool.length(one) for one in sequences], dtype=torch.int32)
        pool.append(sequences, tokens.shape[1])
        table, _ = pool.table(sequences)
        caches = [gqa.nn.KVCache(k, v, before, table) for k, v in zip(pages[::2], pages[1::2])]
        with torch.no_grad():
            return [layer(tokens, cache=cache) for layer, cache in zip(layers, caches)]

    first = pool.add()
    step([first], x[:, :PREFILL])
    both = [first, pool.share(first)]
    for at in range(PREFILL, PREFILL + 3):
        new = torch.stack([x[0, at : at + 1], x[0, at + 5 : at + 6]])
        out = step(both, new)
    other = torch.cat([x[:, :PREFILL], x[:, PREFILL + 5 : PREFILL + 8]], 1)
    for layer, found in zip(layers, out):
        for row, seen in enumerate((x[:, : PREFILL + 3], other)):
            close(found[row : row + 1], layer64(layer, seen)[:, -1:])


def test_compiled_whole():
    pytest.importorskip("gqa.torch", reason="compiled whole needs PyTorch 2.10")
    layer = layer_of()
    compiled = torch.compile(lambda x, cache: layer(x, cache=cache), fullgraph=True, backend="aot_eager")
    x = made(2, TOKENS, DIM, dtype=torch.bfloat16)
    for kind in ("dense", "paged"):
        cache = cache_of(layer, kind, torch.zeros(2, dtype=torch.int32))
        with torch.no_grad():
            out = [compiled(x[:, :PREFILL], cache)]
            cache.advance(PREFILL)
            out.append(compiled(x[:, PREFILL : PREFILL + 1], cache))
        close(torch.cat(out, 1), layer64(layer, x[:, : PREFILL + 1]))


@pytest.mark.gpu
def test_a_step_is_captured():
    """The lengths are a tensor: one graph serves every step."""
    layer = layer_of(device="cuda")
    x = made(2, TOKENS, DIM, device="cuda", dtype=torch.bfloat16)
    cache = cache_of(layer, "dense", torch.zeros(2, dtype=torch.int32, device="cuda"))
    token = x[:, :1].clone()
    with torch.no_grad():
        layer(token, cache=cache)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = layer(token, cache=cache)
            cache.advance(1)
        cache.lengths.zero_()
        found = []
        for at in range(TOKENS):
            token.copy_(x[:, at : at + 1])
            graph.replay()
            found.append(out.clone())
    close(torch.cat(found, 1), layer64(layer, x))


def test_the_keys_are_in_the_cache_and_lengths_stay():
    layer, x = layer_of(turns=False), made(2, 5, DIM, dtype=torch.bfloat16)
    cache = cache_of(layer, "dense", 3, fill=7.0)
    with torch.no_grad():
        layer(x, cache=cache)
        keys = layer.k_proj(x).unflatten(2, (KV_HEADS, WIDTH))
    assert cache.lengths == 3 and torch.equal(cache.k[:, 3:8], keys)
    assert (cache.k[:, :3] == 7).all() and (cache.k[:, 8:] == 7).all()


def test_room():
    layer, x = layer_of(), made(2, 5, DIM, dtype=torch.bfloat16)
    for kind in ("dense", "paged"):
        cache = cache_of(layer, kind, 27)
        assert cache.room == ROOM and f"room for {ROOM} tokens, lengths 27" in repr(cache)
        with torch.no_grad():
            layer(x, cache=cache)
            cache.advance(1)
            with pytest.raises(gqa.GqaValueError, match="x has 5 tokens and the cache's length is 28, of 32; expected"):
                layer(x, cache=cache)


def test_caches_that_do_not_fit():
    layer, x = layer_of(), made(2, 5, DIM, dtype=torch.bfloat16)
    good = layer.new_cache(2, ROOM)
    with torch.no_grad():
        with pytest.raises(gqa.GqaTypeError, match="cache.k is float16, but q is bfloat16"):
            layer(x, cache=gqa.nn.KVCache(good.k.half(), good.v.half()))
        with pytest.raises(gqa.GqaValueError, match="cache.k has"):
            layer(x, cache=gqa.nn.KVCache(good.k[:, :, :, :16], good.v))
        with pytest.raises(gqa.GqaValueError, match="batch"):
            layer(x, cache=layer.new_cache(3, ROOM))
        with pytest.raises((gqa.GqaTypeError, gqa.GqaValueError), match="cache.lengths"):
            layer(x, cache=gqa.nn.KVCache(good.k, good.v, torch.zeros(3, dtype=torch.int32)))
    with pytest.raises(gqa.GqaValueError, match=r"page_table has 1 dimensions, \(4,\); expected 2"):
        gqa.nn.KVCache(good.k, good.v, 0, torch.zeros(4, dtype=torch.int32))
    with pytest.raises(gqa.GqaValueError, match="tokens is 0; expected 1 to"):
        layer.new_cache(2, 0)
