"""What a hit of flash_attn_with_kvcache on torch tensors costs the CPU in all: at most 20 us, or where the processor is slow
for the moment, eleven of PyTorch's smallest calls. Prints what it is."""

import statistics
import time

import gqa
import pytest

torch = pytest.importorskip("torch", reason="test_hit.py needs PyTorch")

MOST_US = 20
MOST_CALLS = 11  # of new_empty, which takes 1.8 us then; 7.6 to 9.7 were seen, of calls of 19 to 40 us


def decode(device, handle):
    """A decode step on a paged cache that has no keys yet: what is left is the call."""
    q = torch.zeros(1, 1, 1, 32, dtype=torch.bfloat16, device=device)
    k, v = (torch.zeros(4, 16, 1, 32, dtype=torch.bfloat16, device=device) for _ in range(2))
    lists = dict(
        cache_seqlens=torch.zeros(1, dtype=torch.int32, device=device),
        page_table=torch.zeros(1, 4, dtype=torch.int32, device=device),
    )
    return lambda: gqa.flash_attn_with_kvcache(q, k, v, **lists, causal=True, handle=handle)


def us_of(call, calls=200):
    start = time.thread_time()
    for _ in range(calls):
        call()
    return (time.thread_time() - start) / calls * 1e6


def best_us(call, wait):
    call()
    best = float("inf")
    for _ in range(30):
        wait()
        best = min(best, us_of(call))
    return best


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
def test_on_the_cpu(grad, tmp_path, capsys):
    """A processor that others share changes its pace from one second to the next: each round is compared with its own."""
    smallest = torch.zeros(1, dtype=torch.bfloat16)
    with gqa.Handle("host", cache_path=tmp_path / "c.db", tuning="guess", threads=1) as handle:
        with torch.set_grad_enabled(grad):
            call = decode("cpu", handle)
            call()
            rounds = [(us_of(call, 20), us_of(lambda: smallest.new_empty((1,)), 20)) for _ in range(400)]
    took = min(hit for hit, _ in rounds)
    calls = statistics.median(hit / small for hit, small in rounds)
    with capsys.disabled():
        print(f"\na hit on the CPU, kernel included: {took:.1f} us, {calls:.1f} times new_empty")
    assert took < MOST_US or calls < MOST_CALLS


@pytest.mark.gpu
@pytest.mark.times_cpu
def test_on_a_gpu(capsys):
    """The kernel takes less than the call, so that no call waits for room in the queue."""
    with gqa.Handle("cuda:0", cache_mode="off", tuning="guess") as handle, torch.inference_mode():
        took = best_us(decode("cuda", handle), torch.cuda.synchronize)
    with capsys.disabled():
        print(f"\na hit on a GPU, launch included: {took:.1f} us of CPU")
    assert took < MOST_US
