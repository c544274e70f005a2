"""gqa.mgqa under the package's own names: what imports find once gqa.install_as("mgqa") was called, in a process of its own."""

import pytest

pytest.importorskip("torch", reason="test_mgqa_names.py needs PyTorch")

from conftest import run_python  # noqa: E402


def test_names_of_mgqa():
    run_python("""
import gqa
gqa.install_as("mgqa", metadata=True)
import importlib.util
from importlib.metadata import packages_distributions, version
import mgqa, gqa.mgqa
from mgqa import MGQA, MGQALayers, MGQATransformer, attention
from mgqa.transformer import Decoder
from mgqa.mgqa_triton import attention as same
from mgqa.attention import MGQA as layer, LayerIntermediates
from mgqa import attention as again
assert MGQATransformer is gqa.mgqa.MGQATransformer is mgqa.transformer.MGQATransformer and Decoder is gqa.mgqa.Decoder
assert attention is same is again is mgqa.attention is gqa.mgqa.attention and callable(attention)
assert MGQA is layer is gqa.mgqa.MGQA and MGQALayers is gqa.mgqa.layers.MGQALayers
assert mgqa.__version__ == version("mgqa") == "0.0.5+gqa" and packages_distributions()["mgqa"] == ["mgqa"]
try:
    import mgqa.models
except ModuleNotFoundError as error:
    assert "gqa stands for mgqa in this process" in str(error), error
""")


def test_a_module_comes_before_a_function_of_its_name():
    """`mgqa.attention` is both: who imports from the module first finds the function, too."""
    run_python("""
import gqa
gqa.install_as("mgqa")
from mgqa.attention import MGQA
import mgqa
assert callable(mgqa.attention)
from mgqa import attention
assert attention is gqa.mgqa.attention
""")


def test_gqa_itself_imports_neither():
    run_python("""
import gqa, sys
gqa.install_as("mgqa")
assert not {"torch", "gqa.nn", "gqa.mgqa"} & set(sys.modules)
import gqa.nn
assert "torch" in sys.modules and "gqa.mgqa" not in sys.modules
""")
