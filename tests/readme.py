#!/usr/bin/env python3
"""Runs the C, C++ and Python examples of the README and of docs/serving.md as they are printed.

Owns: taking the fenced blocks marked ```c, ```cpp and ```python out of these pages, building and running each in a
folder of its own; Python blocks that import torch are a language of their own. Checks its own reading of Markdown first.
Never: changes an example; a block that cannot stand alone is not marked c, cpp or python. One thread.

  readme.py c BUILD_FOLDER SOURCE_ROOT    compiles each C block against the headers and libgqa.so and runs it
  readme.py cpp BUILD_FOLDER SOURCE_ROOT  the same for each C++ block, with bindings/cpp/gqa.hpp
  readme.py c|cpp pkg-config SOURCE_ROOT  against what pkg-config finds, with its flags alone
  readme.py python PYTHON SOURCE_ROOT     runs each Python block that does not import torch with this interpreter
  readme.py torch PYTHON SOURCE_ROOT      runs each that does
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# The languages of each page's examples.
PAGES = {"README.md": ("c", "cpp", "torch", "python"), "docs/serving.md": ("cpp", "python")}
PKG_CONFIG = "pkg-config"  # in the place of a build's folder
FENCE = re.compile(r"^```(\w*)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
TORCH = re.compile(r"^(import|from) torch\b", re.MULTILINE)


def blocks(text, language):
    """(line number, text) of every fenced block of a language."""
    return [(text.count("\n", 0, match.start(2)) + 1, match[2]) for match in FENCE.finditer(text)
            if language_of(match) == language]


def language_of(match):
    return "torch" if match[1] == "python" and TORCH.search(match[2]) else match[1]


def self_check():
    sample = "a\n```c\nint x;\n```\n```\nplain\n```\n```python\nimport os\n\nos\n```\n```c\ny\n```\n"
    sample += "```python\nimport os\nimport torch\n```\n"
    assert blocks(sample, "c") == [(3, "int x;\n"), (14, "y\n")], blocks(sample, "c")
    assert blocks(sample, "python") == [(9, "import os\n\nos\n")], blocks(sample, "python")
    assert blocks(sample, "torch") == [(17, "import os\nimport torch\n")], blocks(sample, "torch")


def run(command, folder, what):
    # Each example starts with an empty cache file, in the folder that goes away with it.
    environment = dict(os.environ, GQA_CACHE=str(Path(folder, "cache.db")))
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{what}: {command[0]} ended with {done.returncode}\n{done.stdout}")
    return done.stdout


COMPILERS = {  # language: (environment variable, its default, standard, extension)
    "c": ("CC", "cc", "-std=c11", "c"),
    "cpp": ("CXX", "c++", "-std=c++17", "cc"),
}


def run_compiled(language, build, root, folder, code, what):
    variable, default, standard, extension = COMPILERS[language]
    source, program = f"example.{extension}", str(Path(folder, "example"))
    Path(folder, source).write_text(code)
    flags = [f"-I{root / 'runtime' / 'api'}", f"-I{root / 'bindings' / 'cpp'}", f"-L{build}", "-lgqa", f"-Wl,-rpath,{build}",
             "-lm"]
    if build == PKG_CONFIG:
        flags = run([PKG_CONFIG, "--cflags", "--libs", "gqa"], folder, what).split()
    run([os.environ.get(variable, default), standard, "-Wall", "-Wextra", "-Werror", source, "-o", program, *flags],
        folder, what)
    return run([program], folder, what)


def run_python(python, folder, code, what):
    Path(folder, "example.py").write_text(code)
    return run([python, "example.py"], folder, what)


def examples(root, language):
    """(where, text) of every example in a language; each page has those that it should have."""
    found = []
    for page, languages in PAGES.items():
        if not (root / page).is_file():
            sys.exit(f"{root / page} is not there: expected the root of the source tree")
        of_page = blocks((root / page).read_text(), language)
        if (language in languages) != bool(of_page):
            sys.exit(f"{page} has {len(of_page)} examples in {language}, and should have examples in "
                     f"{', '.join(languages)}: PAGES of tests/readme.py says so")
        found += [(f"{page}:{line}", code) for line, code in of_page]
    return found


def main():
    self_check()
    if len(sys.argv) != 4 or sys.argv[1] not in ("c", "cpp", "python", "torch"):
        sys.exit(__doc__)
    language, tool, root = sys.argv[1], sys.argv[2], Path(sys.argv[3]).resolve()
    if tool != PKG_CONFIG:
        tool = os.path.abspath(tool)
    found = examples(root, language)
    for what, code in found:
        with tempfile.TemporaryDirectory() as folder:
            if language in COMPILERS:
                output = run_compiled(language, tool, root, folder, code, what)
            else:
                output = run_python(tool, folder, code, what)
        print(f"{what}: runs{': ' + output.strip() if output.strip() else ''}")
    print(f"{len(found)} passed, 0 failed")


if __name__ == "__main__":
    main()
