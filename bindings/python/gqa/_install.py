"""install_as: gqa's functions under other packages' module names, for programs that import those by name.

Owns: which module stands for which name, the finder of modules and of package metadata that answers for them, and what
it displaced. All is of this process alone: nothing is written. Never: imports torch by itself. Threads: any;
installing locks.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import threading
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Dict, Iterator, NamedTuple, Optional

from ._errors import Status, error_for
from ._kinds import flag, shown


class _Package(NamedTuple):
    modules: Dict[str, str]  # a name, and the module of gqa's that stands for it
    distribution: str  # what importlib.metadata calls it
    version: str


PACKAGES = {  # by name: all that install_as, uninstall and `python -m gqa run` know of them
    "flash_attn": _Package(
        {
            "flash_attn": "gqa.flash_attn",
            "flash_attn.flash_attn_interface": "gqa.flash_attn.flash_attn_interface",
            "flash_attn.bert_padding": "gqa.flash_attn.bert_padding",
            "flash_attn.cute": "gqa.flash_attn_cute",
            "flash_attn.cute.interface": "gqa.flash_attn_cute",
        },
        "flash-attn",
        "2.8.3+gqa",
    ),
    "flash_attn_interface": _Package({"flash_attn_interface": "gqa.flash_attn_interface"}, "flash-attn-3", "3.0.0+gqa"),
    "aiter": _Package({"aiter": "gqa.aiter"}, "amd-aiter", "0.1.20+gqa"),
    "mgqa": _Package(
        {
            "mgqa": "gqa.mgqa",
            "mgqa.attention": "gqa.mgqa.layers",
            "mgqa.mgqa_triton": "gqa.mgqa.mgqa_triton",
            "mgqa.transformer": "gqa.mgqa.transformer",
        },
        "mgqa",
        "0.0.5+gqa",
    ),
    "mirage": _Package({"mirage": "gqa.mirage"}, "mirage-project", "0.2.4+gqa"),
    "yirage": _Package({"yirage": "gqa.mirage"}, "yirage", "0.2.4+gqa"),
}
_BEFORE = ("transformers", "diffusers")  # which ask for packages once, as they are imported


class _Installed:
    """One name's, from install_as to uninstall."""

    def __init__(self, package: _Package, displaced: Dict[str, ModuleType]) -> None:
        self.package, self.displaced, self.metadata = package, displaced, False


_installed: Dict[str, _Installed] = {}
_lock = threading.Lock()


def install_as(name: str, metadata: bool = False, *, replace: bool = False) -> None:
    """Makes `import flash_attn` find gqa's functions, in this process:

        gqa.install_as("flash_attn")
        from flash_attn import flash_attn_func          # gqa.flash_attn's
        from flash_attn.bert_padding import pad_input

    name: "flash_attn" (FlashAttention-2's functions, with .flash_attn_interface, .bert_padding and .cute,
    FlashAttention-4's), "flash_attn_interface" (FlashAttention-3's), "aiter" (gqa.aiter, AITER's), "mgqa" (gqa.mgqa,
    MGQA's, with .transformer, .attention and .mgqa_triton), or "mirage" and "yirage" (gqa.mirage, Mirage's). Other
    modules of these packages raise ModuleNotFoundError, so that a program that tries them falls back.
    metadata: importlib.metadata answers too, as flash-attn 2.8.3+gqa (flash-attn-3 3.0.0+gqa, amd-aiter 0.1.20+gqa,
    mgqa 0.0.5+gqa, mirage-project and yirage 0.2.4+gqa): libraries that ask it take the package for installed. They
    ask as they are imported: refused once transformers or diffusers is.
    replace: also over a package of that name that is installed or imported; without it that is refused.
    Raises GqaValueError or GqaTypeError. uninstall() takes it back.
    """
    package = _package("name", name)
    metadata, replace = flag("metadata", metadata), flag("replace", replace)
    late = [asking for asking in _BEFORE if metadata and asking in sys.modules]
    with _lock:
        installed = _installed.get(name)
        if late and not (installed and installed.metadata):
            raise error_for(
                Status.ERROR_OPTION,
                f"install_as({name!r}, metadata=True) comes after {late[0]} is imported, which has asked for packages "
                f"already; expected before `import {late[0]}`",
            )
        if installed is None:
            if not replace and _is_there(name):
                raise error_for(
                    Status.ERROR_OPTION,
                    f"a package {name} is installed or imported already; expected none: uninstall it, or give "
                    "replace=True to have gqa's functions instead of it in this process",
                )
            installed = _installed[name] = _Installed(package, _taken_out(name))
        installed.metadata = installed.metadata or metadata
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
        importlib.invalidate_caches()


