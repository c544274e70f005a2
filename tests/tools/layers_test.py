"""Several cache files as one (`GQA_CACHE=user.db:image.db`), and what `warm --output` makes. On the host device."""
import os

import support
from support import CacheTest, call

SHAPE = "hq=2,sq=1,sk=64,d=32"
OTHER = "hq=4,hk=2,sq=1,sk=64,d=32"
TUNE = ["warm", "--device", "host", "--budget", "0.5", "--shape"]


class Layers(CacheTest):
    def setUp(self):
        super().setUp()
        self.image = self.path("image.db")
        self.run_command(*TUNE, SHAPE, "--output", self.image)
        self.both = f"{self.path('user.db')}:{self.image}"
        with open(self.image, "rb") as file:
            self.image_bytes = file.read()

    def tearDown(self):
        with open(self.image, "rb") as file:
            self.assertEqual(file.read(), self.image_bytes, "a file beneath was written")

    def test_what_was_warmed_elsewhere_is_not_tuned_again(self):
        told = self.json_of(*TUNE, OTHER, db=self.both)
        self.assertEqual([shape["from"] for shape in told["shapes"]], ["tuned"])
        files = {row["problem"]: row["file"] for row in self.json_of("list", db=self.both)["winners"]}
        self.assertEqual(sorted(files.values()), sorted(self.both.split(":")))
        self.assertEqual(len(self.json_of("list", db=self.path("user.db"))["winners"]), 1)
        came = {row["file"]: row["elsewhere"] for row in self.json_of("list", db=self.both)["winners"]}
        self.assertEqual(came, {self.path("user.db"): "", self.image: self.image})
        wide = call("list", GQA_CACHE=self.both, COLUMNS="400")
        told = self.json_of(*TUNE, SHAPE, "--shape", OTHER, db=self.both)
        self.assertEqual([shape["from"] for shape in told["shapes"]], ["cache", "cache"])
        self.assertEqual(len(self.json_of("list", db=self.path("user.db"))["winners"]), 2, "it is verified here now")
        for path in self.both.split(":"):
            self.assertIn(path, wide.stdout)
        self.assertNotIn("FILE", self.run_command("list").stdout, "there is one file")

    def test_an_imported_winner_is_told_until_it_is_verified(self):
        other = self.path("other.db")
        self.run_command("import", self.image, db=other)
        winner = self.json_of("list", db=other)["winners"][0]
        self.assertEqual(winner["elsewhere"], other)
        self.assertIn("verified here before its first use", self.run_command("show", winner["key"], db=other).stdout)
        self.assertEqual(self.json_of(*TUNE, SHAPE, db=other)["shapes"][0]["from"], "cache")
        self.assertEqual(self.json_of("list", db=other)["winners"][0]["elsewhere"], "")
        self.assertNotIn("verified here", self.run_command("show", winner["key"], db=other).stdout)

    def test_stats_names_each_file(self):
        self.assertEqual(self.json_of("stats", db=self.both)["paths"], self.both.split(":"))
        self.assertIn(f"beneath it   {self.image}\n", self.run_command("stats", db=self.both).stdout)
        self.assertNotIn("beneath", self.run_command("stats").stdout)

    def test_a_reader_needs_no_first_file(self):
        self.assertEqual(len(self.json_of("list", db=self.both)["winners"]), 1)
        self.assertTrue(self.json_of("check", db=self.both)["whole"])
        self.assertFalse(os.path.exists(self.path("user.db")))

    def test_forget_of_a_winner_beneath_is_refused_by_name(self):
        key = self.json_of("list", db=self.both)["winners"][0]["key"]
        self.assertIn(self.image, self.run_command("forget", key, db=self.both, code=1).stderr)
        self.assertEqual(len(self.json_of("list", db=self.both)["winners"]), 1)

    def test_an_export_has_the_rows_of_all(self):
        self.run_command(*TUNE, OTHER, db=self.both)
        self.assertIn("2 winners", self.run_command("export", self.path("all.gqa"), db=self.both).stdout)
        self.assertEqual(len(self.json_of("list", db=self.path("all.gqa"))["winners"]), 2)

    def test_a_colon_in_a_path(self):
        self.run_command(*TUNE, SHAPE, db=self.path("a\\:b.db"))
        self.assertTrue(os.path.exists(self.path("a:b.db")))

    def test_outputs_that_cannot_be(self):
        for path, word in ((self.path("no/such/file"), "no folder"), (self.folder, "is a folder"), ("", "''")):
            done = self.run_command(*TUNE, OTHER, "--output", path, code=2)
            self.assertIn(word, done.stderr)
        done = self.run_command(*TUNE, OTHER, "--output", self.path("x"), "--dry-run", code=2)
        self.assertIn("--dry-run", done.stderr)


if __name__ == "__main__":
    support.main()
