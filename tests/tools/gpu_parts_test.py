"""The parts of the GPU tests: tests/gpu_parts.py's, and tests/gpu.sh with a program that is played here.

Owns: a stand-in for runtime_gpu_tests, in a copy of what gpu.sh needs.
Never: needs a GPU; Python tests are left out, whatever this Python has.
"""
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support

TESTS = Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.append(str(TESTS))

import gpu_parts  # noqa: E402

# Lists three tests, or passes the one it is told; Slow.Fails fails.
PROGRAM = """#!/bin/sh
case $* in
  *--gtest_list_tests*) printf 'Quick.\\n  One\\n  TellsWhoWasBehind\\nSlow.\\n  Fails\\n  Rows/0  # GetParam() = 1\\n'; exit ;;
esac
for argument; do
  case $argument in --gtest_output=json:*) echo '{"testsuites": []}' >"${argument#*:}" ;; esac
done
case $* in *Slow.Fails*) echo 'of no use'; exit 1 ;; esac
"""
PYTHON = f"""#!/bin/sh
case $* in *'import torch'*) exit 1 ;; esac
exec {sys.executable} "$@"
"""


class Split(unittest.TestCase):
    def setUp(self):
        chance = random.Random(1)
        self.known = {f"Suite.Test{i}": round(chance.expovariate(0.1), 1) for i in range(200)}
        self.names = list(self.known) + ["tests/python/test_new.py::test_new[a b]", "Suite.New"]

    def test_each_test_is_in_one_part(self):
        for count in (1, 2, 3, 7, 300):
            parts = [gpu_parts.part_of(self.names, f"{i + 1}/{count}", self.known) for i in range(count)]
            self.assertEqual(sorted(sum(parts, [])), sorted(self.names))

    def test_parts_are_even_within_the_longest_test(self):
        for count in (2, 3, 7):
            sums = [sum(self.known[name] for name in part) for part in gpu_parts.split(list(self.known), count, self.known)]
            self.assertLessEqual(max(sums) - min(sums), max(self.known.values()))

    def test_what_was_never_timed_counts_as_the_median(self):
        self.assertEqual(gpu_parts.split(["a", "b", "c", "new"], 2, {"a": 1, "b": 4, "c": 9}), [["c"], ["b", "new", "a"]])
        self.assertEqual([len(part) for part in gpu_parts.split(["a", "b", "c", "d"], 2, {})], [2, 2])

    def test_the_order_of_the_names_counts_for_nothing(self):
        self.assertEqual(gpu_parts.split(self.names, 3, self.known), gpu_parts.split(self.names[::-1], 3, self.known))

    def test_the_committed_file_is_sorted_and_names_each_once(self):
        lines = [line for line in gpu_parts.KNOWN.read_text().splitlines() if not line.startswith("#")]
        self.assertEqual("".join(line + "\n" for line in lines), gpu_parts.text_of(gpu_parts.read(gpu_parts.KNOWN)))


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "tests").mkdir()
        for name in ("gpu.sh", "gpu_parts.py", "gpu_seconds.txt"):
            shutil.copy(TESTS / name, self.folder / "tests" / name)
        self.write("build/release/tests/runtime/runtime_gpu_tests", PROGRAM)
        self.write("bin/python3", PYTHON)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(stat.S_IRWXU)

    def gpu(self, *arguments, code=0):
        done = subprocess.run([self.folder / "tests/gpu.sh", *arguments], capture_output=True, text=True, timeout=300,
                              env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_the_parts_run_each_test_once_and_say_what_it_took(self):
        shown = [self.gpu(f"{i}/2", code=code) for i, code in self.codes(2)]
        ran = [line.split()[-1] for part in shown for line in part.splitlines() if line.startswith(("ok ", "failed "))]
        self.assertEqual(sorted(ran), ["Quick.One", "Quick.TellsWhoWasBehind", "Slow.Fails", "Slow.Rows/0"])

    def codes(self, count):
        """The exit code of each part: 1 of the one that has the test that fails."""
        beside = ["Quick.One", "Slow.Fails", "Slow.Rows/0"]
        return [(i, int("Slow.Fails" in gpu_parts.part_of(beside, f"{i}/{count}"))) for i in range(1, count + 1)]

    def test_seconds_are_of_tests_that_passed_in_the_committed_files_format(self):
        shown = self.gpu(code=1)
        text = (self.folder / "build/gpu/seconds.txt").read_text()
        self.assertTrue(shown.endswith(text))
        self.assertEqual(list(gpu_parts.read(self.folder / "build/gpu/seconds.txt")),
                         ["Quick.One", "Quick.TellsWhoWasBehind", "Slow.Rows/0"])
        self.assertIn("of no use", shown)

    def test_what_is_no_part_is_refused(self):
        for given in ("0/2", "3/2", "2", "a/b", "1/0", "1/2/3"):
            self.assertIn(f"'{given}' is no part", self.gpu(given, code=2))
        self.assertIn("usage: tests/gpu.sh", self.gpu("--part", code=2))
        self.assertIn("example", self.gpu("--help"))

    def test_a_program_that_is_not_built_is_named_with_what_builds_it(self):
        (self.folder / "build/release/tests/runtime/runtime_gpu_tests").unlink()
        self.assertIn("tools/test --gpu-build", self.gpu(code=1))

    def test_a_line_that_is_no_seconds_name_is_named(self):
        (self.folder / "tests/gpu_seconds.txt").write_text("1.0 a\n<<<<<<< ours\n")
        self.assertIn("gpu_seconds.txt:2: '<<<<<<< ours'", self.gpu(code=2))

    def test_the_seconds_of_parts_are_merged(self):
        self.write("one.txt", "1.0 b\n2.0 a\n")
        self.write("two.txt", "# of another part\n3.0 tests/python/test_a.py::test_a[x y]\n4.0 b\n")
        merged = subprocess.run([sys.executable, TESTS / "gpu_parts.py", "merge", "one.txt", "two.txt"], cwd=self.folder,
                                capture_output=True, text=True, check=True).stdout
        self.assertEqual(merged, "2.0 a\n4.0 b\n3.0 tests/python/test_a.py::test_a[x y]\n")

    def test_pytests_seconds_are_by_its_own_names(self):
        self.write("results/python.xml", '<testsuites><testsuite><testcase classname="tests.python.serving.test_a" '
                   'name="test_a[x]" time="1.25"/><testcase classname="tests.python.test_b" name="test_b" time="9"><skipped/>'
                   "</testcase></testsuite></testsuites>")
        self.assertEqual(gpu_parts.took(self.folder / "results"), {"tests/python/serving/test_a.py::test_a[x]": 1.25})


if __name__ == "__main__":
    support.main()
