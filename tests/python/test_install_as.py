"""gqa.install_as, uninstall and `python -m gqa run`: what imports and importlib.metadata find, each in a process of its
own."""

import importlib
import subprocess
import sys
from pathlib import Path

import gqa
import pytest
from gqa._install import PACKAGES

from conftest import run_python


def test_names_of_flash_attn():
    run_python("""
import gqa
gqa.install_as("flash_attn")
gqa.install_as("flash_attn")
import flash_attn, flash_attn.cute, gqa.flash_attn, gqa.flash_attn_cute, importlib.util
from flash_attn import flash_attn_func, flash_attn_with_kvcache
from flash_attn.cute.interface import flash_attn_varlen_func
from flash_attn.flash_attn_interface import flash_attn_varlen_qkvpacked_func
assert flash_attn_func is gqa.flash_attn.flash_attn_func is not gqa.flash_attn_func
assert flash_attn_varlen_func is flash_attn.cute.flash_attn_varlen_func is gqa.flash_attn_cute.flash_attn_varlen_func
assert flash_attn.flash_attn_interface.flash_attn_func is flash_attn_func
assert flash_attn.__name__ == flash_attn.__spec__.name == "flash_attn" and flash_attn.__version__ == "2.8.3+gqa"
assert importlib.util.find_spec("flash_attn") is not None and importlib.util.find_spec("flash_attn.ops") is None
assert importlib.util.find_spec("flash_attn_interface") is None
""")


def test_names_of_flash_attn_interface():
    run_python("""
import gqa
gqa.install_as("flash_attn_interface", metadata=True)
import flash_attn_interface, gqa.flash_attn_interface, importlib.util
from importlib.metadata import packages_distributions, version
assert flash_attn_interface.flash_attn_combine is gqa.flash_attn_interface.flash_attn_combine
assert importlib.util.find_spec("flash_attn") is None
assert version("flash_attn_3") == "3.0.0+gqa" and packages_distributions()["flash_attn_interface"] == ["flash-attn-3"]
""")


def test_names_of_aiter():
    run_python("""
import gqa
gqa.install_as("aiter", metadata=True)
import aiter, gqa.aiter, importlib.util
from aiter import variable_length_attention
from importlib.metadata import packages_distributions, version
assert variable_length_attention is gqa.aiter.variable_length_attention
assert {name: getattr(aiter, name) for name in gqa.aiter.__all__} == {
    name: getattr(gqa.aiter, name) for name in ("flash_attn_func", "flash_attn_with_kvcache", "grouped_query_attention",
                                                "multi_query_attention", "variable_length_attention")}
assert aiter.__name__ == "aiter" and importlib.util.find_spec("aiter.ops") is None
assert version("amd-aiter") == "0.1.20+gqa" and packages_distributions()["aiter"] == ["amd-aiter"]
try:
    from aiter.ops.mha import flash_attn_varlen_func
except ModuleNotFoundError as error:
    assert "gqa stands for aiter in this process" in str(error), error
gqa.uninstall("aiter")
try:
    import aiter
except ModuleNotFoundError as error:
    assert "gqa" not in str(error)
else:
    raise AssertionError("still there")
""")


NEED_TORCH = ("gqa.flash_attn.bert_padding", "gqa.mgqa")


def is_written(module):
    path = Path(gqa.__file__).parents[1].joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_each_name_has_its_module():
    """And what is said where a name is not known says each."""
    for name, package in PACKAGES.items():
        assert package.modules[name] and package.version.endswith("+gqa") and name in gqa.install_as.__doc__
        for source in package.modules.values():
            assert is_written(source)
            assert source.startswith(NEED_TORCH) or importlib.import_module(source)
        with pytest.raises(gqa.GqaValueError, match=f"name is 'xformers'; expected .*'{name}'"):
            gqa.install_as("xformers")


def test_what_is_lacking_is_no_module():
    said = run_python("""
import gqa
gqa.install_as("flash_attn")
try:
    import flash_attn.ops.triton.rotary
except ModuleNotFoundError as error:
    print(error.name, error)
try:
    from flash_attn.layers.rotary import apply_rotary_emb
except ImportError:
    print("fell back")
try:
    from flash_attn import losses
except ImportError as error:
    print(error)
""").splitlines()
    assert said[0].startswith(
        "flash_attn.ops No module named 'flash_attn.ops': gqa stands for flash_attn in this process"
    )
    assert said[1] == "fell back"
    assert "cannot import name 'losses' from 'flash_attn'" in said[2]


