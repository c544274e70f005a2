"""A build farm's day: compile for a GPU that is not here, look at it, ship it, take it over. Needs NVRTC, no GPU."""
import json
import os
import re
import shutil
import sqlite3
import tempfile
import unittest
from pathlib import Path

import support
from support import SHAPE, CacheTest, call

ARCH = ["warm", "--arch", "sm_90a", "--shape", SHAPE, "--budget", "0.01"]


class WarmArch(CacheTest):
    template = None  # a warmed cache, made once

    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.made.cleanup)
        cls.template = os.path.join(cls.made.name, "cache.db")
        cls.warmed = support.call("--db", cls.template, *ARCH)
        assert cls.warmed.returncode == 0, cls.warmed.stderr

    def setUp(self):
        super().setUp()
        shutil.copy(self.template, self.db)

    def kernels(self, db=None):
        return self.json_of("list", db=db)["kernels"]

    def flip_a_byte(self, path):
        """Flips one of the first kernel's source, behind SQLite's back."""
        with sqlite3.connect(path) as db:
            key, source = db.execute("SELECT key, source FROM kernels LIMIT 1").fetchone()
            damaged = bytearray(source)
            damaged[len(damaged) // 2] ^= 1
            db.execute("UPDATE kernels SET source=? WHERE key=?", (bytes(damaged), key))
        db.close()

    def test_a_line_a_shape_and_a_summary(self):
        shape, summary = self.warmed.stdout.splitlines()
        self.assertRegex(shape, r"^sm_90a  b=1,hq=4,hk=2,sq=64.* \d+ compiled.* in .* most promising (flash|split|warpgroup) m=")
        self.assertRegex(summary, r"^1 shape in \d.*: 1 compiled$")
        self.assertNotIn("\033", self.warmed.stdout + self.warmed.stderr)

    def test_again_finds_it_there(self):
        before = {kernel["key"] for kernel in self.kernels()}
        again = self.json_of(*ARCH)
        self.assertEqual(again["path"], self.db)
        shape = again["shapes"][0]
        self.assertTrue(shape["ready"])
        self.assertGreater(shape["outcomes"]["in the cache already"], 0)
        self.assertLessEqual(before, {kernel["key"] for kernel in self.kernels()})

    def test_packed_sequences(self):
        warmed = self.json_of(*ARCH[:3], "--shape", SHAPE + ",packq,packk", "--budget", "0.01")
        shape = warmed["shapes"][0]
        self.assertTrue(shape["ready"])
        self.assertIn("packk,packq", shape["problem"])

    def test_a_shape_with_lse_brings_what_merges_states(self):
        self.assertNotIn("merge", {kernel["family"] for kernel in self.kernels()})
        self.run_command(*ARCH[:3], "--shape", SHAPE + ",lse", "--budget", "0.01")
        mergers = [kernel for kernel in self.kernels() if kernel["family"] == "merge"]
        self.assertEqual([kernel["arch"] for kernel in mergers], ["sm_90a"])
        self.assertRegex(self.run_command("list", "--all").stdout, r"sm_90a +merge +merges ")

    def test_a_shape_with_lengths_brings_what_appends(self):
        self.assertNotIn("append", {kernel["family"] for kernel in self.kernels()})
        self.run_command(*ARCH[:3], "--shape", SHAPE + ",lens", "--budget", "0.01")
        self.assertEqual(1, len([kernel for kernel in self.kernels() if kernel["family"] == "append"]))
        self.assertRegex(self.run_command("list", "--all").stdout, r"sm_90a +append +appends ")

    def test_a_range_of_calls_is_compiled_after_its_plan(self):
        serve = [*ARCH[:3], "--model", "qwen3-8b,tp=8", "--serve", "batch=1..2,kv=64,page=16", "--budget", "0.01"]
        plan, *shapes, summary = self.run_command(*serve).stdout.splitlines()
        self.assertRegex(plan, r"^sm_90a  2 shapes, 0 ready; \d+ kernels, \d+ to compile; about .*, up to .* s$")
        self.assertEqual(len(shapes), 2)
        self.assertRegex(summary, r"^2 shapes in .*: 2 compiled$")

    def test_kernels_that_are_cached_need_no_compiling(self):
        before, = self.json_of(*ARCH[:3], "--shape", SHAPE, "--dry-run", db=self.path("none.db"))["plan"]
        after, = self.json_of(*ARCH[:3], "--shape", SHAPE, "--dry-run")["plan"]
        self.assertEqual(before["kernels"], before["to_compile"])
        self.assertEqual(after["kernels"], before["kernels"])
        self.assertLess(after["to_compile"], before["to_compile"])

    def test_the_docs_count_a_models_calls_rightly(self):
        text = (Path(__file__).resolve().parents[2] / "docs" / "keys.md").read_text()
        rows = re.findall(r"^\| `(batch=\S+)`.* \| (\d+) \| \d+ \|$", text, re.MULTILINE)
        self.assertEqual(len(rows), 3)
        for serve, shapes in rows:
            plan, = self.json_of(*ARCH[:3], "--model", "llama-3-8b", "--serve", serve, "--dry-run",
                                 db=self.path("none.db"))["plan"]
            self.assertEqual(plan["shapes"], int(shapes), serve)
            self.assertEqual(plan["to_compile"], plan["kernels"])

    def test_shapes_of_one_bucket_and_two_archs(self):
        with open(self.path("shapes.json"), "w") as file:
            json.dump([SHAPE, {"hq": 4, "hk": 2, "sq": 63, "sk": 64, "d": 64, "causal": True}], file)
        warmed = self.json_of("warm", "--arch", "sm_90a,sm_80", "--shapes", self.path("shapes.json"), "--shape", SHAPE,
                              "--budget", "0.01")
        self.assertEqual([shape["device"] for shape in warmed["shapes"]], ["sm_90a", "sm_80"])
        self.assertEqual({kernel["arch"] for kernel in self.kernels()}, {"sm_90a", "sm_80"})

    def test_list(self):
        kernels = self.kernels()
        self.assertGreater(len(kernels), 0)
        text = call("--db", self.db, "list", "--all", COLUMNS="1000").stdout
        for kernel in kernels:
            self.assertEqual(kernel["arch"], "sm_90a")
            self.assertIn(kernel["key"][:12], text)
            self.assertIn(kernel["candidate"], text)
        self.assertIn(f"0 winners and {len(kernels)} kernel", text)

    def test_show(self):
        key = next(each["key"] for each in self.kernels() if " m=" in each["candidate"])  # not the checker's
        source = self.run_command("show", key[:10], "--source").stdout
        self.assertIn("__global__", source)
        ptx = self.run_command("show", key.upper(), "--ptx").stdout
        self.assertRegex(ptx, r"\.target\s+sm_90a")
        shown = self.json_of("show", key)
        self.assertIsNone(shown["winner"])
        self.assertEqual(shown["kernel"]["key"], key)
        self.assertEqual(shown["kernel"]["source_bytes"], len(source.encode()))
        self.assertEqual(shown["kernel"]["ptx_bytes"], len(ptx.encode()))
        self.assertIn(key, self.run_command("show", key).stdout)

    def test_show_what_is_not_there(self):
        keys = [kernel["key"] for kernel in self.kernels()]
        absent = next(d for d in (f"{i:04x}" for i in range(65536)) if not any(k.startswith(d) for k in keys))
        self.assertIn(absent, self.run_command("show", absent, code=1).stderr)
        self.assertIn("xyz", self.run_command("show", "xyz", code=2).stderr)
        self.assertIn("'../../'", self.run_command("show", "../../", code=2).stderr)

    def test_check_and_repair(self):
        count = len(self.kernels())
        self.assertEqual(self.json_of("check"), {"whole": True, "damages": [], "mode": "read-only"})
        self.assertIn("whole", self.run_command("check").stdout)
        self.flip_a_byte(self.db)
        found = self.json_of("check", code=1)["damages"]
        self.assertEqual([(damage["table"], damage["repaired"]) for damage in found], [("kernels", False)])
        self.assertEqual(self.json_of("check", code=1)["damages"], found, "looking changes nothing")
        self.assertIn(found[0]["key"], self.run_command("check", code=1).stdout)
        self.assertTrue(self.json_of("check", "--repair", code=1)["damages"][0]["repaired"])
        self.assertTrue(self.json_of("check")["whole"])
        self.assertEqual(len(self.kernels()), count - 1)
        self.assertEqual(self.json_of("stats")["cache"]["quarantined"], 1)

    def test_export_and_import(self):
        out, other = self.path("kernels.gqa"), self.path("other.db")
        count = len(self.kernels())
        self.assertIn(f"0 winners and {count} kernel", self.run_command("export", out).stdout)
        self.run_command("import", out, db=other)
        mine, theirs = self.kernels(), self.kernels(db=other)
        self.assertEqual([kernel["key"] for kernel in mine], [kernel["key"] for kernel in theirs])
        key = mine[0]["key"]
        self.assertEqual(self.run_command("show", key, "--source").stdout,
                         self.run_command("show", key, "--source", db=other).stdout)

    def test_a_corrupt_export_is_refused_whole(self):
        out, other = self.path("kernels.gqa"), self.path("other.db")
        self.run_command("warm", "--arch", "sm_80", "--shape", SHAPE, "--budget", "0.01")  # a good row beside the bad
        self.assertGreater(len(self.kernels()), 1)
        self.run_command("export", out)
        self.flip_a_byte(out)
        error = self.run_command("import", out, code=1, db=other).stderr
        self.assertIn(out, error)
        self.assertIn("nothing was imported", error)
        self.assertEqual(self.kernels(db=other), [])
        with open(out, "r+b") as file:
            file.truncate(1000)
        self.run_command("import", out, code=1, db=other)
        self.assertEqual(self.kernels(db=other), [])
        self.run_command("import", self.path("none.gqa"), code=1, db=other)

    def test_prune(self):
        count = len(self.kernels())
        kept = self.json_of("prune", "--unused-for", "30", "--max-size", "1000")
        self.assertEqual((kept["kernels"], kept["left"]["kernels"]), (0, count))
        self.assertIn(f"left: 0 winners and {count} kernel", self.run_command("prune", "--unused-for", "30").stdout)
        pruned = self.json_of("prune", "--max-size", "0")
        self.assertEqual((pruned["kernels"], pruned["left"]["kernels"]), (count, 0))
        self.assertEqual(self.kernels(), [])

    def test_stats(self):
        stats = self.json_of("stats")
        self.assertEqual(stats["cache"]["kernels"], len(self.kernels()))
        self.assertEqual(stats["cache"]["winners"], 0)
        self.assertGreater(stats["cache"]["raw_bytes"], stats["cache"]["blob_bytes"])
        self.assertRegex(stats["nvrtc"], r"^NVRTC \d+\.\d+ at /")
        self.assertRegex(self.run_command("stats").stdout, rf"kernels +{stats['cache']['kernels']}\n")

    def test_a_read_only_cache_cannot_be_warmed(self):
        if os.geteuid() == 0:
            self.db = "/proc/gqa/cache.db"  # root may write anywhere else
        else:
            os.chmod(self.folder, 0o500)
            self.addCleanup(os.chmod, self.folder, 0o700)
            os.chmod(self.db, 0o400)
        self.assertIn(self.db, self.run_command(*ARCH, code=1).stderr)


if __name__ == "__main__":
    support.main(support.no_nvrtc)
