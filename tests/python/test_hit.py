"""What a hit of flash_attn_with_kvcache on torch tensors costs the CPU in all: at most 20 us. Prints what it is."""

import time

import gqa
import pytest

torch = pytest.importorskip("torch", reason="test_hit.py needs PyTorch")

MOST_US = 20


def decode(device, handle):
    """A decode step on a paged cache that has no keys yet: what is left is the call."""
    q = torch.zeros(1, 1, 1, 32, dtype=torch.bfloat16, device=device)
    k, v = (torch.zeros(4, 16, 1, 32, dtype=torch.bfloat16, device=device) for _ in range(2))
    lists = dict(
        cache_seqlens=torch.zeros(1, dtype=torch.int32, device=device),
        page_table=torch.zeros(1, 4, dtype=torch.int32, device=device),
    )
    return lambda: gqa.flash_attn_with_kvcache(q, k, v, **lists, causal=True, handle=handle)


def best_us(call, wait=lambda: None, rounds=30, calls=200):
    best = float("inf")
    call()
    for _ in range(rounds):
        wait()
        start = time.thread_time()
        for _ in range(calls):
            call()
        best = min(best, (time.thread_time() - start) / calls)
    return best * 1e6


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
def test_on_the_cpu(grad, tmp_path, capsys):
    with gqa.Handle("host", cache_path=tmp_path / "c.db", tuning="guess", threads=1) as handle:
        with torch.set_grad_enabled(grad):
            call = decode("cpu", handle)
            took = best_us(call)
            for _ in range(5):  # a processor that others share has slow minutes: the best of a few tells what the call costs
                if took < MOST_US:
                    break
                time.sleep(3)
                took = min(took, best_us(call))
    with capsys.disabled():
        print(f"\na hit on the CPU, kernel included: {took:.1f} us")
    assert took < MOST_US


@pytest.mark.gpu
@pytest.mark.times_cpu
def test_on_a_gpu(capsys):
    """The kernel takes less than the call, so that no call waits for room in the queue."""
    with gqa.Handle("cuda:0", cache_mode="off", tuning="guess") as handle, torch.inference_mode():
        took = best_us(decode("cuda", handle), torch.cuda.synchronize)
    with capsys.disabled():
        print(f"\na hit on a GPU, launch included: {took:.1f} us of CPU")
    assert took < MOST_US
