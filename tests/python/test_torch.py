"""PyTorch's tensors, on the CPU and (marked gpu) on a GPU's current stream."""

import gqa
import numpy as np
import pytest

from conftest import BUDGET, attention_float64, check, make_qkv

torch = pytest.importorskip("torch", reason="test_torch.py needs PyTorch")


def tensors(dtype=torch.float16, device="cpu", **shape):
    return tuple(torch.from_numpy(x).to(device, dtype) for x in make_qkv(**shape))


def as_numpy(tensor):
    return tensor.detach().float().cpu().numpy()


def expected_of(q, k, v, causal=False):
    return attention_float64(*(as_numpy(x) for x in (q, k, v)), causal)


@pytest.mark.parametrize(
    "dtype,tolerance", [(torch.float32, 2e-6), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)], ids=str
)
def test_torch_gives_torch(shared, dtype, tolerance):
    q, k, v = tensors(dtype, q_len=18, kv_len=25)
    out, lse = shared.attention(q, k, v, causal=True, return_lse=True)
    assert type(out) is torch.Tensor and out.dtype == dtype and out.device == q.device
    assert lse.dtype == torch.float32 and tuple(lse.shape) == (1, 2, 18)
    expected, expected_lse = expected_of(q, k, v, True)
    check(as_numpy(out), expected, tolerance)
    check(as_numpy(lse), expected_lse, tolerance)


def test_heads_first(shared):
    q, k, v = tensors(batch=2, q_heads=4, kv_heads=2)
    first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    check(as_numpy(shared.attention(*first)), expected_of(q, k, v)[0])


def test_out(shared):
    q, k, v = tensors()
    out = torch.full_like(q, float("nan"))
    assert shared.attention(q, k, v, out=out) is out
    check(as_numpy(out), expected_of(q, k, v)[0])


def test_agrees_with_sdpa(shared):
    q, k, v = tensors(q_heads=4, kv_heads=2, q_len=40, kv_len=40)
    ours = shared.attention(q, k, v, causal=True)
    heads_first = [x.transpose(1, 2).float() for x in (q, k, v)]
    theirs = torch.nn.functional.scaled_dot_product_attention(*heads_first, is_causal=True, enable_gqa=True)
    check(as_numpy(ours), as_numpy(theirs.transpose(1, 2)).astype(np.float64))


def test_gradients_are_refused_not_dropped(shared):
    q, k, v = tensors()
    k.requires_grad_()
    with pytest.raises(gqa.GqaValueError, match="no_grad"):
        shared.attention(q, k, v)
    with torch.no_grad():
        check(as_numpy(shared.attention(q, k, v)), expected_of(q, k, v)[0])


@pytest.mark.parametrize("at", [0, 1, 2])
def test_flash_attention_3s_names_refuse_gradients_when_they_are_asked_for(at):
    """As its tests call them: on tensors that require one."""
    given = tensors()
    packed = [tensor[0].clone() for tensor in given]
    starts = torch.tensor([0, 16], dtype=torch.int32)
    calls = {
        lambda: gqa.flash_attn_with_kvcache(*given): given,
        lambda: gqa.flash_attn_varlen_func(*packed, starts, starts, 16, 16): packed,
    }
    for call, inputs in calls.items():
        assert not call().requires_grad
        inputs[at].requires_grad_()
        out = call()
        check(as_numpy(out).reshape(1, 16, 2, 32), expected_of(*given)[0])
        with pytest.raises(NotImplementedError, match="gqa computes no gradients"):
            out.sum().backward()
        with torch.no_grad():
            assert not call().requires_grad


