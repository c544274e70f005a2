"""What a program or library of a wheel asks of a machine: libraries, and symbols by version.

Owns: what a manylinux_2_28 machine has. Never: changes a file. One thread.

  elf.py FILE...   names what such a machine lacks, and exits 1 if there is any
"""
import re
import subprocess
import sys

GLIBC = (2, 28)
SYSTEM = {"libpthread.so.0", "libdl.so.2", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"}
SYMBOL = re.compile(r"^[0-9a-f]+ .{7} (\S+)\s+[0-9a-f]+\s+(?:\(?([\w.]+)\)?\s+)?(?:\.hidden )?(\S+)$")


def told(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def needed(path):
    """The libraries that it is linked with."""
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", told("readelf", "-dW", path)))


def symbols(path):
    """(section, version or "", name) of each dynamic symbol."""
    for line in told("objdump", "-T", path).splitlines():
        found = SYMBOL.match(line)
        if found and found[3] != found[2]:  # a version is a symbol of its own name
            yield found[1], "" if found[2] in (None, "Base") else found[2], found[3]


def asked(path):
    return {(version, name) for section, version, name in symbols(path) if section == "*UND*"}


def exported(path):
    return {(version, name) for section, version, name in symbols(path) if section not in ("*UND*", "*ABS*")}


def lacking(version):
    """Whether a machine of that age may lack what has this version."""
    if version.startswith("GLIBC_"):
        number = version[len("GLIBC_"):]
        return not re.fullmatch(r"[\d.]+", number) or tuple(map(int, number.split("."))) > GLIBC
    return version.startswith(("GLIBCXX_", "CXXABI_", "GCC_"))


def complaints(path, besides=()):
    """What a manylinux_2_28 machine lacks; `besides`: libraries that come along."""
    wrong = [f"{path}: is linked with {name}, expected only {', '.join(sorted(SYSTEM))}: link it in (cmake/portable/)"
             for name in sorted(needed(path) - SYSTEM - set(besides))]
    return wrong + [f"{path}: asks for {name} of {version}, expected none newer than GLIBC_{GLIBC[0]}.{GLIBC[1]} and "
                    "none of a C++ library: give cmake/portable/old_glibc.c a definition of it"
                    for version, name in sorted(asked(path)) if lacking(version)]


if __name__ == "__main__":
    told_of = [line for file in sys.argv[1:] for line in complaints(file, {"libgqa.so.0"})]
    print("\n".join(told_of) or "nothing is lacking")
    sys.exit(bool(told_of))
