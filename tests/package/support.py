"""What the tests of tools/package share: its modules, the packages that it made, scratch folders, small libraries.

Owns: nothing that stays. Never: makes packages: the stage `package` of tools/test does. One thread.
"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/packaging"))
PACKAGES = ROOT / "build/packages"


def one(pattern):
    found = sorted(PACKAGES.glob(pattern))
    assert found, f"{PACKAGES} holds no {pattern}: run tools/package"
    return found[0]


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run_it(self, *command, code=0, **more):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=False,
                              **more)
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def library(self, name, text, *options):
        self.run_it("cc", "-shared", "-fPIC", "-o", self.folder / name, self.write(name + ".c", text), *options)
        return self.folder / name

    def only_complaint(self, wrong, *words):
        self.assertEqual(len(wrong), 1, wrong)
        for word in words:
            self.assertIn(word, wrong[0])
