#!/usr/bin/env python3
"""What tools/test stands on: verdicts that are believed only where nothing that decides them changed, records of stages.

  harness_test.py SUBJECTS    the program of subjects.cc
"""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[at]) for at in (0, 1)]
import records  # noqa: E402
import slowest  # noqa: E402
import syntax  # noqa: E402
import verdicts  # noqa: E402

SUBJECTS = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
HEAD = "verdicts 1, full 2026-11-27\n"
A, B = "a" * 32, "b" * 32


@contextlib.contextmanager
def folder():
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as made:
        os.chdir(made)
        try:
            yield Path(made)
        finally:
            os.chdir(before)


def silently(function, *arguments):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        function(*arguments)
    return out.getvalue() + err.getvalue()


class TheList(unittest.TestCase):
    def test_is_names_and_digests_and_the_oldest_day(self):
        text = HEAD + "verdicts 1, full 2026-10-01\n" + f"S.a {A}\nS.b#2 {B}\n"
        self.assertEqual(verdicts.parse(text), ("2026-10-01", {"S.a": A, "S.b#2": B}, ""))

    def test_holds_nothing_of_a_name_that_stands_twice(self):
        for second in (A, B):
            self.assertEqual(verdicts.parse(HEAD + f"S.a {A}\nS.a {second}\nS.b {B}\n")[1], {"S.b": B})

    def test_is_not_believed_with_any_other_line(self):
        for text in ("verdicts 2, full 2026-11-27\n" + f"S.a {A}\n", f"S.a {A}\n", "", HEAD + f"<<<<<<< ours\nS.a {A}\n",
                     HEAD + "S.a 0123\n", HEAD + "\n", HEAD + f"S.a {A} more\n"):
            with self.subTest(text), folder() as here:
                (here / "list").write_text(text)
                said = silently(verdicts.main, ["known", "list"])
                self.assertIn("list is not believed", said)
                self.assertIn("expected", said)
                self.assertNotIn(f"S.a {A}\n", said)

    def test_takes_in_what_tests_left_and_after_a_full_run_nothing_else(self):
        with folder() as here:
            (here / "list").write_text(HEAD + f"S.a {A}\nS.old {A}\n")
            (here / "seen").mkdir()
            (here / "seen" / "S").write_text(f"S.b {B}\nS.a {A}\n")
            said = silently(verdicts.main, ["merge", "list", "seen"])
            self.assertEqual((here / "list").read_text(), HEAD + f"S.a {A}\nS.b {B}\nS.old {A}\n")
            self.assertIn("1 as listed, 1 judged", said)
            silently(verdicts.main, ["merge", "list", "seen", "2026-12-01"])
            self.assertEqual((here / "list").read_text(), f"verdicts 1, full 2026-12-01\nS.a {A}\nS.b {B}\n")


@unittest.skipIf(not SUBJECTS, "harness_test.py was given no program")
class TheVerdicts(unittest.TestCase):
    def run_subjects(self, known=None, **more):
        """What was judged, what was left behind, and whether all passed."""
        with folder() as here:
            (here / "seen").mkdir()
            environment = {name: value for name, value in os.environ.items() if not name.startswith("GQA_")}
            environment.update(more, GQA_VERDICTS_SEEN=str(here / "seen"))
            if known is not None:
                (here / "known").write_text("".join(f"{name} {digest}\n" for name, digest in known.items()))
                environment["GQA_VERDICTS"] = str(here / "known")
            done = subprocess.run([SUBJECTS], env=environment, capture_output=True, text=True, check=False)
            self.assertEqual("listed by name" in done.stdout, (known or {}).get("Subjects.Named#m=64_n=32") not in (None, A))
            judged = [line[7:] for line in done.stdout.splitlines() if line.startswith("judged ")]
            return judged, verdicts.left_by_tests(here / "seen"), done.returncode == 0

    def test_are_judged_once(self):
        judged, seen, passed = self.run_subjects()
        self.assertTrue(passed)
        self.assertEqual(judged, ["one", "other", "fault", "otherwise", "named", "last"])
        self.assertEqual(sorted(seen), ["Subjects.FailsAfterwards", "Subjects.Named#m=64_n=32", "Subjects.Right",
                                        "Subjects.Right#2", "Subjects.Wrong"])
        self.assertEqual(self.run_subjects(seen), (["otherwise"], seen, True))

    def test_are_judged_again_where_a_digest_differs(self):
        _, seen, _ = self.run_subjects()
        for name, question in (("Subjects.Right#2", "other"), ("Subjects.Wrong", "fault"), ("Subjects.Named#m=64_n=32", "named")):
            judged, again, _ = self.run_subjects({**seen, name: A})
            self.assertIn(question, judged)
            self.assertEqual(again, seen)

    def test_of_a_test_that_fails_are_not_kept(self):
        _, seen, passed = self.run_subjects(FAIL_AFTER="1")
        self.assertFalse(passed)
        self.assertNotIn("Subjects.FailsAfterwards", seen)
        self.assertIn("Subjects.Right", seen)


