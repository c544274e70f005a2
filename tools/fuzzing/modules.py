"""Modules that a machine may lack.

Never: imports one at once: that takes seconds, and a process that only counts needs none.
"""

import functools
import importlib
import importlib.util

OPTIONAL = ("torch", "ml_dtypes")


@functools.lru_cache
def has(module):
    return importlib.util.find_spec(module) is not None


def loaded():
    """Those that are there, by their names."""
    return {module: importlib.import_module(module) for module in OPTIONAL if has(module)}
