"""The table of a call's tensors (runtime/call/roles.h) is what Python hands over: the extension's arguments, their stub and
PyTorch's operators have each of its fields.

Never: calls the library.
"""

import ast
import re
from pathlib import Path

from gqa import _arguments, _options

ROOT = Path(__file__).resolve().parents[2]
ROLES = (ROOT / "runtime/call/roles.h").read_text()
CALL = (ROOT / "bindings/python/src/call.cc").read_text()
WRITTEN = {field for field, access in re.findall(r"gqa_call, (\w+)\), .*, k(Read|Write|Append),", ROLES) if access == "Write"}
FIELDS = dict(re.findall(r'offsetof\(gqa_call, (\w+)\), "(\w+)"', ROLES))
APPENDED = {name for name, row in re.findall(r'offsetof\(gqa_call, (\w+)\), "\w+", (Group::\w+)', ROLES) if "Appended" in row}


def run_arguments():
    stub = ast.parse((ROOT / "bindings/python/gqa/_gqa.pyi").read_text())
    handle = next(node for node in stub.body if isinstance(node, ast.ClassDef) and node.name == "Handle")
    run = next(node for node in handle.body if isinstance(node, ast.FunctionDef) and node.name == "run")
    return [argument.arg for argument in run.args.posonlyargs][1:]


def snake(name):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def test_the_table_is_read():
    assert len(FIELDS) > 10 and set(FIELDS) == set(FIELDS.values()), FIELDS
    assert WRITTEN == {"lse"} and {"k_new", "cache_leftpad"} < APPENDED


def test_the_extension_takes_each_field():
    taken = re.findall(r'Field\{\w+, "(\w+)", &gqa_call::(\w+)(, true)?\}', CALL)
    assert sorted(field for _, field, _ in taken) == sorted(FIELDS)
    assert all(name == field for name, field, _ in taken)
    assert {field for _, field, written in taken if written} == WRITTEN


def test_the_stub_names_the_arguments_in_the_extension_s_order():
    order = re.search(r"enum At : Py_ssize_t \{(.*?)\bkArguments", CALL, re.DOTALL)[1]
    assert [snake(name) for name in re.findall(r"\bk(\w+)", order)] == run_arguments()
    named = set(re.findall(r'Field\{kArrays, "(\w+)"', CALL))
    assert named == {"score_scale", "bias"}
    assert set(FIELDS) == (set(run_arguments()) & set(FIELDS)) | set(_options.Append._fields) & set(FIELDS) | named
    assert APPENDED == set(_options.Append._fields) & set(FIELDS)


def test_pytorch_s_operators_have_each_field():
    ours = {"lse": "return_lse", "k_new": "k", "v_new": "v"}
    names = {argument.name for operator in _arguments._ALL for argument in _arguments.arguments_of(operator)}
    assert {ours.get(field, field) for field in FIELDS} <= names
