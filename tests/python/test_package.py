"""The package as installed: its files, its types, its command, its overhead."""

import ast
import importlib.metadata
import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import gqa
import numpy as np
import pytest
from gqa import _gqa

from conftest import make_qkv, run_python

PACKAGE = Path(gqa.__file__).parent


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", gqa.version()) and gqa.__version__ == gqa.version()
    assert importlib.metadata.version("gqa") == gqa.__version__, "the package's metadata"
    with open(PACKAGE / "include" / "gqa.h") as header:
        parts = re.findall(r"^#define GQA_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header.read(), re.MULTILINE)
    assert ".".join(parts) == gqa.__version__, "the header in the package"


def test_files():
    assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_gqa.pyi").exists()
    library = PACKAGE / "libgqa.so.0"
    assert library.is_file() and library.stat().st_size < 8 << 20  # tools/package's has SQLite and others inside
    for header in ("gqa.h", "gqa_graph.h", "gqa.hpp", "gqa_graph.hpp", "gqa_operators.hpp"):
        text = (PACKAGE / "include" / header).read_text()
        for included in re.findall(r'^#include "(.*)"', text, re.MULTILINE):
            assert (PACKAGE / "include" / included).is_file(), f"{header} includes {included}"


OTHER = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
try:
    import gqa
except ImportError as error:
    print(error)
else:
    print("imported", gqa.__version__, gqa.Handle("host", cache_mode="off").device)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="test_a_library_that_was_there_before needs a C compiler")
@pytest.mark.parametrize("other", ("older", "without functions", "of this version"))
def test_a_library_that_was_there_before(other, tmp_path):
    library = tmp_path / "libgqa.so.0"
    if other == "of this version":
        shutil.copy(PACKAGE / "libgqa.so.0", library)
    else:
        names = ["gqa_version"] if other == "without functions" else exported(PACKAGE / "libgqa.so.0")
        (tmp_path / "old.c").write_text("".join(f"int {name}(void) {{ return 100; }}\n" for name in names))
        (tmp_path / "old.map").write_text("GQA_0 { global: gqa_*; };\n")
        options = ["-Wl,-soname,libgqa.so.0", f"-Wl,--version-script={tmp_path / 'old.map'}"]
        subprocess.run(["cc", "-shared", "-fPIC", *options, tmp_path / "old.c", "-o", library], check=True)
    told = subprocess.run([sys.executable, "-c", OTHER, library], capture_output=True, text=True, check=True).stdout
    if other == "of this version":
        assert told == f"imported {gqa.__version__} host\n"
        return
    assert f"had loaded {library} before gqa" in told and "import gqa before" in told
    assert ("whose version is 100" if other == "older" else "undefined symbol") in told


def exported(library):
    """The functions of C that a library has."""
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return sorted(set(re.findall(r" T (gqa_\w+)", listed)))


def test_the_extras_of_cuda_go_with_what_else_pins_nvrtc():
    """PyTorch's wheels pin one of CUDA 13's; a narrower bound here than all of them has no solution beside it."""
    from packaging.requirements import Requirement

    wanted = [r for r in map(Requirement, importlib.metadata.requires("gqa")) if "nvrtc" in r.name]
    for extra, name, within, beyond in (
        ("cuda", "nvidia-cuda-nvrtc", ("13.0.48", "13.0.88", "13.2.86", "13.5.37"), "14.0.0"),
        ("cuda13", "nvidia-cuda-nvrtc", ("13.0.48", "13.0.88", "13.2.86", "13.5.37"), "14.0.0"),
        ("cuda12", "nvidia-cuda-nvrtc-cu12", ("12.4.127", "12.6.77", "12.8.93", "12.9.86"), "13.0.48"),
    ):
        (nvrtc,) = [r for r in wanted if r.marker.evaluate({"extra": extra})]
        assert nvrtc.name == name
        for version in within:
            assert version in nvrtc.specifier, version
        assert beyond not in nvrtc.specifier, "nobody has seen it"
    assert not [r.name for r in wanted if r.marker.evaluate({"extra": ""})]


