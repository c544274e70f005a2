"""`gqa-cache list`: a line a winner, no wider than asked for, filtered, the newest first. On the host device."""
import os
import shutil
import tempfile
import time
import unittest

import support
from support import CacheTest, call

DECODE, PREFILL = "hq=2,sq=1,sk=64,d=32", "hq=4,hk=2,sq=64,d=64,causal"
TUNE = ["warm", "--device", "host", "--budget", "2", "--shape"]


class List(CacheTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.template = os.path.join(folder.name, "cache.db")
        for shape in (DECODE, PREFILL):
            done = call("--db", cls.template, *TUNE, shape)
            assert done.returncode == 0, done.stderr
            time.sleep(1.1)  # rows are dated in whole seconds

    def setUp(self):
        super().setUp()
        shutil.copy(self.template, self.db)

    def lines(self, *arguments, columns=None):
        done = call("--db", self.db, "list", *arguments, **({"COLUMNS": str(columns)} if columns else {}))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_a_line_a_winner_the_newest_first(self):
        head, *winners, blank, summary = self.lines(columns=300)
        self.assertEqual(head.split(), ["WINNER", "AGE", "DEVICE", "TIME", "SHAPE", "CANDIDATE", "COMPILER"])
        listed = self.json_of("list")["winners"]
        self.assertEqual([line.split()[0] for line in winners], [row["key"][:12] for row in listed])
        self.assertIn(PREFILL, winners[0], "the newest; without b=1, sk=64 and dtype=bf16, which are the defaults")
        self.assertIn(listed[0]["candidate"], winners[0])
        self.assertNotIn("dtype", winners[0])
        self.assertEqual(blank, "")
        self.assertRegex(summary, r"^2 winners and \d+ kernels in .*; --all lists the kernels, too$")

    def test_no_line_is_wider_than_asked_for(self):
        for columns in (None, 20, 60, 100):
            lines = self.lines("--all", columns=columns)[:-1]
            self.assertLessEqual(max(map(len, lines)), columns or 80)
            self.assertGreater(len(lines), 6)
        self.assertTrue(any(line.endswith("..") for line in self.lines()), "cut, and said so")
        self.assertEqual(self.lines(columns="wide"), self.lines())

    def test_filters(self):
        one = lambda *arguments: [row["key"] for row in self.json_of("list", *arguments)["winners"]]
        prefill, decode = one()
        self.assertEqual(one("--shape", "causal"), [prefill])
        self.assertEqual(one("--shape", "hq=2,sk=60"), [decode])
        self.assertEqual(one("--shape", "hq=2,causal"), [])
        self.assertEqual(one("--device", "host"), [prefill, decode])
        self.assertEqual(one("--device", "sm_90a"), [])
        self.assertEqual(one("--newer-than", "1h"), [prefill, decode])
        self.assertEqual(one("--older-than", "1h"), [])
        self.assertRegex(self.lines("--shape", "causal")[-1], r"^1 of 2 winners and \d+ of \d+ kernels in ")

    def test_filters_that_cannot_be_read(self):
        for arguments, naming in [(["--shape", "heads=3"], "'heads'"), (["--newer-than", "soon"], "'soon'"),
                                  (["--older-than", "3w"], "30m")]:
            self.assertIn(naming, self.run_command("list", *arguments, code=2).stderr)

    def test_the_losers_on_request(self):
        rows = self.json_of("list", "--all")["winners"]
        losers = [loser for row in rows for loser in row["losers"]]
        for row in rows:
            tried = self.json_of("show", row["key"])["winner"]["evidence"]["attempts"]
            self.assertEqual({each["candidate"] for each in tried} - {row["candidate"]},
                             {each["candidate"] for each in row["losers"]})
        self.assertNotIn("losers", self.json_of("list")["winners"][0])
        text = "\n".join(self.lines("--all", columns=300))
        for loser in losers:
            self.assertIn(loser["candidate"], text)
        for kernel in self.json_of("list")["kernels"]:
            self.assertIn(kernel["key"][:12], text)
            self.assertNotIn(kernel["key"][:12], "\n".join(self.lines(columns=300)))


if __name__ == "__main__":
    support.main()
