"""What a door does on a miss: it guesses and stores nothing; gqa.configure says otherwise; door_report() counts."""

import os
import threading

import gqa
import pytest
from gqa import _call, _defaults, _doors

from conftest import attention_float64, check, make_qkv, run_python

torch = pytest.importorskip("torch", reason="test_doors.py needs PyTorch")
pytest.importorskip("gqa.torch", reason="test_doors.py needs PyTorch 2.10")

from gqa import _flash_impl  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def as_by_default():
    gqa.configure(tuning=None)
    gqa.door_report(reset=True)
    yield
    gqa.configure(tuning=None)


@pytest.fixture
def host(tmp_path, monkeypatch):
    """The shared handle of the host, made anew on a cache of the test's own; what it says is listed."""
    monkeypatch.setattr(_defaults, "_handles", {})
    monkeypatch.setattr(_defaults, "_cores", {})
    monkeypatch.setenv("GQA_CACHE", str(tmp_path / "cache.db"))
    said = []

    def make(device, **options):
        return gqa.Handle(device, tuning_budget=0.2, log=lambda level, message: said.append(message), **options)

    monkeypatch.setattr(_defaults, "Handle", make)
    yield said
    for handle in _defaults._handles.values():
        handle.close()


def made(said):
    """How shapes came to be ready since it was asked last: "guessed" or "tuned", one each."""
    words = [message.partition(" ")[0] for message in said]
    said.clear()
    return [word for word in words if word in ("guessed", "tuned")]


def heads_first(length=16):
    return [torch.from_numpy(x).transpose(1, 2) for x in make_qkv(q_len=length, kv_len=length)]


def by_the_door(length=16):
    with gqa.use_as_sdpa():
        return F.scaled_dot_product_attention(*heads_first(length), enable_gqa=True)


def by_name(length=16):
    return gqa.attention(*make_qkv(q_len=length, kv_len=length))


def report():
    return gqa.door_report(reset=True)[_doors.SDPA]


def test_a_door_guesses_and_who_tunes_replaces_it(host):
    out = by_the_door()
    expected, _ = attention_float64(*make_qkv())
    check(out.transpose(1, 2).numpy(), expected)
    assert made(host) == ["guessed"]
    counts = report()
    assert counts.calls == counts.misses == 1 and 0 < counts.seconds < 30
    by_the_door()
    assert made(host) == [] and report()[2:] == (0, 0.0)
    by_name()  # the first call of that shape that tunes
    assert made(host) == ["tuned"]
    by_name()
    by_the_door()
    assert made(host) == [] and report()[2:] == (0, 0.0)


def test_the_flash_attention_implementation_guesses_too(host):
    _flash_impl._sdpa(None, None, *heads_first())
    assert made(host) == ["guessed"]
    assert gqa.door_report()[_doors.FLASH_IMPL].misses == 1


def test_a_guess_is_stored_nowhere(host):
    by_the_door()
    path = os.environ["GQA_CACHE"]
    with gqa.Handle("host", cache_path=path, cache_mode="read-only", tuning="cached-only") as other:
        with pytest.raises(gqa.GqaError, match="the cache holds no program"):
            other.attention(*make_qkv())
    by_name()
    with gqa.Handle("host", cache_path=path, cache_mode="read-only", tuning="cached-only") as other:
        other.attention(*make_qkv())


def test_what_is_tuned_serves_doors(host):
    by_name()
    assert made(host) == ["tuned"]
    by_the_door()
    assert made(host) == [] and report().misses == 0


def test_configure_holds_for_doors_and_shared_handles(host):
    gqa.configure(tuning="now")
    by_the_door()
    assert made(host) == ["tuned"] and report().misses == 1
    gqa.configure(tuning="guess")
    by_name(20)
    assert made(host) == ["guessed"]
    gqa.configure(tuning="cached-only")
    with pytest.raises(gqa.GqaError, match="tuning is off"):
        by_name(40)
    assert by_the_door(40).shape == (1, 2, 40, 32)
    assert report().fallbacks == {"gqa refuses: ERROR_NOT_CACHED": 1}
    gqa.configure(tuning=None)
    by_the_door(40)
    by_name(20)
    assert made(host) == ["guessed", "tuned"]


def test_configure_holds_for_handles_that_are_made_later(host):
    gqa.configure(tuning="guess")
    assert not _defaults._handles
    by_name()
    assert made(host) == ["guessed"]


