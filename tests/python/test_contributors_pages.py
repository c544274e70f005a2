"""docs/adding-a-kernel.md: the files that a table lists are as many as the text below or above it says, and are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/adding-a-kernel.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
NUMBERS = {"five": 5, "six": 6, "eight": 8, "thirteen": 13}
COUNTED = {
    "A mechanism": None,  # by the table at the page's top
    "A mask kind": r"These are (\w+) files",
    "A key source": r"These are (\w+) files",
    "An element type": r"These are (\w+) files",
    "A finish extra": r"These are (\w+) files",
    "A tensor of a call": r"touches (\w+) files",
}
FILES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("search", "jit", "runtime", "bindings", "tools")
    for path in (ROOT / folder).rglob("*")
    if path.is_file()
]


def listed(section):
    """The files in the first column of the section's table."""
    return [
        name
        for row in re.findall(r"^\| (`.+?) \|", SECTIONS[section], re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", row)
    ]


@pytest.mark.parametrize("section", COUNTED)
def test_files_are_counted(section):
    said = COUNTED[section] and re.search(COUNTED[section], SECTIONS[section])[1]
    count = 5 if said is None else NUMBERS.get(said) or int(said)
    assert len(listed(section)) == count, listed(section)


@pytest.mark.parametrize("section", COUNTED)
def test_files_are_there(section):
    for name in listed(section):
        assert any(path == name or path.endswith("/" + name) for path in FILES), f"{name} is not there"


def test_the_table_at_the_top_says_the_same():
    rows = dict(re.findall(r"^\| (an? [^|]+?) \| ([^|]+?) \|", PAGE, re.MULTILINE))
    assert rows["a mechanism of a family"].startswith("5 of stream-K")
    for section in ("A mask kind", "A key source", "An element type", "A finish extra"):
        change = section[0].lower() + section[1:]
        assert int(rows[change].split(",")[0]) == len(listed(section))


def naming(pattern, *folders):
    """Files of the product whose text has the word."""
    suffixes = {".cc", ".h", ".hpp", ".cuh", ".inc", ".py", ".pyi"}
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    return sorted(str(path.relative_to(ROOT)) for path in files if re.search(pattern, path.read_text()))


def test_a_tensor_of_a_call_is_named_where_it_is_read():
    """And nowhere that only carries it: the table of roles does."""
    assert naming(r"(?i)\b(sinks?|kSink|has_sink|with_sink)\b", "runtime") == [
        "runtime/api/gqa.h",  # the field
        "runtime/call/chain_arrays.h",  # as kernels take it
        "runtime/call/role.h",
        "runtime/call/roles.h",
        "runtime/host/attention/tile_kernel.inc",
        "runtime/verify/reference.cc",
        "runtime/verify/trial_arrays.cc",
    ]
    assert naming(r"\b(seqused_q|q_lengths)\b", "runtime") == [
        "runtime/api/gqa.h",  # the field
        "runtime/call/append_plan.cc",  # as the kernel that appends takes it
        "runtime/call/roles.h",
        "runtime/host/attention/host_appender.cc",
    ]
