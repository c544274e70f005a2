"""Shared by the Python tests: seeded tensors, a float64 attention to hold results against, a handle of the test's own, arrays
of no known framework.

Tests marked gpu run where PyTorch sees a GPU and are skipped by name elsewhere. Where GQA_REQUIRE_TORCH is set, a test
skipped for want of PyTorch has failed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest

# Before gqa is imported: its shared handles must not touch the user's cache.
_CACHE_FOLDER = tempfile.mkdtemp(prefix="gqa-tests-")
os.chmod(_CACHE_FOLDER, 0o700)
os.environ["GQA_CACHE"] = os.path.join(_CACHE_FOLDER, "cache.db")
os.environ["GQA_IGNORE_LOAD"] = "1"  # other tests run beside these

sys.path.append(os.path.join(os.path.dirname(__file__), ".."))

import gpu_parts  # noqa: E402
import gqa  # noqa: E402

BUDGET = 0.2  # seconds a shape may tune; the shapes here are small
NO_GPU = "needs PyTorch and a CUDA GPU"
REQUIRE_TORCH = bool(os.environ.get("GQA_REQUIRE_TORCH"))


class Producer:
    """Speaks DLPack and is of no known framework; counts its exports."""

    def __init__(self, array, keywords=("stream", "max_version", "dl_device", "copy")):
        self.array, self.keywords, self.exports = array, keywords, 0

    def __dlpack__(self, **keywords):
        unknown = set(keywords) - set(self.keywords)
        if unknown:
            raise TypeError(f"unexpected keywords {unknown}")
        self.exports += 1
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def pytest_sessionfinish():
    shutil.rmtree(_CACHE_FOLDER, ignore_errors=True)


def pytest_addoption(parser):
    parser.addoption("--part", metavar="PART/OF", help="of the tests chosen, those of one part; see tests/gpu_parts.py")


@pytest.hookimpl(trylast=True)  # after -m has chosen
def pytest_collection_modifyitems(config, items):
    if config.getoption("--part"):
        theirs = gpu_parts.part_of([item.nodeid for item in items], config.getoption("--part"))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in theirs])
        items[:] = [item for item in items if item.nodeid in theirs]
    if not any("gpu" in item.keywords for item in items) or _has_gpu():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=f"{item.name} {NO_GPU}"))


def _failed_if_for_want_of_torch(report):
    """The report of a test or a file, whose reason is the last of three where it was skipped."""
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    if REQUIRE_TORCH and re.search(r"torch|gqa\.bench", reason, re.IGNORECASE) and NO_GPU not in reason:
        report.outcome, report.longrepr = "failed", f"GQA_REQUIRE_TORCH is set, and this was skipped: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _failed_if_for_want_of_torch((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _failed_if_for_want_of_torch((yield))


def _has_gpu():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


@pytest.fixture
def handle(tmp_path):
    with gqa.Handle("host", cache_path=tmp_path / "cache.db", tuning_budget=BUDGET) as made:
        yield made


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """One handle for many shapes of one module's kind, so that shapes that repeat are tuned once."""
    path = tmp_path_factory.mktemp("shared") / "cache.db"
    with gqa.Handle("host", cache_path=path, tuning_budget=BUDGET) as made:
        yield made


def make_qkv(batch=1, q_len=16, kv_len=16, q_heads=2, kv_heads=1, head_dim=32, head_dim_v=None, seed=0):
    generator = np.random.default_rng(seed)

    def normal(*shape):
        return generator.standard_normal(shape).astype(np.float16)

    return (
        normal(batch, q_len, q_heads, head_dim),
        normal(batch, kv_len, kv_heads, head_dim),
        normal(batch, kv_len, kv_heads, head_dim_v or head_dim),
    )


def attention_float64(
    q, k, v, causal=False, scale=None, softcap=0, sink=None, window=(-1, -1), score_scale=None, bias=None
):
    """(out, lse) of the naive computation."""
    q, k, v = (np.asarray(x).astype(np.float64) for x in (q, k, v))
    group = q.shape[2] // k.shape[2]
    k, v = (np.repeat(x, group, axis=2) for x in (k, v))
    scores = np.einsum("bihd,bjhd->bhij", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)
    if score_scale is not None:
        scores = scores * np.asarray(score_scale, np.float64)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + np.asarray(bias, np.float64)
    past = np.arange(k.shape[1])[None, :] - (np.arange(q.shape[1]) + k.shape[1] - q.shape[1])[:, None]
    left, right = window[0], 0 if causal else window[1]
    for hidden in (right >= 0) & (past > right), (left >= 0) & (past < -left):
        scores = np.where(hidden, -np.inf, scores)
    with np.errstate(divide="ignore", invalid="ignore"):
        if sink is not None:
            beside = np.broadcast_to(np.asarray(sink)[None, :, None, None], (*scores.shape[:3], 1))
            scores = np.concatenate([scores, beside], -1)
        top = scores.max(-1, keepdims=True)
        weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
        total = weights.sum(-1, keepdims=True)
        lse = np.where(np.isfinite(top), top, 0.0) + np.log(total)
        weights = np.where(total > 0, weights / total, 0.0)
    return np.einsum("bhij,bjhd->bihd", weights[..., : k.shape[1]], v), lse[..., 0]


def check(out, expected, tolerance=4e-3):
    """Half precision in, float32 inside: one rounding of the result and of the weights."""
    out = np.asarray(out).astype(np.float64)
    assert out.shape == expected.shape
    assert np.isfinite(out).all()
    worst = np.unravel_index(np.abs(out - expected).argmax(), out.shape)
    assert abs(out[worst] - expected[worst]) <= tolerance, f"worst at {worst}: {out[worst]}, expected {expected[worst]}"


def run_python(code, seconds=120, **environment):
    """A fresh interpreter; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
