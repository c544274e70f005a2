"""What the tests of an installation share.

Owns: one installation of a build, moved after it, so that a folder that it was made in serves nobody; running commands;
what becomes of a script whose tools are not here: it says which, and exits as skipped.
Never: builds the library, or knows what a test is about. One thread.

  SCRIPT_test.py BUILD SOURCE [WHICH]     WHICH: one test class of a script that has several ctests
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from in_folder import InFolder  # noqa: E402  # the folder is on the path just now

SKIPPED = 77  # ctest's SKIP_RETURN_CODE
BUILD = SOURCE = ""


def run(*command, code=0, cwd=None, **environment):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd, timeout=300,
                          env={**os.environ, **environment}, check=False)
    if done.returncode != code:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def missing(*tools):
    return [tool for tool in tools if not shutil.which(tool)]


def needs(*tools):
    return unittest.skipIf(missing(*tools), f"no {', '.join(missing(*tools))} here")


def version():
    with open(os.path.join(SOURCE, "runtime/api/gqa.h")) as header:
        return re.findall(r"^#define GQA_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header.read(), re.MULTILINE)


def number():
    major, minor, patch = map(int, version())
    return 10000 * major + 100 * minor + patch


class Consumers(InFolder):
    @classmethod
    def setUpClass(cls):
        cls.prefix = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        made = os.path.join(cls.prefix, "made")
        run("cmake", "--install", BUILD, "--prefix", made)
        cls.moved = os.path.join(cls.prefix, "elsewhere", "gqa")
        os.mkdir(os.path.dirname(cls.moved))
        os.rename(made, cls.moved)
        cls.made = made
        cls.library_dir = os.path.dirname(cls.find("libgqa.so"))

    @classmethod
    def find(cls, name):
        for folder, _, files in os.walk(cls.moved):
            if name in files:
                return os.path.join(folder, name)
        raise AssertionError(f"no {name} was installed")

    def environment(self):
        """With which a stranger's compiler finds the library, and a program loads it; it remembers in self.folder."""
        return {"PKG_CONFIG_PATH": os.path.dirname(self.find("gqa.pc")), "LD_LIBRARY_PATH": self.library_dir,
                "GQA_CACHE": self.path("cache.db")}


def main(tools_of=None):
    """Runs the script's tests; with WHICH that class's, or none of them where one of its tools, tools_of[WHICH], is not
    here: then says so and exits as skipped. A tool is a command's name, or the path of a file."""
    global BUILD, SOURCE
    BUILD, SOURCE = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    if tools_of is not None:
        which = sys.argv[1]
        if absent := [tool for tool in missing(*tools_of[which]) if not os.path.isfile(tool)]:
            print(f"skipped: no {', '.join(absent)} here")
            sys.exit(SKIPPED)
    unittest.main(module="__main__")
