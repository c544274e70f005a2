"""PyTorch's operators of gqa: what sees a call (compilers, exporters, tracers, transforms, autocast, the profiler), and that
its numbers are SDPA's."""

import io
import subprocess
import sys

import gqa
import pytest

from conftest import check

torch = pytest.importorskip("torch", reason="test_operators.py needs PyTorch")
pytest.importorskip("gqa.torch", reason="test_operators.py needs PyTorch 2.10")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

OPERATORS = ("attention", "varlen", "kvcache", "kvcache_append", "merge_states")
STARTS = torch.tensor([0, 3, 12, 12], dtype=torch.int32)
GPU = pytest.param("cuda", marks=pytest.mark.gpu)
DEVICES = ["cpu", GPU]


def made(*shape, device="cpu", seed=0, dtype=torch.float16):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(device, dtype)


def qkv(device="cpu", q_len=12, kv_len=20):
    return made(2, q_len, 4, 32, device=device), *(made(2, kv_len, 2, 32, device=device, seed=s) for s in (1, 2))


def sdpa(q, k, v, causal=False):
    """In float32; causal as gqa has it, the last query at the last key."""
    mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1]) if causal else None
    heads_first = [x.detach().float().cpu().transpose(1, 2) for x in (q, k, v)]
    out = torch.nn.functional.scaled_dot_product_attention(*heads_first, attn_mask=mask, enable_gqa=True)
    return out.transpose(1, 2).numpy()


def agrees(out, expected, tolerance=4e-3):
    check(out.detach().float().cpu().numpy(), expected, tolerance)


def nodes_of(graph_module):
    return [str(node.target) for node in graph_module.graph.nodes if node.op == "call_function"]


class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        return gqa.attention(q, k, v, causal=True) * 2


# each of gqa's functions on CPU tensors, as (function of tensors alone, tensors, what it is in SDPA's numbers)


def varlen_case(device="cpu"):
    q, k, v = (made(12, heads, 32, device=device, seed=heads) for heads in (4, 2, 2))
    starts = STARTS.to(device)
    parts = [sdpa(*(x[None, a:b] for x in (q, k, v)), True)[0] for a, b in ((0, 3), (3, 12))]
    expected = torch.cat([torch.from_numpy(part) for part in parts]).numpy()


    def call(q, k, v, starts):
        return gqa.flash_attn_varlen_func(q, k, v, starts, starts, 9, 9, causal=True)

    return call, (q, k, v, starts), expected


def cache_case(device="cpu"):
    q, k, v = qkv(device, q_len=1)
    lengths = torch.full((2,), 17, dtype=torch.int32, device=device)
    expected = sdpa(q, k[:, :17], v[:, :17])
    return lambda q, k, v, lengths: gqa.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths), (q, k, v, lengths), expected


def number_case(device="cpu"):
    q, k, v = qkv(device, q_len=1)
    return lambda q, k, v: gqa.flash_attn_with_kvcache(q, k, v, cache_seqlens=17), (q, k, v), sdpa(q, k[:, :17], v[:, :17])


def attention_case(device="cpu"):
    q, k, v = qkv(device)
    return lambda q, k, v: gqa.attention(q, k, v, causal=True), (q, k, v), sdpa(q, k, v, True)


def flash_case(device="cpu"):
    q, k, v = qkv(device)
    bias = made(1, 1, 12, 20, device=device, dtype=torch.float32)
    heads_first = [x.float().cpu().transpose(1, 2) for x in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*heads_first, attn_mask=bias.cpu(), enable_gqa=True)
    return lambda q, k, v, bias: gqa.flash_attn_func(q, k, v, bias=bias), (q, k, v, bias), expected.transpose(1, 2).numpy()


def merge_case(device="cpu"):
    q, k, v = qkv(device)

    def call(q, k, v):
        parts = [gqa.attention(q, k[:, a:b], v[:, a:b], return_lse=True) for a, b in ((0, 8), (8, 20))]
        return gqa.merge_states(*zip(*parts))[0]

    return call, (q, k, v), sdpa(q, k, v)