@pytest.mark.parametrize("name", ["sink", "score_scale", "bias"])
def test_a_gradient_of_what_scores_take_is_refused(name):
    q, k, v = tensors()
    wanted = torch.zeros((1, 1, q.shape[1], k.shape[1]) if name == "bias" else q.shape[2]).requires_grad_()
    with pytest.raises(gqa.GqaValueError, match="no_grad"):
        gqa.attention(q, k, v, **{name: wanted})
    out = gqa.flash_attn_with_kvcache(q, k, v, **{name: wanted})
    with pytest.raises(NotImplementedError, match="gqa computes no gradients"):
        out.sum().backward()
    with torch.no_grad():
        assert not gqa.attention(q, k, v, **{name: wanted}).requires_grad


@pytest.mark.parametrize("name", ["k", "v"])
def test_a_gradient_of_what_is_appended_is_refused_when_it_is_asked_for(name):
    q, k, v = tensors()
    new = {"k": k[:, :1].clone(), "v": v[:, :1].clone()}
    new[name].requires_grad_()
    out = gqa.flash_attn_with_kvcache(q, k, v, cache_seqlens=3, **new)
    with pytest.raises(NotImplementedError, match="gqa computes no gradients"):
        out.sum().backward()


def test_an_out_of_the_callers_takes_no_gradient():
    q, k, v = tensors()
    with pytest.raises(gqa.GqaValueError, match="no_grad"):
        gqa.flash_attn_with_kvcache(q.requires_grad_(), k, v, out=torch.empty_like(q))
    with torch.no_grad():
        out = torch.empty_like(q)
        assert gqa.flash_attn_with_kvcache(q, k, v, out=out) is out and not out.requires_grad


class WithoutExchange(torch.Tensor):
    """A subclass that has only capsules, as the tensors of earlier PyTorch."""

    __dlpack_c_exchange_api__ = None


def test_tensors_are_described_without_a_capsule_where_they_can_be(shared, monkeypatch):
    q, k, v = tensors()
    kind = gqa._frameworks.TorchKind(torch)
    without = k.as_subclass(WithoutExchange)
    assert "dltensor" in repr(kind.export(without))
    check(as_numpy(shared.attention(q, without, v)), expected_of(q, k, v)[0])
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this PyTorch has capsules only")
    assert kind.export(q) is q
    monkeypatch.delattr(torch.Tensor, "__dlpack_c_exchange_api__")
    assert "dltensor" in repr(gqa._frameworks.TorchKind(torch).export(q))


def test_what_cannot_be_exported_is_named(shared):
    q, k, v = tensors()
    with pytest.raises(gqa.GqaTypeError, match="k is a sparse tensor"):
        shared.attention(q, k.to_sparse(), v)


def test_parameters_are_tensors(shared):
    q, k, v = tensors()
    parameter = torch.nn.Parameter(q, requires_grad=False)
    assert type(shared.attention(parameter, k, v)) is torch.Tensor


def test_another_device_is_refused(shared):
    q, k, v = (x.to("meta") for x in tensors())
    with pytest.raises(gqa.GqaError) as caught:
        gqa.attention(q, k, v)
    assert caught.value.status == gqa.Status.ERROR_NO_DEVICE and "meta" in str(caught.value)


def test_float64_is_refused(shared):
    q, k, v = tensors(torch.float64)
    with pytest.raises(gqa.GqaTypeError) as caught:
        shared.attention(q, k, v)
    assert caught.value.status == gqa.Status.ERROR_DTYPE


# -------------------------------------------------------------------------------- on a GPU


@pytest.fixture
def cuda_handle(tmp_path):
    with gqa.Handle("cuda:0", cache_path=tmp_path / "cache.db", tuning_budget=10 * BUDGET) as made:
        yield made


