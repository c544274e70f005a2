"""A tensor as the extension takes it, whatever framework it is of.

Owns: that a tensor of another framework than the call's is adopted, and what is said of one that cannot be exported.
Never: copies data. Threads: any.
"""

from __future__ import annotations

from typing import Any

from ._frameworks import KINDS, Kind, adopt, not_exported


def exported(tensor: Any, kind: Kind, stream: int, name: str) -> Any:
    """What _gqa takes for this tensor; kind is the one that leads the call, on its stream."""
    if type(tensor) in kind.as_is:
        return tensor
    own = KINDS.get(type(tensor))
    if own is None:
        tensor = adopt(tensor, name)
        own = KINDS[type(tensor)]
    try:
        return kind.export(tensor) if own is kind else own.export_to(tensor, stream)
    except (BufferError, RuntimeError, TypeError, ValueError) as cause:
        raise not_exported(tensor, name, cause)
