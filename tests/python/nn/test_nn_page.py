"""docs/integrations.md: the examples of gqa.nn and gqa.mgqa run as they are printed, and the page names what they have."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="test_nn_page.py needs PyTorch")

import gqa.mgqa  # noqa: E402
import gqa.nn  # noqa: E402

PAGE = (Path(__file__).parents[3] / "docs" / "integrations.md").read_text()
SECTIONS = {
    name: re.search(rf"^## {name}\n(.*?)(?=^## )", PAGE, re.DOTALL | re.MULTILINE)[1]
    for name in ("MGQA's names", "Layers")
}


@pytest.mark.parametrize("name", SECTIONS)
def test_examples_as_printed(name, tmp_path):
    examples = re.findall(r"^```python\n(.*?)^```", SECTIONS[name], re.DOTALL | re.MULTILINE)
    assert len(examples) == 1
    program = tmp_path / "example.py"
    program.write_text(examples[0])
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_names():
    for module, section in ((gqa.nn, "Layers"), (gqa.mgqa, "MGQA's names")):
        for name in module.__all__:
            assert re.search(rf"\b{name}\b", SECTIONS[section]), name


@pytest.mark.parametrize("kind", [gqa.nn.GroupedQueryAttention, gqa.nn.Rope, gqa.nn.KVCache])
def test_arguments(kind):
    """Each, but for those that are torch.nn.Module's."""
    for name in inspect.signature(kind).parameters:
        if name not in ("device", "dtype"):
            assert re.search(rf"\b{name}\b", SECTIONS["Layers"]), name