CASES = {
    "attention": attention_case,
    "flash": flash_case,
    "varlen": varlen_case,
    "kvcache": cache_case,
    "number": number_case,
    "merge": merge_case,
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
each_device = pytest.mark.parametrize("device", DEVICES)


# ---- compilers, exporters, tracers


@each_device
@each_case
def test_compiled_whole(case, device):
    call, tensors, expected = case(device)
    agrees(torch.compile(call, fullgraph=True, backend="aot_eager")(*tensors), expected)


@pytest.mark.gpu
@each_case
def test_compiled_with_cuda_graphs(case):
    call, tensors, expected = case("cuda")
    call(*tensors)  # warm: nothing is compiled while a stream is captured
    compiled = torch.compile(call, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        out = compiled(*tensors)
    agrees(out, expected)


def test_compiled_by_inductor():
    q, k, v = qkv()
    agrees(torch.compile(Attention(), fullgraph=True)(q, k, v), 2 * sdpa(q, k, v, True), 8e-3)


def test_compiled_for_sizes_that_differ():
    call = torch.compile(lambda q, k, v: gqa.attention(q, k, v), fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (7, 12, 13):
        q, k, v = qkv(q_len=length)
        agrees(call(q, k, v), sdpa(q, k, v))


def test_a_compiled_append_writes_the_cache_in_place():
    q, k, v = qkv(q_len=1)
    new_k, new_v = made(2, 1, 2, 32), made(2, 1, 2, 32, seed=9)
    lengths = torch.full((2,), 5, dtype=torch.int32)

    def call(q, k, v):
        return gqa.flash_attn_with_kvcache(q, k, v, new_k, new_v, cache_seqlens=lengths, causal=True)

    plain_k, plain_v = k.clone(), v.clone()
    expected = call(q, plain_k, plain_v)
    versions = k._version, v._version
    out = torch.compile(call, fullgraph=True, backend="aot_eager")(q, k, v)
    assert torch.equal(out, expected) and torch.equal(k, plain_k) and torch.equal(v, plain_v)
    assert torch.equal(k[:, 5], new_k[:, 0]) and (k._version, v._version) > versions


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "not_strict"])
def test_exported_and_loaded(strict):
    q, k, v = qkv()
    program = torch.export.export(Attention(), (q, k, v), strict=strict)
    assert "gqa.attention.default" in nodes_of(program.graph_module)
    kept = io.BytesIO()
    torch.export.save(program, kept)
    kept.seek(0)
    agrees(torch.export.load(kept).module()(q, k, v), 2 * sdpa(q, k, v, True), 8e-3)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@each_case
def test_traced_by_make_fx(case, mode):
    call, tensors, expected = case()
    traced = make_fx(call, tracing_mode=mode)(*tensors)
    assert any(name.startswith("gqa.") for name in nodes_of(traced)), nodes_of(traced)
    others = [tensor.clone() for tensor in tensors]
    agrees(traced(*others), expected)


@each_case
def test_traced_by_torchscript(case):
    call, tensors, expected = case()
    traced = torch.jit.trace(call, tensors, check_trace=False)
    assert "gqa::" in str(traced.graph)
    agrees(traced(*tensors), expected)


# ---- transforms, gradients


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (1, 0, None), (None, 2, 2)], ids=str)
def test_vmap_of_attention(in_dims):
    q, k, v = qkv()
    tensors = [
        x if dim is None else torch.stack([x * scale for scale in (1, 0.5, 0.25)], dim)
        for x, dim in zip((q, k, v), in_dims)
    ]
    out, lse = torch.vmap(lambda q, k, v: gqa.attention(q, k, v, causal=True, return_lse=True), in_dims)(*tensors)
    assert lse.shape == (3, 2, 4, 12)
    for at in range(3):
        each = [x if dim is None else x.select(dim, at) for x, dim in zip(tensors, in_dims)]
        agrees(out[at], sdpa(*each, True))


