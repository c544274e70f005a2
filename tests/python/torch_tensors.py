"""Seeded tensors of PyTorch and the devices that tests run on, for the tests of its doors. Imported once PyTorch is known to
be there."""

import pytest
import torch

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
each_device = pytest.mark.parametrize("device", DEVICES)


def made(*shape, device="cpu", seed=0, dtype=torch.float16):
    """Another for each seed and sum of sizes."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(device, dtype)


def numbers(tensor):
    return tensor.detach().float().cpu().numpy()
