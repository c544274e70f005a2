"""The command line: what is refused, with which exit code and which words; help and examples."""
import json
import os
import sqlite3
import subprocess
import unittest

import support
from support import COMMANDS, SHAPE, CacheTest, call


class Usage(CacheTest):
    def test_no_command_and_unknown_words(self):
        self.refused(naming=["warm", "stats"])
        self.refused("polish", naming=["polish"])
        self.refused("list", "stats", naming=["stats"])
        self.refused("list", "--loud", naming=["--loud"])
        for command in COMMANDS:
            operand = ["ab"] if command in ("show", "export", "import") else []
            self.refused(command, *operand, "--nonsense", naming=["--nonsense"])

    def test_shapes(self):
        self.refused("warm", naming=["--shape", "--shapes", "--model"])
        self.refused("warm", "--shape", naming=["--shape"])
        self.refused("warm", "--shape", "hq=32,sq=bad,d=128", naming=["hq=32,sq=bad,d=128", "'bad'"])
        self.refused("warm", "--shape", "hq=32,sq=64,d=77", naming=["77", "128"])
        self.refused("warm", "--shape", "hq=32,hk=5,sq=64,d=64", naming=["32", "5"])
        self.refused("warm", "--model", "gpt-0", naming=["'gpt-0'", "llama-3-8b", "gpt-oss-20b"])
        self.refused("warm", "--model", "llama-3-8b,tp=3", naming=["tp=3", "32 query heads"])
        self.refused("warm", "--model", "llama-3-8b,pp=2", naming=["'pp=2'", "tp=N"])

    def test_serving_ranges(self):
        self.refused("warm", "--serve", "batch=1..8,kv=1k", naming=["batch=1..8,kv=1k", "without a model", "--model"])
        for given, naming in [
            ("batch=8..1,kv=1k", ["batch='8..1'", "backwards", "batch=1..8"]),
            ("batch=0..8,kv=1k", ["batch='0..8'", "from 1"]),
            ("batch=1..8,kv=1k,heads=8", ["unknown key 'heads'", "page", "chunk"]),
            ("batch=1..8", ["kv is missing"]),
            ("", ["an empty range"]),
        ]:
            self.refused("warm", "--model", "llama-3-8b", "--serve", given, naming=[*naming, "gqa-cache help serve"])

    def test_shape_files(self):
        self.refused("warm", "--shapes", self.path("none.json"), naming=["none.json", "No such file"])
        self.refused("warm", "--shapes", self.folder, naming=[self.folder])
        for text, naming in [
            ("{", ["not JSON"]),
            ("{}", ["object", "expected an array"]),
            ("[]", ["no shape"]),
            ("[7]", ["element 1", "number"]),
            ('["hq=4,sq=8,d=64", {"hq": 4, "sq": 8, "d": 64, "dtype": "f64"}]', ["element 2", "f64"]),
            ('[{"hq": 4, "sq": 8.5, "d": 64}]', ["'sq'", "8.5"]),
            ('[{"hq": 4, "sq": "8,sk=9", "d": 64}]', ["'sq'", "8,sk=9"]),
        ]:
            with open(self.path("shapes.json"), "w") as file:
                file.write(text)
            self.refused("warm", "--shapes", self.path("shapes.json"), naming=naming)

    def test_devices_and_budgets(self):
        self.refused("warm", "--shape", SHAPE, "--device", "abacus", naming=["abacus", "cuda:N"])
        self.refused("warm", "--shape", SHAPE, "--arch", "sm_12x", naming=["sm_12x", "sm_90a"])
        self.refused("warm", "--shape", SHAPE, "--arch", "sm_90a", "--device", "host", naming=["--arch", "--device"])
        self.refused("warm", "--shape", SHAPE, "--budget", "0", naming=["--budget", "0"])
        self.refused("warm", "--shape", SHAPE, "--budget", "soon", naming=["soon"])

    def test_other_commands(self):
        self.refused("show", naming=["KEY"])
        self.refused("show", "ab", "--source", "--ptx", naming=["--source", "--ptx"])
        self.refused("show", "ab", "--source", "--json", naming=["--source", "--json"])
        self.refused("export", naming=["FILE"])
        self.refused("import", naming=["FILE"])
        self.refused("export", "a", "--json", naming=["--json"])
        self.refused("prune", naming=["--unused-for", "--max-size"])
        self.refused("prune", "--unused-for", "-1", naming=["-1"])
        self.refused("prune", "--max-size", "much", naming=["much"])
        self.assertEqual(call("--db", "", "list").returncode, 2)

    def test_help_has_an_example_of_each(self):
        self.assertIn("gqa-cache warm", call("--help").stdout)
        for command in COMMANDS:
            done = call(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("Example", done.stdout)
            self.assertIn(f"gqa-cache {command}", done.stdout.split("Example")[1])
            self.assertIn(command, call("--help").stdout)

    def test_version(self):
        self.assertRegex(call("--version").stdout, r"^gqa-cache \d+\.\d+\.\d+\n$")

    def test_no_file_is_a_failure_that_begins_none(self):
        for arguments in (["list"], ["show", "ab"], ["verify"], ["verify", "--repair"], ["prune", "--max-size", "1"],
                          ["export", self.path("out.gqa")]):
            done = self.run_command(*arguments, code=1)
            self.assertIn(self.db, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertEqual(os.listdir(self.folder), [])

    def test_stats_needs_no_file(self):
        stats = self.json_of("stats")
        self.assertEqual((stats["cache"], stats["path"]), (None, self.db))
        text = self.run_command("stats").stdout
        self.assertIn(stats["nvrtc"], text)
        self.assertIn(stats["driver"], text)

    def test_the_cache_of_the_environment(self):
        self.assertEqual(json.loads(call("stats", "--json", GQA_CACHE=self.db).stdout)["path"], self.db)
        self.assertEqual(json.loads(call("stats", "--json", "--db", self.db, GQA_CACHE="/x").stdout)["path"], self.db)

    def test_a_cache_that_cannot_be_trusted_is_an_error(self):
        os.chmod(self.folder, 0o777)
        with open(self.db, "w"):
            pass
        for arguments in (["list"], ["verify"], ["stats"], ["export", self.path("out.gqa")], ["import", self.db]):
            self.assertIn("chmod go-w", self.run_command(*arguments, code=1).stderr)

    def test_a_device_that_is_not_there_is_a_failure(self):
        done = self.run_command("warm", "--shape", SHAPE, "--device", "cuda:63", code=1)
        self.assertRegex(done.stderr, "(?i)cuda")
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_file_that_is_no_cache(self):
        with open(self.db, "wb") as file:
            file.write(b"no database " * 1000)
        for arguments in (["list"], ["show", "ab"], ["verify"], ["stats"], ["export", self.path("out.gqa")]):
            self.assertIn(self.db, self.run_command(*arguments, code=1).stderr)
        self.assertIn("it is a text file", self.run_command("verify", "--repair", code=1).stderr)
        self.assertEqual(os.path.getsize(self.db), 12000, "neither looking nor repairing changes it")

    def test_a_newer_schema_is_left_alone(self):
        self.run_command("import", self.path("none.gqa"), code=1)  # begins an empty file
        with sqlite3.connect(self.db) as db:
            db.execute("PRAGMA user_version=999")
        db.close()
        for arguments in (["list"], ["prune", "--max-size", "0"], ["verify", "--repair"],
                          ["warm", "--device", "host", "--shape", SHAPE]):
            self.assertIn("999", self.run_command(*arguments, code=1).stderr)
        with sqlite3.connect(self.db) as db:
            self.assertEqual(db.execute("PRAGMA user_version").fetchone()[0], 999)
        db.close()

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([support.PROGRAM, "stats", "--db", self.db], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write", done.stderr)


if __name__ == "__main__":
    support.main()
