"""gqa.explain: where a kernel comes from, why, and what would be served or be faster; nothing is tuned by it."""

import gqa
import numpy as np
import pytest

from conftest import make_qkv


@pytest.fixture
def own(tmp_path):
    told = []
    with gqa.Handle("host", cache_path=tmp_path / "c.db", tuning_budget=0.2, log=lambda *line: told.append(line)) as handle:
        handle.told = told
        yield handle


def test_a_guess_becomes_tuned_and_then_cached(own, tmp_path):
    q, k, v = make_qkv()
    first = gqa.explain(q, k, v, handle=own)
    assert first.source == "guess" and "first call tunes" in first.reason and first.kernel
    assert first.evidence["predicted_us"] > 0 and first.evidence["candidates"] >= 1
    assert own.told == []
    own.attention(q, k, v)
    tuned = gqa.explain(q, k, v, handle=own)
    assert tuned.source == "tuned" and "in this process" in tuned.reason
    assert tuned.evidence["median_us"] > 0 and tuned.evidence["measured_candidates"] >= 1
    assert tuned.evidence["error"] <= tuned.evidence["error_bound"]
    with gqa.Handle("host", cache_path=tmp_path / "c.db") as later:
        cached = gqa.explain(q, k, v, handle=later)
        assert cached.source == "cache" and cached.kernel == tuned.kernel
        assert cached.evidence["median_us"] == tuned.evidence["median_us"]
        later.attention(q, k, v)
        assert gqa.explain(q, k, v, handle=later).source == "cache"
    assert gqa.explain(q, k, v, causal=True, handle=own).source == "guess"


def test_a_guess_that_was_made_is_one(tmp_path):
    with gqa.Handle("host", cache_path=tmp_path / "c.db", tuning="guess") as handle:
        handle.attention(*make_qkv())
        made = gqa.explain(*make_qkv(), handle=handle)
    assert made.source == "guess" and "nobody has timed" in made.reason


def test_it_prints_as_text(own):
    made = gqa.explain(*make_qkv(), causal=True, handle=own)
    lines = str(made).splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["problem", "source", "kernel", "reason", "evidence"]
    assert made.problem in lines[0] and made.kernel in lines[2]


def test_options_are_those_of_attention(own):
    q, k, v = make_qkv(q_len=16, kv_len=24)
    made = gqa.explain(
        q, k, v, window_size=(3, 0), sink=np.zeros(2, np.float32), score_scale=np.ones(2, np.float32), return_lse=True,
        handle=own,
    )
    for word in ("causal", "left=3", "sink", "mulhead", "lse"):
        assert word in made.problem
    own.attention(
        q, k, v, window_size=(3, 0), sink=np.zeros(2, np.float32), score_scale=np.ones(2, np.float32), return_lse=True
    )
    assert made.problem in "".join(message for _, message in own.told)


def of(q_heads=2, kv_heads=1, dim=32, dtype=np.float16):
    return [np.zeros((1, 16, heads, dim), dtype) for heads in (q_heads, kv_heads, kv_heads)]


@pytest.mark.parametrize(
    "tensors, reason, change, served",
    [
        (of(dim=72), "head_dim is 72", "head_dim 80, padded with zeros, with scale 1/sqrt(72)", "d=80"),
        (of(dtype=np.float64), "q is float64", "q, k and v of float32", "d=32,dtype=f32"),
        (of(dtype=np.int8), "q is int8", "q, k and v of bfloat16", "d=32,dtype=bf16"),
        (of(q_heads=6, kv_heads=4), "k has kv_heads 4", "6 heads of keys and values, repeated", "hq=6"),
        (of(dim=40, dtype=np.float64), "q is float64", "q, k and v of float32; head_dim 64, padded", "d=64,dtype=f32"),
        (of(dim=300), "head_dim is 300", None, None),
    ],
)
def test_what_is_refused_names_the_nearest_that_is_served(own, tensors, reason, change, served):
    made = gqa.explain(*tensors, handle=own)
    with pytest.raises((gqa.GqaTypeError, gqa.GqaValueError)) as refused:
        gqa.attention(*tensors, handle=own)
    assert made.source == "refused" and made.kernel == "" and made.reason == str(refused.value)
    assert reason in made.reason
    if change is None:
        assert made.nearest is None
    else:
        assert made.nearest.change.startswith(change) and served in made.nearest.problem
        assert made.nearest.predicted_us > 0


def test_strides_that_are_refused(own):
    q, k, v = make_qkv()
    made = gqa.explain(q, np.swapaxes(np.swapaxes(k, 1, 3).copy(), 1, 3), v, handle=own)
    assert made.source in ("guess", "refused")
    strange = np.lib.stride_tricks.as_strided(q, q.shape, (q.strides[0], q.strides[1], q.strides[2], 4))
    made = gqa.explain(strange[:, :8], k, v, handle=own)
    assert made.source == "refused" and "stride" in made.reason
    assert made.nearest.change == "contiguous tensors with memory of their own"


def test_what_python_refuses_is_an_explanation_too(own):
    q, k, v = make_qkv()
    made = gqa.explain(q, k, v, window_size=3, handle=own)
    assert made.source == "refused" and made.reason.startswith("window_size is 3") and made.nearest is None
    assert gqa.explain(q, k[0], v[0], handle=own).reason.startswith("k has 3 dimensions")
    torch = pytest.importorskip("torch", reason="the rest of test_what_python_refuses needs PyTorch")
    wanting = torch.zeros(1, 16, 2, 32, dtype=torch.float16, requires_grad=True)
    assert gqa.explain(wanting, wanting, wanting, handle=own).source == "refused"


def test_too_many_of_scores(own):
    q, k, v = make_qkv()
    made = gqa.explain(
        q, k, v, softcap=1.0, score_scale=np.ones(2, np.float32), bias=np.zeros((1, 1, 1, 16), np.float32), handle=own
    )
    assert made.source == "refused" and made.nearest.change == "score_scale multiplied into q"


@pytest.mark.gpu
def test_on_a_gpu_slow_calls_name_what_is_faster():
    torch = pytest.importorskip("torch", reason="test_on_a_gpu_slow_calls_name_what_is_faster needs PyTorch")
    k, v = (torch.zeros(1, 4096, 8, 128, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    odd = torch.zeros(1, 4096, 32, 129, dtype=torch.bfloat16, device="cuda")[..., :128]
    made = gqa.explain(odd, k, v, causal=True)
    assert made.source != "refused" and "16 bytes" in made.nearest.change
    assert made.nearest.predicted_us < made.evidence["predicted_us"]
    assert gqa.explain(k, k, v, causal=True).nearest is None