def uninstall(name: Optional[str] = None) -> None:
    """Takes back install_as(name), or all of them: imports find again what they found before. Functions that a program
    has imported stay gqa's. Nothing happens where nothing is installed."""
    names = list(PACKAGES) if name is None else [name]
    if name is not None:
        _package("name", name)
    with _lock:
        for each in names:
            installed = _installed.pop(each, None)
            if installed is not None:
                _taken_out(each)
                sys.modules.update(installed.displaced)
        if not _installed and _finder in sys.meta_path:
            sys.meta_path.remove(_finder)


def _package(argument: str, name: Any) -> _Package:
    package = PACKAGES.get(name) if isinstance(name, str) else None
    if package is None:
        raise error_for(
            Status.ERROR_OPTION if isinstance(name, str) else Status.ERROR_DTYPE,
            f"{argument} is {shown(name)}; expected {' or '.join(map(repr, PACKAGES))}",
        )
    return package


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return True
    return importlib.util.find_spec(name) is not None


def _taken_out(name: str) -> Dict[str, ModuleType]:
    """The modules of that package that are imported, which no longer are."""
    modules = [module for module in sys.modules if module == name or module.startswith(f"{name}.")]
    return {module: sys.modules.pop(module) for module in modules}


# ---- modules

_OWN = ("__name__", "__loader__", "__package__", "__spec__", "__path__", "__cached__", "__builtins__")  # of each module


class _Loader:
    """Fills a module with another's names."""

    def __init__(self, source: str, modules: Dict[str, str]) -> None:
        self._source, self._modules = source, modules

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        for name, value in vars(importlib.import_module(self._source)).items():
            # A part that the source imports has its name here; before a function of the same name, which stays.
            if f"{module.__name__}.{name}" in self._modules:
                importlib.import_module(f"{module.__name__}.{name}")
            if name not in _OWN and not isinstance(value, ModuleType):
                setattr(module, name, value)


class _Finder:  # a MetaPathFinder; importlib.abc, which has the class, would cost `import gqa` a third of its time
    """Answers for the names that are installed: of modules to the interpreter, of metadata to importlib.metadata."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        installed = _installed.get(name.partition(".")[0])
        if installed is None:
            return None
        modules = installed.package.modules
        if name in modules:
            packs = "." not in name or any(module.startswith(f"{name}.") for module in modules)
            loader: Any = _Loader(modules[name], modules)
            return ModuleSpec(name, loader, origin=f"gqa ({modules[name]})", is_package=packs)
        if _is_import(sys._getframe(1)):
            raise ModuleNotFoundError(
                f"No module named {name!r}: gqa stands for {name.partition('.')[0]} in this process (gqa.install_as) "
                f"and has {', '.join(modules)} of it",
                name=name,
            )
        return None

    def find_distributions(self, context: Any) -> Iterator[Any]:
        """context.name: the distribution that is asked for; None: all."""
        for name, installed in list(_installed.items()):
            if installed.metadata and (context.name is None or _same(context.name, installed.package.distribution)):
                yield _distribution(name, installed.package)


def _is_import(frame: Any) -> bool:
    """Whether a finder is asked for an import. importlib.util.find_spec asks too, and wants None for no module."""
    caller = frame.f_back
    return caller is not None and caller.f_code.co_name == "_find_and_load_unlocked"


_finder: Any = _Finder()


# ---- metadata


def _same(asked: str, distribution: str) -> bool:
    return re.sub(r"[-_.]+", "-", asked).lower() == distribution


def _distribution(name: str, package: _Package) -> Any:
    """An importlib.metadata.Distribution, whose module only those have imported who ask for one."""
    from importlib import metadata

    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: {package.distribution}\nVersion: {package.version}\n",
        "top_level.txt": f"{name}\n",
    }

    class Distribution(metadata.Distribution):
        def read_text(self, filename: Any) -> Optional[str]:
            return files.get(str(filename))

        def locate_file(self, path: Any) -> Any:
            return os.path.join(os.path.dirname(__file__), path)

    return Distribution()


def _renew_lock() -> None:
    """In a forked child, where the thread that held it does not exist."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
