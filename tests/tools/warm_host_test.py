"""A real winner from the host device: tuned, kept, found again, shown with its evidence. Runs on any machine."""
import json
import os
import unittest

import support
from support import SHAPE, CacheTest

WARM = ["warm", "--device", "host", "--shape", SHAPE, "--budget", "2"]


class WarmHost(CacheTest):
    def winner(self, db=None):
        winners = self.json_of("list", db=db)["winners"]
        self.assertEqual(len(winners), 1)
        return winners[0]

    def test_tuned_then_from_the_cache(self):
        lines = self.run_command(*WARM).stdout.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], rf"^\S+  {SHAPE}  (flash|split) m=.*  \S+ [um]?s  error \S+ of \S+ allowed  tuned in")
        self.assertRegex(lines[1], r"^1 shape in .*: 1 tuned$")
        winner = self.winner()
        self.assertIn(winner["candidate"], lines[0])
        again = self.run_command(*WARM).stdout.splitlines()
        self.assertIn(winner["candidate"], again[0])
        self.assertTrue(again[0].endswith("from the cache"), again[0])
        self.assertRegex(again[1], r": 1 from the cache$")
        self.assertEqual(self.winner(), winner)

    def test_json_agrees_with_list_and_show(self):
        warmed = self.json_of(*WARM)["shapes"][0]
        winner = self.winner()
        self.assertEqual((warmed["problem"], warmed["from"], warmed["ready"]), (SHAPE, "tuned", True))
        self.assertEqual((winner["problem"], winner["candidate"]), (SHAPE, warmed["candidate"]))
        self.assertEqual((winner["median_us"], winner["error"]), (warmed["median_us"], warmed["error"]))
        self.assertGreater(winner["median_us"], 0)
        self.assertLessEqual(winner["error"], winner["bound"])
        self.assertEqual(warmed["outcomes"]["winner"], 1)
        shown = self.json_of("show", winner["key"][:8])
        self.assertEqual(shown["kernel"]["key"], winner["kernel"])
        attempts = shown["winner"].pop("evidence")["attempts"]
        self.assertEqual(shown["winner"], winner)
        self.assertEqual([a["candidate"] for a in attempts if a["outcome"] == "winner"], [winner["candidate"]])

    def test_show_as_text(self):
        self.run_command(*WARM)
        winner = self.winner()
        text = self.run_command("show", winner["key"]).stdout
        for part in (winner["key"], winner["kernel"], SHAPE, winner["device"], "OUTCOME", "winner"):
            self.assertIn(part, text)
        family = winner["candidate"].split()[0]  # flash or split, as the clock will have it
        self.assertIn(f"threads={family} ", self.run_command("show", winner["kernel"], "--source").stdout)
        self.assertIn("has no PTX", self.run_command("show", winner["key"], "--ptx", code=1).stderr)

    def test_a_winner_travels(self):
        self.run_command(*WARM)
        self.run_command("export", self.path("out.gqa"))
        self.run_command("import", self.path("out.gqa"), db=self.path("other.db"))
        there = self.run_command(*WARM, db=self.path("other.db")).stdout
        self.assertIn("1 from the cache", there)
        self.assertEqual(self.winner(self.path("other.db"))["median_us"], self.winner()["median_us"])

    def test_prune_takes_winners_too(self):
        self.run_command(*WARM)
        pruned = self.json_of("prune", "--max-size", "0")
        self.assertEqual((pruned["winners"], pruned["left"]["winners"], pruned["left"]["kernels"]), (1, 0, 0))

    def test_a_file_and_a_shape_in_one(self):
        with open(self.path("shapes.json"), "w") as file:
            json.dump([{"hq": 2, "sq": 1, "sk": 16, "d": 32}, "hq=2,sq=16,d=32"], file)
        warmed = self.json_of(*WARM, "--shapes", self.path("shapes.json"))["shapes"]
        self.assertEqual([shape["problem"] for shape in warmed],
                         [SHAPE, "b=1,hq=2,hk=2,sq=1,sk=16,d=32,dtype=bf16", "b=1,hq=2,hk=2,sq=16,sk=16,d=32,dtype=bf16"])
        self.assertEqual(len(self.json_of("list")["winners"]), 3)

    def test_a_cache_that_cannot_be_kept_is_an_error(self):
        self.assertIn("/proc/gqa", self.run_command(*WARM, code=1, db="/proc/gqa/cache.db").stderr)
        self.assertFalse(os.path.exists(self.db))


# The smallest heads of the table; a window, so that there are two kinds of layers.
SERVE = ["warm", "--device", "host", "--model", "gpt-oss-20b,tp=8", "--serve", "batch=1..2,kv=120..140,page=16",
         "--budget", "0.2"]
PLAN = r"^\S+  6 shapes, {} ready; {} kernels?, \d+ to compile; about \S+ s, up to \S+ s$"


class Serve(CacheTest):
    def test_the_plan_is_told_before_the_work_and_again_finds_all_of_it(self):
        lines = self.run_command(*SERVE).stdout.splitlines()
        self.assertRegex(lines[0], PLAN.format(0, r"\d+"))
        self.assertEqual(len(lines), 1 + 6 + 1)
        self.assertRegex(lines[-1], r"^6 shapes in .*: 6 tuned$")
        again = self.run_command(*SERVE).stdout.splitlines()
        self.assertRegex(again[0], PLAN.format(6, 0))
        self.assertRegex(again[-1], r": 6 from the cache$")

    def test_a_range_within_is_ready_and_one_beyond_is_not(self):
        self.run_command(*SERVE)
        plan = lambda serve: self.json_of(*SERVE[:-3], serve, "--dry-run")["plan"][0]
        within = plan("batch=2,kv=128,page=16")
        self.assertEqual((within["shapes"], within["ready"], within["seconds"], within["most_seconds"]), (1, 1, 0, 0))
        beyond = plan("batch=2..3,kv=140,page=16")
        self.assertEqual((beyond["shapes"], beyond["ready"]), (4, 2))  # two kinds of layers
        self.assertEqual(plan("batch=2,kv=128,page=16,lse")["ready"], 0)

    def test_a_dry_run_does_nothing(self):
        done = self.run_command(*SERVE, "--dry-run")
        self.assertRegex(done.stdout.rstrip("\n"), PLAN.format(0, r"[1-9]\d*"))
        self.assertEqual(os.listdir(self.folder), [])
        plan = self.json_of(*SERVE, "--dry-run")
        self.assertEqual((plan["shapes"], plan["plan"][0]["shapes"]), ([], 6))
        self.assertGreater(plan["plan"][0]["seconds"], 0)
        self.assertLessEqual(plan["plan"][0]["seconds"], plan["plan"][0]["most_seconds"])
        self.assertAlmostEqual(plan["plan"][0]["most_seconds"], 6 * 0.2)
        self.run_command(*WARM)  # a file, which a plan leaves as it is
        before = self.json_of("list")
        self.run_command(*SERVE, "--dry-run")
        self.assertEqual(self.json_of("list"), before)


if __name__ == "__main__":
    support.main()
