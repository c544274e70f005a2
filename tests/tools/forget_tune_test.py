"""`gqa-cache forget KEY` and `tune KEY`: one winner goes, or is raced again. On the host device."""
import os
import shutil
import tempfile

import support
from support import CacheTest, call

SHAPES = ["hq=2,sq=1,sk=64,d=32", "hq=4,hk=2,sq=64,d=64,causal"]
TUNE = ["warm", "--device", "host", "--budget", "0.5"]


class OneWinner(CacheTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.template = os.path.join(folder.name, "cache.db")
        done = call("--db", cls.template, *TUNE, *[word for shape in SHAPES for word in ("--shape", shape)])
        assert done.returncode == 0, done.stderr

    def setUp(self):
        super().setUp()
        shutil.copy(self.template, self.db)

    def winners(self):
        return {row["key"]: row for row in self.json_of("list")["winners"]}

    def kernels(self):
        return {row["key"] for row in self.json_of("list")["kernels"]}

    def causal(self):
        return next(row for row in self.winners().values() if "causal" in row["problem"])

    def test_forget_takes_the_winner_and_its_kernels(self):
        winner, before, kernels = self.causal(), self.winners(), self.kernels()
        said = self.run_command("forget", winner["key"][:12]).stdout
        for part in (winner["key"][:12], SHAPES[1], winner["candidate"], "1 kernel"):
            self.assertIn(part, said)
        del before[winner["key"]]
        self.assertEqual(self.winners(), before)
        self.assertEqual(kernels - self.kernels(), set(winner["kernels"]))
        self.assertTrue(self.json_of("check")["whole"])
        self.assertIn(winner["key"][:12], self.run_command("forget", winner["key"][:12], code=1).stderr)

    def test_keys_that_name_no_winner(self):
        before = self.winners()
        kernel = next(iter(self.kernels()))
        absent = next(f"{i:04x}" for i in range(65536)
                      if not any(key.startswith(f"{i:04x}") for key in [*before, *self.kernels()]))
        for command in ("forget", "tune"):
            self.assertIn("begins the key of a kernel", self.run_command(command, kernel, code=1).stderr)
            self.assertIn(f"'{absent}'", self.run_command(command, absent, code=1).stderr)
            self.assertIn("'xyz'", self.run_command(command, "xyz", code=2).stderr)
            self.assertIn("KEY", self.run_command(command, code=2).stderr)
        self.assertEqual(self.winners(), before)

    def test_tune_races_again_and_keeps_one(self):
        winner = self.causal()
        told = self.json_of("tune", winner["key"][:12], "--budget", "0.5")
        self.assertEqual(told["before"], winner)
        self.assertEqual((told["now"]["key"], told["now"]["problem"]), (winner["key"], winner["problem"]))
        self.assertGreater(told["now"]["median_us"], 0)
        self.assertNotEqual(told["now"]["median_us"], winner["median_us"], "measured again")
        stays = self.causal()
        self.assertEqual(len(self.winners()), 2)
        if told["kept"]:
            self.assertEqual(stays["median_us"], told["now"]["median_us"])
        else:
            self.assertEqual(stays, winner)
            self.assertTrue(told["why"])
        text = self.run_command("tune", winner["key"], "--budget", "0.5").stdout
        self.assertRegex(text, r"(?s)before .* [um]s\n.*now .* [um]s\n.*(is kept|stays: )")

    def test_what_appends_comes_with_lengths_and_has_no_rival(self):
        self.run_command("warm", "--device", "host", "--budget", "0.5", "--shape", SHAPES[0] + ",lens,lse")
        found = {row["problem"]: row for row in self.winners().values()}
        self.assertLess({"append", "merge"}, set(found))
        self.assertLessEqual(found["append"]["error"], found["append"]["bound"])
        self.assertFalse(found["append"]["provisional"])
        key = found["append"]["key"][:12]
        self.assertIn("one kernel appends to a cache for all shapes", self.run_command("tune", key, code=1).stderr)
        self.assertIn("append", self.run_command("list").stdout)
        self.run_command("forget", key)
        self.assertNotIn("append", {row["problem"] for row in self.winners().values()})

    def test_tune_elsewhere_is_refused(self):
        winner = self.causal()
        done = self.run_command("tune", winner["key"], "--device", "abacus", code=2)
        self.assertIn("abacus", done.stderr)
        self.assertEqual(self.causal(), winner)


if __name__ == "__main__":
    support.main()