def test_metadata_where_it_is_asked_for():
    run_python("""
import gqa, importlib.metadata as metadata
def versions():
    found = []
    for name in ("flash-attn", "flash_attn", "Flash.Attn"):
        try:
            found.append(metadata.version(name))
        except metadata.PackageNotFoundError:
            found.append(None)
    return found
gqa.install_as("flash_attn")
assert versions() == [None] * 3 and "flash_attn" not in metadata.packages_distributions()
gqa.install_as("flash_attn", metadata=True)
assert versions() == ["2.8.3+gqa"] * 3
assert metadata.packages_distributions()["flash_attn"] == ["flash-attn"]
assert metadata.metadata("flash-attn")["Name"] == "flash-attn" and metadata.files("flash-attn") is None
assert metadata.version("gqa") and "flash-attn" in [d.metadata["Name"] for d in metadata.distributions()]
gqa.uninstall("flash_attn")
assert versions() == [None] * 3 and "flash_attn" not in metadata.packages_distributions()
""")


def test_uninstall():
    run_python("""
import gqa, sys
before = list(sys.meta_path)
gqa.uninstall()
gqa.install_as("flash_attn")
gqa.install_as("flash_attn_interface")
import flash_attn.cute, flash_attn_interface
from flash_attn import flash_attn_func
gqa.uninstall("flash_attn")
assert not [name for name in sys.modules if name.partition(".")[0] == "flash_attn"]
try:
    import flash_attn.cute
except ModuleNotFoundError as error:
    assert "gqa" not in str(error)
else:
    raise AssertionError("still there")
import flash_attn_interface
gqa.uninstall()
assert "flash_attn_interface" not in sys.modules and sys.meta_path == before
gqa.install_as("flash_attn")
import flash_attn
assert flash_attn.flash_attn_func is flash_attn_func
""")


INSTALLED = """
import sys
sys.path.insert(0, {folder!r})
import gqa
try:
    gqa.install_as("flash_attn")
except gqa.GqaValueError as error:
    assert "a package flash_attn is installed or imported already; expected none" in str(error), error
else:
    raise AssertionError("it went over a package")
import flash_attn, flash_attn.own
first, own = flash_attn, flash_attn.own
assert first.OWN
gqa.install_as("flash_attn", replace=True)
import flash_attn as ours
assert ours.flash_attn_func and ours is not first
try:
    import flash_attn.own
except ModuleNotFoundError:
    pass
else:
    raise AssertionError("a part of the other package is left")
gqa.uninstall()
import flash_attn as again, flash_attn.own as own_again
assert again is first and own_again is own
"""


def test_an_installed_package_stays(tmp_path):
    (tmp_path / "flash_attn").mkdir()
    (tmp_path / "flash_attn" / "__init__.py").write_text("OWN = True\n")
    (tmp_path / "flash_attn" / "own.py").write_text("")
    run_python(INSTALLED.format(folder=str(tmp_path)))


@pytest.mark.parametrize("asking", ["transformers", "diffusers"])
def test_metadata_comes_before_those_who_ask(asking):
    run_python(f"""
import sys, types, gqa
gqa.install_as("flash_attn_interface", metadata=True)
sys.modules[{asking!r}] = types.ModuleType({asking!r})
gqa.install_as("flash_attn_interface", metadata=True)  # it answers already
gqa.install_as("flash_attn")
gqa.uninstall("flash_attn")
try:
    gqa.install_as("flash_attn", metadata=True)
except gqa.GqaValueError as error:
    assert "expected before `import {asking}`" in str(error), error
else:
    raise AssertionError("not refused")
try:
    import flash_attn
except ModuleNotFoundError:
    pass
else:
    raise AssertionError("a refused call installed something")
""")


def test_what_is_no_name_is_refused():
    with pytest.raises(gqa.GqaValueError, match="name is 'xformers'; expected 'flash_attn' or 'flash_attn_interface'"):
        gqa.install_as("xformers")
    with pytest.raises(gqa.GqaTypeError, match="name is None"):
        gqa.install_as(None)
    with pytest.raises(gqa.GqaValueError, match="name is 'torch'"):
        gqa.uninstall("torch")
    with pytest.raises(gqa.GqaTypeError, match="metadata is 'yes'; expected True or False"):
        gqa.install_as("flash_attn", metadata="yes")