@pytest.mark.gpu
@pytest.mark.parametrize("q_len,kv_len,causal", [(64, 64, True), (1, 300, False), (33, 129, True)])
def test_cuda(cuda_handle, q_len, kv_len, causal):
    q, k, v = tensors(device="cuda", q_len=q_len, kv_len=kv_len, head_dim=64, q_heads=4, kv_heads=2)
    out, lse = cuda_handle.attention(q, k, v, causal=causal, return_lse=True)
    expected, expected_lse = expected_of(q, k, v, causal)
    assert out.device == q.device
    check(as_numpy(out), expected)
    check(as_numpy(lse), expected_lse)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_cuda_bias_is_sdpas_mask(dtype):
    q, k, v = tensors(device="cuda", batch=2, q_len=33, kv_len=129, head_dim=64, q_heads=4, kv_heads=4)
    bias = torch.randn(2, 1, 33, 129, device="cuda").to(dtype)
    bias[torch.rand(bias.shape, device="cuda") < 0.2] = -float("inf")
    first = (x.transpose(1, 2).float() for x in (q, k, v))
    right = torch.nn.functional.scaled_dot_product_attention(*first, attn_mask=bias.float()).transpose(1, 2)
    check(as_numpy(gqa.flash_attn_func(q, k, v, bias=bias)), as_numpy(right))
    factors = torch.tensor([0.5, -1.0, 2.0, 1.0], device="cuda")
    out = gqa.flash_attn_func(q, k, v, causal=True, score_scale=factors)
    check(as_numpy(out), expected_of((q.float() * factors[:, None]).to(q.dtype), k, v, True)[0])


@pytest.mark.gpu
def test_cuda_runs_on_the_current_stream(cuda_handle):
    """The inputs are written late on a side stream; a launch on any other stream would read them too early."""
    q, k, v = tensors(device="cuda", q_len=64, kv_len=64)
    cuda_handle.attention(q, k, v)  # tuned, so that the call below only launches
    torch.cuda.synchronize()
    late = [torch.zeros_like(x) for x in (q, k, v)]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        for empty, full in zip(late, (q, k, v)):
            empty.copy_(full)
        out = cuda_handle.attention(*late)
    stream.synchronize()
    check(as_numpy(out), expected_of(q, k, v)[0])


@pytest.mark.gpu
def test_cuda_graph_capture_and_replay(cuda_handle):
    q, k, v = tensors(device="cuda", q_len=1, kv_len=256, head_dim=64)
    out = torch.empty_like(q)
    cuda_handle.attention(q, k, v, out=out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cuda_handle.attention(q, k, v, out=out)
    q.mul_(-1)
    graph.replay()
    torch.cuda.synchronize()
    check(as_numpy(out), expected_of(q, k, v)[0])


@pytest.mark.gpu
def test_capturing_a_new_shape_fails_and_leaves_the_capture_valid(cuda_handle):
    q, k, v = tensors(device="cuda", q_len=5, kv_len=77, head_dim=64)
    out, marker = torch.empty_like(q), torch.zeros(1, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        marker += 1
        with pytest.raises(gqa.GqaError) as caught:
            cuda_handle.attention(q, k, v, out=out)
    assert caught.value.status == gqa.Status.ERROR_CAPTURING
    graph.replay()
    assert marker.item() == 1


@pytest.mark.gpu
def test_host_and_cuda_tensors_do_not_mix(cuda_handle):
    q, k, v = tensors(device="cuda", q_len=4, kv_len=8)
    with pytest.raises(gqa.GqaValueError) as caught:
        cuda_handle.attention(q, k.cpu(), v)
    assert caught.value.status == gqa.Status.ERROR_DEVICE


@pytest.mark.gpu
def test_cupy_gives_cupy(cuda_handle):
    cupy = pytest.importorskip("cupy", reason="test_cupy_gives_cupy needs CuPy")
    q, k, v = (cupy.asarray(x) for x in make_qkv(q_len=20, kv_len=30))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        out, lse = cuda_handle.attention(q, k, v, return_lse=True)
        stream.synchronize()
    assert isinstance(out, cupy.ndarray) and lse.dtype == cupy.float32
    check(cupy.asnumpy(out), attention_float64(*(cupy.asnumpy(x) for x in (q, k, v)))[0])