def test_configure_leaves_other_handles_and_warm_alone(host, tmp_path):
    gqa.configure(tuning="cached-only")
    with gqa.Handle("host", cache_path=tmp_path / "own.db", tuning_budget=0.2) as own:
        own.attention(*make_qkv())
    gqa.warm(batch=1, q_len=16, kv_len=16, q_heads=2, kv_heads=1, head_dim=32, dtype="float16", device="host")
    assert made(host) == ["tuned"]


@pytest.mark.parametrize("given", ["later", 1, True, b"now"])
def test_configure_takes_a_tuning(given):
    with pytest.raises(gqa.GqaValueError, match="tuning is .*'now', 'guess', 'cached-only'"):
        gqa.configure(tuning=given)
    with pytest.raises(TypeError):
        gqa.configure("now")


def test_compiled_calls_miss_when_they_run(host):
    compiled = torch.compile(
        lambda *tensors: F.scaled_dot_product_attention(*tensors, enable_gqa=True), fullgraph=True, backend="aot_eager"
    )
    with gqa.use_as_sdpa():
        compiled(*heads_first())
        assert made(host) == ["guessed"]
        compiled(*heads_first())
    counts = report()
    assert (counts.calls, counts.misses) == (1, 1)


@pytest.mark.parametrize("name", ["attention", "varlen", "kvcache", "kvcache_append"])
def test_each_operator_says_whose_call_it_is(name, monkeypatch):
    """As a door's function asks for it, to what the library is called with."""
    seen = []

    def compute(core_of, *asked):
        seen.append(asked[-1])
        return torch.zeros_like(asked[0])

    monkeypatch.setattr(_call, "compute", compute)
    q, k, v = (torch.from_numpy(x) for x in make_qkv())
    starts = torch.tensor([0, 16], dtype=torch.int32)
    if name == "attention":
        torch.ops.gqa.attention(q, k, v, door="transformers")
    elif name == "varlen":
        torch.ops.gqa.varlen(q[0], k[0], v[0], starts, starts, None, None, 16, 16, door="transformers")
    elif name == "kvcache":
        torch.ops.gqa.kvcache(q, k, v, door="transformers")
    else:
        torch.ops.gqa.kvcache_append(q, k, v, k[:, :1], v[:, :1], starts[:1], door="transformers")
    assert seen == ["transformers"]


def test_counts_are_of_all_threads():
    def counted():
        _doors.count("a")
        _doors.count("a", "why")
        _doors.missed("a", 0.5)

    threads = [threading.Thread(target=counted) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gqa.door_report() == {"a": _doors.DoorReport(8, {"why": 8}, 8, 4.0)}
    gqa.door_report()["a"].fallbacks["why"] = 0
    assert gqa.door_report(reset=True)["a"].fallbacks == {"why": 8}, "a copy"
    assert gqa.door_report() == {}


def test_generated_tokens_of_a_tiny_model_on_a_fresh_cache():
    """64 tokens, one after the other, on keys that grow: at most 2 s of misses."""
    said = run_python(
        "import gqa, torch\n"
        "F = torch.nn.functional\n"
        "torch.manual_seed(0)\n"
        "norm = torch.nn.LayerNorm(128, dtype=torch.bfloat16)\n"
        "layers = [[torch.nn.Linear(128, n, dtype=torch.bfloat16) for n in (128, 64, 64, 128)] for _ in range(2)]\n"
        "caches = [[], []]\n"
        "def step(x):\n"
        "    for (q, k, v, o), cache in zip(layers, caches):\n"
        "        heads = [f(norm(x)).unflatten(-1, (-1, 32)).transpose(1, 2) for f in (q, k, v)]\n"
        "        cache[:] = [torch.cat(pair, 2) for pair in zip(cache, heads[1:])] or heads[1:]\n"
        "        causal = x.shape[1] > 1\n"
        "        out = F.scaled_dot_product_attention(heads[0], *cache, is_causal=causal, enable_gqa=True)\n"
        "        x = x + o(out.transpose(1, 2).flatten(2))\n"
        "    return x\n"
        "with torch.no_grad(), gqa.use_as_sdpa():\n"
        "    x = step(torch.randn(1, 10, 128, dtype=torch.bfloat16))[:, -1:]\n"
        "    for _ in range(64): x = step(x)\n"
        "counts = gqa.door_report()['use_as_sdpa']\n"
        "print(counts.calls, counts.fallbacks, counts.misses, counts.seconds)\n",
        GQA_CACHE=os.path.join(os.path.dirname(os.environ["GQA_CACHE"]), "generated.db"),
    )
    calls, fallbacks, misses, seconds = said.split()
    assert (calls, fallbacks) == ("130", "{}") and 2 <= int(misses) <= 12
    assert float(seconds) <= 2, said
