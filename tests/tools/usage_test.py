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
            operand = ["ab"] if command in ("show", "forget", "tune", "export", "import") else []
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
        for option in ("--version", "-V"):
            self.assertRegex(call(option).stdout, r"^gqa-cache \d+\.\d+\.\d+\n$")

    def test_what_was_probably_meant(self):
        for arguments, meant in [(["lst"], "list"), (["lsit", "--all"], "list"), (["exprot", "a"], "export"),
                                 (["list", "--al"], "--all"), (["list", "--jsno"], "--json"),
                                 (["prune", "--unused_for=3"], "--unused-for"), (["list", "--bd", "x"], "--db"),
                                 (["help", "spce"], "spec"), (["help", "servr"], "serve")]:
            self.refused(*arguments, naming=[f"did you mean '{meant}'?"])
        for arguments in (["polish"], ["list", "lsit"], ["list", "--loud"], ["help", "polish"]):
            self.assertNotIn("did you mean", self.run_command(*arguments, code=2).stderr)

    def test_json_before_or_behind_the_command(self):
        for command in ("stats", "list", "check"):
            if command == "list":
                self.run_command("import", self.path("none.gqa"), code=1)  # begins an empty cache
            before, behind = (self.run_command(*words).stdout for words in (["--json", command], [command, "--json"]))
            self.assertEqual(json.loads(before), json.loads(behind))

    def test_json_of_what_lists_nothing(self):
        for arguments in (["--json", "help"], ["help", "--json"], ["--json", "import", "a"]):
            self.refused(*arguments, naming=["--json", "help" if "help" in arguments else "import"])
        self.refused("--json", "show", "ab", "--source", naming=["--source", "--json"])

    def test_short_numbers(self):
        plan = lambda *words: self.json_of("warm", "--device", "host", "--dry-run", *words)["plan"]
        self.assertEqual(plan("--shape", "hq=2,sq=1k,d=32"), plan("--shape", "hq=2,sq=1024,d=32"))
        self.assertEqual(plan("--budget", "1k", "--shape", "hq=2,sq=64,d=32")[0]["most_seconds"], 1024)
        self.run_command("import", self.path("none.gqa"), code=1)  # begins an empty cache
        self.run_command("prune", "--unused-for", "1k", "--max-size", "4K")
        for given in ("4kk", "k", "0.5k"):
            self.assertIn(given, self.run_command("prune", "--max-size", given, code=2).stderr)

    def test_the_old_name_of_check(self):
        self.run_command("import", self.path("none.gqa"), code=1)  # begins an empty cache
        self.assertEqual(self.run_command("verify").stdout, self.run_command("check").stdout)
        self.assertEqual(self.json_of("verify"), self.json_of("check"))
        self.assertEqual(call("help", "verify").stdout, call("help", "check").stdout)

    def test_no_file_is_a_failure_that_begins_none(self):
        for arguments in (["list"], ["show", "ab"], ["forget", "ab"], ["tune", "ab"], ["check"], ["check", "--repair"],
                          ["prune", "--max-size", "1"], ["export", self.path("out.gqa")]):
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
        for arguments in (["list"], ["check"], ["stats"], ["export", self.path("out.gqa")], ["import", self.db]):
            self.assertIn("chmod go-w", self.run_command(*arguments, code=1).stderr)

    def test_a_device_that_is_not_there_is_a_failure(self):
        done = self.run_command("warm", "--shape", SHAPE, "--device", "cuda:63", code=1)
        self.assertRegex(done.stderr, "(?i)cuda")
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_file_that_is_no_cache(self):
        with open(self.db, "wb") as file:
            file.write(b"no database " * 1000)
        for arguments in (["list"], ["show", "ab"], ["check"], ["stats"], ["export", self.path("out.gqa")]):
            self.assertIn(self.db, self.run_command(*arguments, code=1).stderr)
        self.assertIn("it is a text file", self.run_command("check", "--repair", code=1).stderr)
        self.assertEqual(os.path.getsize(self.db), 12000, "neither looking nor repairing changes it")

    def test_a_newer_schema_is_left_alone(self):
        self.run_command("import", self.path("none.gqa"), code=1)  # begins an empty file
        with sqlite3.connect(self.db) as db:
            db.execute("PRAGMA user_version=999")
        db.close()
        for arguments in (["list"], ["prune", "--max-size", "0"], ["check", "--repair"],
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