def test_installing_imports_no_framework():
    run_python("""
import gqa, sys
gqa.install_as("flash_attn", metadata=True)
gqa.install_as("flash_attn_interface")
gqa.install_as("aiter")
import aiter, flash_attn, flash_attn.cute, flash_attn_interface
assert not {"torch", "numpy", "cupy"} & set(sys.modules)
""")


# ---- python -m gqa run


def run(*arguments, cwd=None):
    command = [sys.executable, "-m", "gqa", "run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


SCRIPT = """
import importlib.metadata, sys
from flash_attn import flash_attn_func
import beside
assert __name__ == "__main__"
try:
    version = importlib.metadata.version("flash-attn")
except importlib.metadata.PackageNotFoundError:
    version = None
print(flash_attn_func.__module__, version, sys.argv[1:], beside.__name__)
sys.exit(3)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("")
    return tmp_path


def test_run_a_script(folder):
    """Its arguments, its folder and its exit code are as Python's own."""
    code, said, errors = run("--as", "flash_attn", str(folder / "program.py"), "--as", "x", "-m", cwd="/")
    assert (code, said) == (3, "gqa.flash_attn.flash_attn_interface None ['--as', 'x', '-m'] beside\n"), errors


def test_run_a_module(folder):
    code, said, errors = run("--as=flash_attn", "--metadata", "-m", "program", "a", cwd=folder)
    assert (code, said) == (3, "gqa.flash_attn.flash_attn_interface 2.8.3+gqa ['a'] beside\n"), errors


def test_run_with_several_names(folder):
    (folder / "both.py").write_text("import flash_attn, flash_attn_interface\nprint(flash_attn_interface.__name__)\n")
    assert run("--as", "flash_attn", "--as", "flash_attn_interface", "both.py", cwd=folder)[:2] == (
        0,
        "flash_attn_interface\n",
    )


def test_run_of_aiter(folder):
    (folder / "attends.py").write_text("from aiter import flash_attn_func\nprint(flash_attn_func.__module__)\n")
    assert run("--as", "aiter", "attends.py", cwd=folder)[:2] == (0, "gqa.aiter\n")


def test_run_over_a_package(folder):
    (folder / "flash_attn.py").write_text("flash_attn_func = print\n")
    for program, cwd in ((["-m", "program"], folder), ([str(folder / "program.py")], "/")):
        code, said, errors = run("--as", "flash_attn", *program, cwd=cwd)
        assert code == 2 and said == "" and "a package flash_attn is installed or imported already" in errors
    code, said, errors = run("--as", "flash_attn", "--replace", "-m", "program", cwd=folder)
    assert code == 3 and said.startswith("gqa.flash_attn"), errors


def test_an_exception_is_the_programs(folder):
    (folder / "fails.py").write_text("raise LookupError('its own')\n")
    code, said, errors = run("--as", "flash_attn", "fails.py", cwd=folder)
    assert code == 1 and errors.rstrip().endswith("LookupError: its own")


@pytest.mark.parametrize(
    "arguments,why",
    [
        ([], "expected --as NAME"),
        (["program.py"], "expected --as NAME"),
        (["--as"], "--as is given without a name"),
        (["--as", "flash_attn"], "expected a script, or -m MODULE"),
        (["--as", "flash_attn", "-m"], "-m is given without a module"),
        (["--as", "flash", "program.py"], "name is 'flash'; expected 'flash_attn' or"),
        (["--ass", "flash_attn", "program.py"], "unknown option --ass"),
        (["--as", "flash_attn", "missing.py"], "there is no script missing.py"),
    ],
)
def test_a_wrong_command_line(folder, arguments, why):
    code, said, errors = run(*arguments, cwd=folder)
    assert (code, said) == (2, "")
    assert errors.startswith(f"python -m gqa run: error: {why}") and "usage: python -m gqa run --as NAME" in errors


def test_help():
    code, said, errors = run("--help")
    assert (code, errors) == (0, "") and said.startswith("usage: python -m gqa run --as NAME")
    assert all(name in said for name in PACKAGES)
