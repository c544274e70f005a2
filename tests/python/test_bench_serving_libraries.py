"""python -m gqa.bench --grid serving: what it hands to other libraries, told by stand-ins of theirs that compute what
their arguments say. No GPU, and none of the libraries.
"""

import sys
import types

import pytest
from gqa.bench.serving_cases import ServingCase

torch = pytest.importorskip("torch", reason="gqa.bench needs PyTorch")

from gqa.bench import serving_inputs, serving_libraries  # noqa: E402  # they import torch

SMALL = dict(mean_len=40, sigma=0.8, q_heads=4, kv_heads=2, head_dim=32, dtype="float16")
CASES = {
    "decode": ServingCase(batch=5, page=16, **SMALL),
    "tokens": ServingCase(batch=3, page=8, q_len=4, **SMALL),
    "packed": ServingCase(batch=4, packed=True, **SMALL),
}
RUNS = {
    "flashinfer": ["decode", "tokens", "packed"],
    "xqa": ["decode"],
    "cudnn": ["decode", "tokens", "packed"],
    "fa3": ["decode", "tokens", "packed"],
    "fa3-planned": ["decode", "tokens"],
    "fa4": ["decode", "tokens", "packed"],
}


def attend(q, starts, keys, values):
    """Rows of all sequences, whose keys and values are (length, kv_heads, d) each; causal, aligned bottom-right."""
    rows = []
    for at, (k, v) in enumerate(zip(keys, values)):
        mine = q[starts[at] : starts[at + 1]].transpose(0, 1).float()
        k, v = (each.transpose(0, 1).float().repeat_interleave(q.shape[1] // each.shape[1], 0) for each in (k, v))
        scores = mine @ k.transpose(1, 2) * q.shape[2] ** -0.5
        own = torch.arange(mine.shape[1])[:, None] + k.shape[1] - mine.shape[1]
        scores.masked_fill_(torch.arange(k.shape[1])[None, :] > own, float("-inf"))
        rows.append((scores.softmax(-1) @ v).transpose(0, 1))
    return torch.cat(rows).to(q.dtype)


def packed(tensor, starts):
    return [tensor[first:last] for first, last in zip(starts[:-1], starts[1:])]


def by_table(pages, table, lengths):
    return [pages[row.long()].flatten(0, 1)[:length] for row, length in zip(table, lengths.flatten())]


def by_list(pages, starts, indices, in_last):
    counts = (starts[1:] - starts[:-1] - 1) * pages.shape[1] + in_last
    return [pages[part.long()].flatten(0, 1)[:n] for part, n in zip(packed(indices, starts), counts)]


# ---- the stand-ins


class Wrapper:
    def __init__(self, workspace, layout, use_tensor_cores=False):
        assert workspace.numel() >= 128 << 20 and layout == "NHD"

    def plan(self, *lists_and_sizes, causal=False, q_data_type):
        self.given, self.causal = lists_and_sizes, causal
        assert q_data_type == torch.float16


class Decode(Wrapper):
    def run(self, q, cache):
        starts, indices, in_last, *sizes = self.given
        assert sizes == [4, 2, 32, cache[0].shape[1]] and q.dim() == 3
        return attend(q, range(len(q) + 1), *(by_list(pages, starts, indices, in_last) for pages in cache))


class Prefill(Wrapper):
    def run(self, q, cache):
        queries, starts, indices, in_last, *sizes = self.given
        assert sizes == [4, 2, 32, cache[0].shape[1]] and self.causal
        return attend(q, queries, *(by_list(pages, starts, indices, in_last) for pages in cache))


class Ragged(Wrapper):
    def run(self, q, k, v):
        queries, starts, *sizes = self.given
        assert sizes == [4, 2, 32] and self.causal
        return attend(q, queries, packed(k, starts), packed(v, starts))


def xqa(q, cache, workspace, table, lengths, longest, bmm1_scale):
    assert longest == table.shape[1] * cache[0].shape[1] and bmm1_scale == 32**-0.5
    return attend(q, range(len(q) + 1), *(by_table(pages, table, lengths) for pages in cache))


def cudnn_decode(q, k, v, scale, workspace, *, max_sequence_kv, actual_seq_lens_kv, block_tables):
    assert k.shape[1] == 2 and max_sequence_kv == block_tables.shape[1] * k.shape[2] and scale == 32**-0.5
    pages = [each.transpose(1, 2) for each in (k, v)]
    return attend(q, range(len(q) + 1), *(by_table(each, block_tables, actual_seq_lens_kv) for each in pages))


def cudnn_prefill(
    q, k, v, scale, workspace, *, max_token_per_sequence, max_sequence_kv, actual_seq_lens_q, actual_seq_lens_kv,
    causal, return_lse, block_tables=None, is_cuda_graph_compatible=False, **offsets,
):  # fmt: skip
    assert causal and not return_lse and max_token_per_sequence == actual_seq_lens_q.max()
    queries = [0, *actual_seq_lens_q.flatten().cumsum(0).tolist()]
    assert max_sequence_kv == (actual_seq_lens_kv.max() if block_tables is None else block_tables.shape[1] * k.shape[2])
    if block_tables is not None:
        pages = [each.transpose(1, 2) for each in (k, v)]
        lists = [by_table(each, block_tables, actual_seq_lens_kv) for each in pages]
    else:
        assert (offsets["batch_offsets_q"] == offsets["batch_offsets_o"]).all()
        assert [at * 4 * 32 for at in queries] == offsets["batch_offsets_q"].tolist()
        lists = [packed(each, offsets[f"batch_offsets_{name}"] // (2 * 32)) for name, each in (("k", k), ("v", v))]
    return attend(q, queries, *lists), None


def flash_attention(
    q, k, v, *, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None, seqused_k=None,
    page_table=None, causal=True,
):  # fmt: skip
    assert causal
    if cu_seqlens_q is not None:
        assert max_seqlen_q == max_seqlen_k == (cu_seqlens_q[1:] - cu_seqlens_q[:-1]).max()
        return attend(q, cu_seqlens_q, packed(k, cu_seqlens_k), packed(v, cu_seqlens_k)), None
    rows = range(0, q.shape[0] * q.shape[1] + 1, q.shape[1])
    lists = (by_table(pages, page_table, seqused_k) for pages in (k, v))
    return attend(q.flatten(0, 1), rows, *lists).unflatten(0, q.shape[:2]), None


def fa3_forward(q, k, v, *, is_causal, scheduler_metadata, num_splits, **lists):
    assert num_splits == (1 if "cu_seqlens_q" in lists else 0)
    assert scheduler_metadata is None or (scheduler_metadata == lists["seqused_k"]).all()
    return flash_attention(q, k, v, causal=is_causal, **lists)


def fa3_plan(batch, q_len, longest, q_heads, kv_heads, d, dv, dtype, lengths, *, page_size, is_causal, num_splits):
    assert (batch, q_heads, kv_heads, d, dv, num_splits) == (len(lengths), 4, 2, 32, 32, 0)
    assert dtype == torch.float16 and longest % page_size == 0 and longest >= lengths.max() and is_causal
    return lengths


@pytest.fixture
def libraries(monkeypatch):
    def module(name, **contents):
        made = types.ModuleType(name)
        made.__dict__.update(contents)
        monkeypatch.setitem(sys.modules, name, made)

    wrappers = {"BatchDecodeWithPagedKVCacheWrapper": Decode, "BatchPrefillWithPagedKVCacheWrapper": Prefill}
    module("flashinfer", BatchPrefillWithRaggedKVCacheWrapper=Ragged, **wrappers)
    module("flashinfer.decode", xqa_batch_decode_with_kv_cache=xqa)
    module("cudnn")
    cudnn = {"cudnn_batch_decode_with_kv_cache": cudnn_decode, "cudnn_batch_prefill_with_kv_cache": cudnn_prefill}
    module("flashinfer.cudnn", **cudnn)
    module("flash_attn_3", __path__=[])
    operators = types.SimpleNamespace(fwd=fa3_forward, get_scheduler_metadata=fa3_plan)
    monkeypatch.setattr(torch.ops, "flash_attn_3", operators, raising=False)
    module("flash_attn.cute", flash_attn_varlen_func=flash_attention)
    serving_libraries._planned.cache_clear()
    return {name: make() for name, make in serving_libraries.known().items()}


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("name", RUNS)
def test_what_a_library_is_given(libraries, name, kind):
    case = CASES[kind]
    inputs = serving_inputs.make_inputs(case, "cpu", 0)
    if kind not in RUNS[name]:
        with pytest.raises(ValueError):
            libraries[name](case, inputs)
        return
    out = libraries[name](case, inputs)()
    assert out.shape == inputs.q.shape
    assert serving_inputs.worst_error(case, inputs, out) < 2e-3


def test_every_library_is_told_here(libraries):
    assert list(libraries) == list(RUNS)
