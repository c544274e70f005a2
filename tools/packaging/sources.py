"""The sources of what a wheel has inside: SQLite and zstd, from Debian's source packages, at the versions that stand here.

Owns: versions and hashes, fetching with the machine's own apt, unpacking with Debian's corrections, and SQLite's one
file out of many. Never: commits any of it, keeps what has another hash, or changes the machine's own lists. One thread.

A .dsc names the hashes of all files of its package, and dpkg-source refuses others: so one hash is enough.
"""
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import machine

PINNED = {  # Debian 12's
    "sqlite3": ("sqlite3", "3.40.1-2+deb12u2", "ee3459ae9d00939741c7708fc1b8ce1bde12d8c3fb1dfa005bbbc8651d884e23"),
    "zstd": ("libzstd", "1.5.4+dfsg2-5", "8f602f92b575aa8b5e979196fb6ee82d78f233521dc9636526d3ecba1f63c1b1"),
}
FOLDER = machine.WORK / "sources"
ARCHIVES = FOLDER / "archives"


def source_lists(text, deb822):
    """A list of packages as the list of their sources."""
    if deb822:
        return re.sub(r"(?im)^Types:.*$", "Types: deb-src", text)
    return re.sub(r"(?m)^\s*deb(\s)", r"deb-src\1", text)


def machine_lists():
    """(text, whether in the newer form) of the machine's lists."""
    etc = Path(machine.told("bash", "-c", 'eval "$(apt-config shell d Dir::Etc/d)"; echo "$d"').strip())
    found = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    return [(path.read_text(), path.suffix == ".sources") for path in found
            if path.is_file() and path.suffix in (".list", ".sources")]


def apt(folder):
    """apt's options for lists, caches and sources of its own."""
    parts = folder / "parts"
    for made in (parts, folder / "lists/partial", folder / "cache/archives/partial"):
        made.mkdir(parents=True, exist_ok=True)
    for number, (text, deb822) in enumerate(machine_lists()):
        (parts / f"{number}.{'sources' if deb822 else 'list'}").write_text(source_lists(text, deb822))
    settings = {"Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": parts,
                "Dir::State::Lists": folder / "lists", "Dir::Cache": folder / "cache", "APT::Sandbox::User": "root"}
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def dsc_of(name, version):
    return ARCHIVES / f"{name}_{version.partition(':')[2] or version}.dsc"


def intact(dsc, digest):
    return dsc.is_file() and hashlib.sha256(dsc.read_bytes()).hexdigest() == digest


def fetch(name, version, digest, options):
    dsc = dsc_of(name, version)
    try:
        machine.run(f"fetching {name} {version}", "apt-get", *options, "source", "--download-only", f"{name}={version}",
                    cwd=ARCHIVES)
    except machine.Failure as failure:
        raise machine.Failure(
            f"{failure}\nthe source package {name} was expected at version {version}, which Debian 12 has. On another "
            f"system, or where Debian has moved on, put its files ({dsc.name} and what it names, for example from "
            f"Debian's snapshot archive) into {ARCHIVES}, or give tools/packaging/sources.py the version and the SHA-256 "
            "of the .dsc that are to be had, and see that the tests pass") from None
    if not intact(dsc, digest):
        raise machine.Failure(f"{dsc} has the SHA-256 {hashlib.sha256(dsc.read_bytes()).hexdigest()}, expected {digest}: "
                              "it is not the package that was looked at; do not use it")


def unpack(name, version, into):
    shutil.rmtree(into, ignore_errors=True)
    machine.run(f"unpacking {name}", "dpkg-source", "--no-copy", "--extract", dsc_of(name, version), into, cwd=ARCHIVES)


def amalgamate(folder):
    """SQLite is meant to be compiled as one file, which its Makefile makes."""
    machine.run("configuring sqlite3", "sh", "configure", "--disable-tcl", "--disable-readline", cwd=folder)
    machine.run("making sqlite3.c", "make", "sqlite3.c", cwd=folder)


def made_of():
    return repr(sorted(PINNED.items()))


def provide():
    """The folder with sqlite3/ and zstd/, made once."""
    mark = FOLDER / "made_of"
    if mark.is_file() and mark.read_text() == made_of():
        return FOLDER
    ARCHIVES.mkdir(parents=True, exist_ok=True)
    missing = [pin for pin in PINNED.values() if not intact(dsc_of(*pin[:2]), pin[2])]
    if missing:
        machine.say("fetching the sources of " + ", ".join(f"{name} {version}" for name, version, _ in missing))
        options = apt(FOLDER / "apt")
        # Lists of others than Debian may have no sources: that is told by what cannot be fetched then.
        with (FOLDER / "update.log").open("w") as log:
            subprocess.run(["apt-get", *map(str, options), "update"], stdout=log, stderr=log, check=False)
        for pin in missing:
            fetch(*pin, options)
    for folder, (name, version, _) in PINNED.items():
        unpack(name, version, FOLDER / folder)
    amalgamate(FOLDER / "sqlite3")
    mark.write_text(made_of())
    return FOLDER