@pytest.mark.parametrize("mapped", [True, False], ids=["each", "shared"])
def test_vmap_of_a_bias(mapped):
    q, k, v = (torch.stack([x, 2 * x]) for x in qkv())
    bias = made(2, 2, 1, 12, 20, dtype=torch.float32)
    given, dim = (bias, 0) if mapped else (bias[0], None)
    out = torch.vmap(lambda q, k, v, bias: gqa.flash_attn_func(q, k, v, bias=bias), (0, 0, 0, dim))(q, k, v, given)
    for at in range(2):
        expected = gqa.flash_attn_func(q[at], k[at], v[at], bias=bias[at if mapped else 0])
        agrees(out[at], expected.float().numpy())


def test_other_functions_refuse_vmap():
    call, tensors, _ = varlen_case()
    with pytest.raises(NotImplementedError, match="gqa::varlen has no vmap"):
        torch.vmap(call, (0, 0, 0, None))(*(torch.stack([x, x]) for x in tensors[:3]), tensors[3])


def test_gradients_are_refused_at_the_call_of_a_transform():
    q, k, v = qkv()
    with pytest.raises(gqa.GqaValueError, match="no_grad"):
        torch.func.grad(lambda q: gqa.attention(q, k, v).float().sum())(q)


@each_case
def test_gradients_are_refused_under_a_compiler(case):
    call, tensors, _ = case()
    tensors[0].requires_grad_()
    with pytest.raises(Exception, match="no_grad"):
        torch.compile(call, fullgraph=True, backend="aot_eager")(*tensors)


@pytest.mark.parametrize("name", ["varlen", "kvcache"])
def test_the_operators_of_serving_refuse_a_gradient_when_it_is_asked_for(name):
    call, (q, *others), expected = CASES[name]()
    with torch.profiler.profile():  # through the operator
        out = call(q.requires_grad_(), *others)
    agrees(out, expected)
    with pytest.raises(NotImplementedError, match="gqa computes no gradients"):
        out.float().sum().backward()


@each_case
def test_forward_derivatives_are_refused(case):
    call, (q, *others), _ = case()
    with pytest.raises(NotImplementedError, match="tangent"):
        torch.func.jvp(lambda q: call(q, *others), (q,), (torch.ones_like(q),))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
        with pytest.raises(NotImplementedError, match="tangent"):
            call(dual, *others)


# ---- modes


@each_device
def test_autocast_casts_as_sdpa_does(device):
    q, k, v = (x.float() for x in qkv(device))
    with torch.autocast(device, torch.bfloat16):
        out = gqa.attention(q, k, v)
        theirs = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), enable_gqa=True)
    assert out.dtype == theirs.dtype == torch.bfloat16
    agrees(out, sdpa(q, k, v), 3e-2)


def test_autocast_leaves_a_cache_as_it_is():
    q, k, v = qkv(q_len=1)
    lengths = torch.full((2,), 17, dtype=torch.int32)
    with torch.autocast("cpu", torch.bfloat16):
        out = gqa.flash_attn_with_kvcache(q.float(), k, v, cache_seqlens=lengths)
    assert out.dtype == torch.float16
    agrees(out, sdpa(q, k[:, :17], v[:, :17]))


@pytest.mark.parametrize("name,count", [("attention", 2 * 2 * 4 * 64 * 12 * 20), ("varlen", 2 * 4 * 64 * (9 + 81))])
def test_operations_are_counted(name, count):
    call, tensors, _ = CASES[name]()
    with FlopCounterMode(display=False) as counter:
        call(*tensors)
    assert counter.get_total_flops() == count


@each_case
def test_the_profiler_names_it(case):
    call, tensors, expected = case()
    with torch.profiler.profile() as profiler:
        out = call(*tensors)
    assert any(event.key.startswith("gqa::") for event in profiler.key_averages())
    agrees(out, expected)


def test_a_device_of_everything_made_is_no_matter():
    call, tensors, expected = attention_case()
    with torch.device("cpu"):
        agrees(call(*tensors), expected)


def test_fake_tensors_give_fake_ones():
    q, k, v = qkv()
    with torch._subclasses.FakeTensorMode() as mode:
        fakes = [mode.from_tensor(x) for x in (q, k, v)]
        out, lse = gqa.attention(*fakes, return_lse=True)
    assert out.shape == (2, 12, 4, 32) and lse.shape == (2, 4, 12) and type(out).__name__ == "FakeTensor"


