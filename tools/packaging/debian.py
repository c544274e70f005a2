"""The packages for Debian: libgqa0, libgqa-dev and gqa-cache, of what `cmake --install` puts where for them.

Owns: their fields, what Debian wants beside the files (copyright, changelog, shlibs, triggers). Never: compiles, or says
which file is whose: cmake/install.cmake does, a component a package. One thread.
"""
import gzip
import os
import re
import shutil
import textwrap
from pathlib import Path

import machine

FOLDER = machine.WORK / "debian"
PAGES = ("gqa-cache.1", "gqa-cache.bash", "_gqa-cache", "gqa-cache.fish")
ABOUT = {
    "libgqa0": ("libs", "same", "grouped-query attention, tuned at run time", """
        A library that generates attention kernels for the shapes and the GPU that it meets, verifies and times them, and
        keeps the fastest in a cache file. Without a GPU it computes on the processor."""),
    "libgqa-dev": ("libdevel", "same", "grouped-query attention, tuned at run time (headers)", """
        The headers of C and C++, gqa.pc for pkg-config, and the package gqa for CMake."""),
    "gqa-cache": ("utils", "foreign", "grouped-query attention, tuned at run time (command)", """
        The command that warms, shows, checks and ships the cache file of libgqa0."""),
}


def triplet():
    return machine.told("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()


def maintainer():
    name, email = os.environ.get("DEBFULLNAME"), os.environ.get("DEBEMAIL")
    if not (name and email):
        name, email = (machine.told("git", "-c", "safe.directory=*", "log", "-1", f"--format={field}").strip()
                       for field in ("%an", "%ae"))
    return f"{name} <{email}>"


def configure():
    """A build's folder that is told of Debian's places and given what the release build has made."""
    build = FOLDER / "build"
    machine.run("configuring Debian's places", "cmake", "-S", machine.ROOT, "-B", build, "-G", "Ninja",
                "-DCMAKE_BUILD_TYPE=Release", "-DGQA_TESTS=OFF", "-DGQA_INSTALL_DLPACK=OFF", "-DCMAKE_INSTALL_PREFIX=/usr",
                f"-DCMAKE_INSTALL_LIBDIR=lib/{triplet()}", f"-DGQA_CUDA_INCLUDE={os.environ['GQA_CUDA_INCLUDE']}")
    for name in ("libgqa.so.0", "libgqa.so", "gqa-cache"):
        (build / name).unlink(missing_ok=True)
        shutil.copy2(machine.RELEASE / name, build / name, follow_symlinks=False)
    for name in PAGES:
        shutil.copy2(machine.RELEASE / "install" / name, build / "install" / name)
    return build


def compressed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def copyright_of():
    """gqa's own licence by name, which Debian has on every machine, and the licences of what is compiled in."""
    third = (machine.ROOT / "LICENSES-third-party").read_text()
    return ("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: gqa\n\n"
            "Files: *\nCopyright: the authors of gqa\nLicense: Apache-2.0\n\nLicense: Apache-2.0\n"
            " On Debian systems, the complete text of the Apache License 2.0 is in\n"
            " /usr/share/common-licenses/Apache-2.0.\n\nComment:\n"
            + "".join(f" {line}\n" if line.strip() else " .\n" for line in third.splitlines()))


def documents(stage, name):
    folder = stage / "usr/share/doc" / name
    compressed(folder / "changelog.gz", (machine.ROOT / "CHANGELOG.md").read_text())
    (folder / "copyright").write_text(copyright_of())
    for page in (stage / "usr/share/man").rglob("*.1"):
        compressed(page.with_suffix(".1.gz"), page.read_text())
        page.unlink()


def libraries(stage, binaries):
    """The packages that have what these files are linked with, by dpkg-shlibdeps."""
    (FOLDER / "debian").mkdir(exist_ok=True)
    (FOLDER / "debian/control").write_text("Source: gqa\n\nPackage: libgqa0\nArchitecture: any\n")
    told = machine.told("dpkg-shlibdeps", "-O", *[f"-e{path}" for path in binaries], cwd=FOLDER)
    return re.search(r"shlibs:Depends=(.*)", told)[1]


def depends(name, stage):
    version = machine.version()
    if name == "libgqa-dev":
        return f"libgqa0 (= {version}), libdlpack-dev"
    return libraries(stage, [path for pattern in ("usr/bin/*", "usr/lib/*/lib*.so.0") for path in stage.glob(pattern)])


def control(name, stage):
    section, multi, short, long = ABOUT[name]
    size = sum(path.lstat().st_size for path in stage.rglob("*") if path.is_file()) // 1024
    fields = {
        "Package": name, "Source": "gqa", "Version": machine.version(), "Section": section, "Priority": "optional",
        "Architecture": machine.told("dpkg-architecture", "-qDEB_HOST_ARCH").strip(), "Multi-Arch": multi,
        "Maintainer": maintainer(), "Installed-Size": str(size), "Depends": depends(name, stage),
        "Description": short + "\n" + textwrap.fill(" ".join(long.split()), 78, initial_indent=" ", subsequent_indent=" "),
    }
    return "".join(f"{field}: {value}\n" for field, value in fields.items())


def make_one(name, build):
    stage = FOLDER / name
    shutil.rmtree(stage, ignore_errors=True)
    machine.told("cmake", "--install", build, "--component", name, DESTDIR=str(stage))
    documents(stage, name)
    for program in stage.glob("usr/bin/*"):
        machine.told("strip", program)
    meta = stage / "DEBIAN"
    text = control(name, stage)
    meta.mkdir()
    (meta / "control").write_text(text)
    if name == "libgqa0":
        (meta / "shlibs").write_text(f"libgqa 0 libgqa0 (>= {'.'.join(machine.version().split('.')[:2])})\n")
        (meta / "triggers").write_text("activate-noawait ldconfig\n")
    files = sorted(path.relative_to(stage).as_posix() for path in stage.rglob("*")
                   if path.is_file() and not path.is_symlink() and meta not in path.parents)
    (meta / "md5sums").write_text(machine.told("md5sum", *files, cwd=stage))
    for path in [stage, *stage.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    return Path(machine.told("dpkg-deb", "--root-owner-group", "--build", stage, machine.PACKAGES).split("'")[-2])


def make():
    machine.say("the packages for Debian")
    build = configure()
    return [make_one(name, build) for name in ABOUT]
