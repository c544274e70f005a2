"""Tensors of any framework as NumPy sees them: their numbers, and their bits.

Never: changes one.
"""

import numpy as np


def host(x):
    """Bits: integers of the elements' size, a copy."""
    if isinstance(x, np.ndarray):
        return np.array(x.view(f"u{x.dtype.itemsize}"))
    import torch

    whole = {2: torch.int16, 4: torch.int32}[x.element_size()]
    bits = x.view(whole).cpu().numpy()
    return np.array(bits.view(f"u{bits.itemsize}"))


def numbers(x):
    """float64, a copy."""
    if isinstance(x, np.ndarray):
        return x.astype(np.float64)
    return x.double().cpu().numpy()


def decoded(bits, kind):
    """The numbers of bits that host() gave."""
    if kind.name == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return bits.view(kind.name).astype(np.float64)
