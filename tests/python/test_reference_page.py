"""docs/python.md: every signature on it is the code's, and every public name is on it."""

import inspect
import re
from pathlib import Path

import gqa

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
BLOCKS = re.findall(r"^```signature\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SIGNATURES = [" ".join(one.split()) for block in BLOCKS for one in re.split(r"\n(?=gqa\.)", block.strip())]


def signature_of(path):
    found = gqa
    for name in path.split(".")[1:]:
        found = getattr(found, name)
    function = found.__init__ if isinstance(found, type) else found
    signature = inspect.signature(function)
    shown = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    return str(signature.replace(parameters=shown, return_annotation=signature.empty))


def test_signatures_are_the_codes():
    assert len(SIGNATURES) > 30
    for said in SIGNATURES:
        path = said.partition("(")[0]
        assert said == path + signature_of(path)


def test_every_public_name_is_on_the_page():
    missing = [name for name in gqa.__all__ if not re.search(rf"\bgqa\.{name}\b", PAGE)]
    assert missing == []


def test_every_method_of_handles_and_pools_is_on_the_page():
    for kind in (gqa.Handle, gqa.PagePool):
        methods = [name for name, value in vars(kind).items() if inspect.isfunction(value) and name[0] != "_"]
        missing = [name for name in methods if f"gqa.{kind.__name__}.{name}" not in {s.partition("(")[0] for s in SIGNATURES}]
        assert missing == []