class TheRecords(unittest.TestCase):
    def tree(self, here):
        for unit in ("search", "cache", "jit", "runtime", "bindings", "tools", "docs", "tests/search", "tests/cache",
                     "tests/jit", "tests/runtime", "tests/simt", "tests/tools", "tests/python", "tests/harness",
                     "cmake", "tests/cmake", "tests/package", "tools/packaging"):
            (here / unit).mkdir(parents=True)
            (here / unit / "a.cc").write_text(f"// {unit}\n")
            (here / unit / "page.md").write_text("page\n")
        for name in ("CMakePresets.json", "tools/setup", "tools/test", "tools/package", "pyproject.toml", "README.md",
                     "tests/readme.py"):
            (here / name).write_text("text\n")
        (here / "jit" / "device").mkdir()
        (here / "jit" / "device" / "a.cuh").write_text("__device__ void f();\n")
        (here / "runtime" / "api").mkdir()
        (here / "runtime" / "api" / "gqa.h").write_text("int gqa_run();\n")
        for stage in [*records.STAGES, "format"]:
            records.passed(stage, records.now())

    def changed(self):
        return {stage: parts for stage in records.STAGES if (parts := records.parts(stage, records.now()))}

    def test_of_what_passed_ask_for_nothing(self):
        with folder() as here:
            self.tree(here)
            self.assertEqual(self.changed(), {})
            self.assertEqual(records.sources(records.now()), [])

    def test_ask_for_what_lies_above_a_change(self):
        for file, expected in {
            "docs/page.md": {"release": ["docs"], "readme": ["examples"]},
            "README.md": {"release": ["docs"], "readme": ["examples"]},
            "cache/page.md": {},
            "LICENSE": {},
            "cache/a.cc": {"release": ["cache", "runtime", "tools"], "asan": ["cache", "runtime", "tools"],
                           "tsan": ["threads"], "python": ["python"], "readme": ["examples"]},
            "jit/a.cc": {"release": ["jit", "runtime", "simt", "tools"], "asan": ["jit", "runtime", "tools"],
                         "tsan": ["threads"], "python": ["python"], "readme": ["examples"]},
            "jit/device/a.cuh": {"release": ["jit", "runtime", "simt", "tools"], "asan": ["jit"]},
            "tests/search/a.cc": {"release": ["search", "runtime", "simt"], "asan": ["search", "runtime"]},
            "tests/simt/a.cc": {"release": ["simt"]},
            "tests/cmake/a.cc": {"release": ["tools"]},
            "tests/package/a.cc": {"package": ["packages"]},
            "tools/package": {"release": ["tools"], "asan": ["tools"], "python": ["python"], "readme": ["examples"],
                              "package": ["packages"]},
            "pyproject.toml": {"python": ["python"], "doors": ["doors"], "readme": ["examples"], "package": ["packages"]},
            "tests/python/a.cc": {"python": ["python"], "doors": ["doors"]},
            "bindings/a.cc": {"release": ["tools"], "asan": ["tools"], "python": ["python"], "doors": ["doors"],
                              "readme": ["examples"]},
        }.items():
            with self.subTest(file), folder() as here:
                self.tree(here)
                (here / file).write_text("changed\n")
                self.assertEqual(self.changed(), expected)
                self.assertEqual([str(path) for path in records.sources(records.now())],
                                 [file] if file.endswith(".cc") else [])

    def test_ask_for_pytorch_where_a_pages_example_with_it_changed(self):
        with folder() as here:
            self.tree(here)
            (here / "README.md").write_text("text\n```python\nimport torch\n```\n")
            self.assertEqual(self.changed(), {"release": ["docs"], "readme": ["examples"], "doors": ["doors"]})

    def test_ask_for_all_after_a_change_of_flags(self):
        with folder() as here:
            self.tree(here)
            (here / "cache" / "CMakeLists.txt").write_text("add_compile_options(-O1)\n")
            every = {stage: list(parts) for stage, parts in records.STAGES.items()}
            every["release"].remove("docs")
            self.assertEqual(self.changed(), every)

    def test_with_any_other_line_are_not_believed(self):
        with folder() as here:
            self.tree(here)
            path = here / "tests" / "records" / "tsan"
            path.write_text(path.read_text() + ">>>>>>> theirs\n")
            said = silently(lambda: self.assertEqual(self.changed(), {"tsan": ["threads"]}))
            self.assertIn("tests/records/tsan is not believed", said)

    def test_count_nothing_of_a_unit_that_stands_twice(self):
        with folder() as here:
            self.tree(here)
            path = here / "tests" / "records" / "tsan"
            path.write_text(path.read_text() + f"cache {A}\n")
            self.assertEqual(self.changed(), {"tsan": ["threads"]})


class TheSyntax(unittest.TestCase):
    def test_a_header_is_compiled_once(self):
        with folder() as here, unittest.mock.patch.object(syntax, "ROOT", here):
            first, later, alone = (Path(f"a/{name}.h") for name in ("first", "later", "alone"))
            (here / "a").mkdir()
            for header in (first, later, alone):
                (here / header).touch()
            (here / "a/first.cc").write_text('// first.cc\n#include "a/first.h"\n#include <vector>\n')
            (here / "a/later.cc").write_text('#include <vector>\n#include "a/later.h"\n')
            self.assertEqual(syntax.stands_for(first), [Path("a/first.cc")])
            self.assertEqual(syntax.stands_for(later), [later])
            self.assertEqual(syntax.stands_for(alone), [alone])


class TheSlowest(unittest.TestCase):
    def test_are_this_runs(self):
        with folder() as here:
            (here / "release" / "results").mkdir(parents=True)
            (here / "release" / "results" / "ctest.xml").write_text(
                '<testsuite><testcase name="a.B" time="1.5"/><testcase name="a.C" time="9"/></testsuite>')
            (here / "release" / ".ninja_log").write_text(
                "# ninja log v5\n0\t2500\t2000000000\tx/CMakeFiles/y.dir/new.cc.o\tff\n0\t7000\t1000000000\told.cc.o\tff\n")
            said = silently(slowest.main, 2.0, [here / "release" / "results"])
            self.assertLess(said.index("9.0  release: a.C"), said.index("1.5  release: a.B"))
            self.assertIn("2.5  release: x/y/new.cc", said)
            self.assertNotIn("old", said)


if __name__ == "__main__":
    unittest.main()