# ---- the operators themselves


def operator_arguments(name):
    q, k, v = qkv(q_len=1)
    lengths = torch.full((2,), 5, dtype=torch.int32)
    if name == "attention":
        return (q, k, v), dict(causal=True, return_lse=True)
    if name == "varlen":
        packed = [made(12, heads, 32, seed=heads) for heads in (4, 2, 2)]
        return packed, dict(cu_seqlens_q=STARTS, cu_seqlens_k=STARTS, max_seqlen_q=9, max_seqlen_k=9)
    if name == "kvcache":
        return (q, k, v), dict(cache_seqlens=lengths, return_lse=True)
    if name == "kvcache_append":
        return (q, k, v, made(2, 1, 2, 32), made(2, 1, 2, 32, seed=9)), dict(cache_seqlens=lengths)
    parts = [gqa.attention(q, k[:, a:b], v[:, a:b], return_lse=True) for a, b in ((0, 8), (8, 20))]
    return tuple(list(each) for each in zip(*parts)), {}


@pytest.mark.parametrize("name", OPERATORS)
def test_opcheck(name):
    args, keywords = operator_arguments(name)
    torch.library.opcheck(getattr(torch.ops.gqa, name).default, tuple(args), keywords)


@pytest.mark.parametrize("name", OPERATORS[:4])
def test_what_is_reserved_is_refused_by_name(name):
    args, keywords = operator_arguments(name)
    for reserved in ("alibi_slopes", "q_descale", "k_descale", "v_descale"):
        with pytest.raises(NotImplementedError, match=f"gqa::{name} was given {reserved}"):
            getattr(torch.ops.gqa, name)(*args, **keywords, **{reserved: torch.ones(4)})


def test_schemas_keep_their_order():
    """Exported programs hold arguments by position: this changes at its end only."""
    assert str(torch.ops.gqa.attention.default._schema) == (
        "gqa::attention(Tensor q, Tensor k, Tensor v, float? scale=None, bool causal=False, SymInt window_left=-1, "
        "SymInt window_right=-1, float softcap=0., bool return_lse=False, Tensor? sink=None, Tensor? score_scale=None, "
        "Tensor? bias=None, Tensor? alibi_slopes=None, Tensor? q_descale=None, Tensor? k_descale=None, "
        "Tensor? v_descale=None, str? door=None) -> (Tensor, Tensor)"
    )
    append = str(torch.ops.gqa.kvcache_append.default._schema)
    assert "Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor k, Tensor v, Tensor? cache_seqlens=None" in append


@pytest.mark.parametrize("given", ["out", "handle"])
def test_what_no_operator_takes_is_refused_under_a_tracer(given, shared):
    q, k, v = qkv()
    value = torch.empty_like(q) if given == "out" else shared
    call = lambda q, k, v: gqa.flash_attn_with_kvcache(q, k, v, **{given: value})  # noqa: E731
    with pytest.raises(gqa.GqaValueError, match=f"{given} is given where PyTorch records"):
        make_fx(call)(q, k, v)
    with torch.profiler.profile():  # no tracer: the library is called
        agrees(call(q, k, v), sdpa(q, k, v))


# ---- where they are defined


def ran(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_they_are_there_once_both_are_imported():
    assert ran("import gqa, sys; print('torch' in sys.modules)") == "False"
    assert ran("import torch, gqa; print(torch.ops.gqa.attention.default.name())") == "gqa::attention"
    after = "import gqa, torch; q = torch.zeros(1, 1, 1, 32, dtype=torch.float16); gqa.attention(q, q, q); "
    assert ran(after + "print(torch.ops.gqa.attention.default.name())") == "gqa::attention"


def test_a_compiler_may_be_the_first_to_meet_a_tensor():
    program = """
import gqa, torch
q = torch.zeros(1, 4, 1, 32, dtype=torch.float16)
print(torch.compile(lambda q: gqa.attention(q, q, q), fullgraph=True, backend="aot_eager")(q).shape[1])
"""
    assert ran(program) == "4"
