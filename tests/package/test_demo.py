"""tools/demo takes a wheel of build/packages/ where it is of the very tree, and builds otherwise. Played in a small
repository: its wheel has a library of three lines, and its tools/setup says that it was asked."""
import os
import shutil
import subprocess
import zipfile

import support

LIBRARY = r"""
#include <stdio.h>
int gqa_demo_main(int count, char** words) {
  if (count < 4) return 2;
  printf("  device  host x\n  first answer    1.5 ms  of %s %s %s\n", words[0], words[2], words[3]);
  return 0;
}
"""


class Demo(support.Scratch):
    def setUp(self):
        super().setUp()
        self.tree = self.folder / "tree"
        for name in ("tools/demo", "tools/progress", "tools/packaging/tree.py"):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(support.ROOT / name, self.tree / name)
        self.write("tree/tools/setup", "#!/bin/sh\necho setup was asked\nexit 9\n").chmod(0o755)
        self.write("tree/.gitignore", "/build/\n__pycache__/\n")
        for words in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", "x"]):
            self.git(*words)
        (self.tree / "build/packages").mkdir(parents=True)
        name = f"gqa-1.0-cp311-cp311-manylinux_2_28_{os.uname().machine}.whl"
        with zipfile.ZipFile(self.tree / "build/packages" / name, "w") as wheel:
            wheel.write(self.library("demo.so", LIBRARY), "gqa/libgqa.so.0")

    def git(self, *words):
        return subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example", "-C", str(self.tree), *words],
                              check=True, capture_output=True, text=True).stdout.strip()

    def state(self):
        return self.run_it("python3", self.tree / "tools/packaging/tree.py").strip()

    def mark(self):
        (self.tree / "build/packages/TREE").write_text(self.state() + "\n")

    def demo(self, code=0):
        return self.run_it(self.tree / "tools/demo", "--shape", "a=1", code=code)

    def test_the_wheel_of_this_tree_is_taken(self):
        self.mark()
        told = self.demo()
        self.assertIn("nothing is built", told)
        self.assertIn("first answer    1.5 ms  of gqa-demo --shape a=1", told)
        self.assertNotIn("setup was asked", told)

    def test_a_changed_tree_builds(self):
        self.mark()
        self.write("tree/tools/more", "x")
        self.assertIn("setup was asked", self.demo(code=9))
        self.mark()
        self.assertIn("nothing is built", self.demo())
        self.write("tree/tools/more", "y")
        self.assertIn("setup was asked", self.demo(code=9))

    def test_another_commit_builds(self):
        self.mark()
        self.git("commit", "--quiet", "--allow-empty", "-m", "y")
        self.assertIn("setup was asked", self.demo(code=9))

    def test_without_a_mark_or_a_wheel_it_builds(self):
        self.assertIn("setup was asked", self.demo(code=9))
        self.mark()
        for wheel in (self.tree / "build/packages").glob("*.whl"):
            wheel.unlink()
        self.assertIn("setup was asked", self.demo(code=9))

    def test_the_state_is_the_commit_where_nothing_differs(self):
        self.assertEqual(self.state(), self.git("rev-parse", "HEAD"))