def test_the_extension_finds_the_library_beside_it():
    """From another folder and with no search path set, it is the package's libgqa.so.0 that is mapped."""
    told = run_python(
        "import os; os.chdir('/')\n"
        "import gqa\n"
        "print(*{line.split()[-1] for line in open('/proc/self/maps') if 'libgqa' in line})\n",
        LD_LIBRARY_PATH="",
    )
    assert told.split() == [str((PACKAGE / "libgqa.so.0").resolve())]


@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm")
def test_the_extension_exports_its_entry_alone():
    """Whatever C++ library is linked in: one that is exported takes the place of PyTorch's, and its import crashes."""
    listed = subprocess.run(["nm", "-D", "--defined-only", _gqa.__file__], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["PyInit__gqa"]


def test_importing_imports_no_framework():
    told = run_python("import sys, gqa; print(*({'numpy', 'torch', 'cupy'} & set(sys.modules)))")
    assert told.strip() == ""


def test_the_stub_names_what_the_extension_has():
    stub = ast.parse((PACKAGE / "_gqa.pyi").read_text())
    defined = {node.name for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert defined == {name for name in vars(_gqa) if not name.startswith("_")}
    for node in (n for n in stub.body if isinstance(n, ast.ClassDef)):
        methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        public = {name for name in vars(getattr(_gqa, node.name)) if not name.startswith("_")}
        assert public == {name for name in methods if not name.startswith("_")}
        assert all(hasattr(getattr(_gqa, node.name), name) for name in methods)


def test_public_functions_are_annotated():
    functions = [gqa.attention, gqa.flash_attn_func, gqa.warm, gqa.warm_serving, gqa.version, gqa.Handle.__init__, gqa.new_kernel_graph]
    functions.append(gqa.merge_states)
    for kind in (gqa.KernelGraph, gqa.Value, gqa.Optimized, gqa.PagePool):
        functions += [f for name, f in vars(kind).items() if inspect.isfunction(f) and not name.startswith("_")]
    for function in functions:
        signature = inspect.signature(function)
        unsaid = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name != "self"]
        assert unsaid == [] and signature.return_annotation is not signature.empty


def test_types_check(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("test_types_check needs mypy")
    use = tmp_path / "use.py"
    use.write_text(
        "import gqa\nout = gqa.attention(1, 2, 3, causal='yes')\nhandle: int = gqa.Handle()\n"
        "graph = gqa.new_kernel_graph()\nx = graph.new_input((2, 3), gqa.float16)\n"
        "y: gqa.Value = 2 * graph.exp(x @ x) + x / 3\ngraph.exp(2.0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "mypy"), str(use)], capture_output=True, text=True
    )
    found = re.findall(r"use\.py:(\d+): error", done.stdout)
    assert found == ["2", "3", "7"], done.stdout + done.stderr


def test_the_command():
    command = Path(sysconfig.get_path("scripts")) / "gqa-cache"
    assert command.is_file(), f"{command} was not installed"
    done = subprocess.run(
        [command, "--help"], capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": ""}
    )
    assert done.returncode == 0 and "warm" in done.stdout, done.stderr


def test_overhead():
    """Python's part of a small call: gqa.attention against the extension's run alone, best of many."""
    q, k, v = make_qkv(q_len=1, kv_len=1, q_heads=1)
    out = np.empty_like(q)
    core = gqa._defaults.core_of("host")
    gqa.attention(q, k, v, out=out)

    def best_us(call):
        best = float("inf")
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(200):
                call()
            best = min(best, (time.perf_counter() - start) / 200)
        return best * 1e6

    whole = best_us(lambda: gqa.attention(q, k, v, out=out))
    inner = best_us(lambda: core.run(q, k, v, out, None, 0.0, False, 0))
    assert whole - inner < 10.0, f"gqa.attention takes {whole:.1f} us, of which the extension {inner:.1f} us"
