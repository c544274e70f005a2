"""`gqa-cache doctor`: what it says of a machine, and that it changes none.

The device is the host's: a GPU's driver is what this machine has of it.
"""
import getpass
import os
import shutil
import unittest

import support
from support import SHAPE, CacheTest, call

DECODE, PREFILL = "a decode on 4,096 keys", "a prefill of 2,048 tokens"


class Doctor(CacheTest):
    def doctor(self, *arguments, code=0, db=None):
        return self.json_of("doctor", "--device", "host", *arguments, code=code, db=db)

    def test_a_machine_that_has_cached_nothing(self):
        found = self.doctor()
        self.assertTrue(found["device"].startswith("host x86-64"), found["device"])
        self.assertFalse(found["gpu"])
        self.assertEqual(found["missing"], [])
        cache, = found["caches"]
        self.assertEqual((cache["path"], cache["exists"], cache["writable"], cache["winners"]), (self.db, False, True, 0))
        self.assertEqual([call["call"] for call in found["first_calls"]], [DECODE, PREFILL])
        for first in found["first_calls"]:
            self.assertFalse(first["ready"])
            self.assertGreater(first["most_seconds"], 0)
        self.assertEqual(os.listdir(self.folder), [], "it begins no file")

    def test_what_people_read(self):
        said = self.run_command("doctor", "--device", "host").stdout
        self.assertRegex(said, r"(?m)^device +host x86-64")
        self.assertRegex(said, r"(?m)^driver +\S")
        self.assertRegex(said, r"(?m)^NVRTC .*\(the CPU needs none\)$")
        self.assertIn(f"{self.db}: not there yet; the first call that tunes begins it", said)
        self.assertRegex(said, rf"(?m)^first call +{DECODE}: tunes for about .*, at most 8")
        self.assertTrue(said.endswith("nothing is missing\n"), said)
        self.assertIn(said.split()[1], call("--version").stdout)

    def test_a_call_that_is_known(self):
        self.run_command("warm", "--device", "host", "--budget", "0.2", "--shape", "b=1,hq=32,hk=8,sq=1,sk=4096,d=128")
        found = self.doctor()
        self.assertEqual([first["ready"] for first in found["first_calls"]], [True, False])
        cache, = found["caches"]
        self.assertEqual((cache["owner"], cache["winners"]), (getpass.getuser(), 1))
        self.assertEqual(cache["bytes"], os.path.getsize(self.db))
        self.assertIn(f"{DECODE}: is known; a look-up and a launch", self.run_command("doctor", "--device", "host").stdout)

    def test_files_beneath(self):
        self.run_command("warm", "--device", "host", "--budget", "0.2", "--shape", SHAPE)
        first, gone = self.path("first.db"), self.path("gone.db")
        found = self.doctor(db=f"{first}:{self.db}")
        self.assertEqual([(file["path"], file["written"], file["winners"]) for file in found["caches"]],
                         [(first, True, 0), (self.db, False, 1)])
        found = self.doctor(db=f"{first}:{gone}", code=1)
        self.assertEqual([missing["what"] for missing in found["missing"]], [f"{gone}: it is not there"])

    def test_files_that_cannot_be_used(self):
        with open(self.db, "w") as file:
            file.write("a shopping list")
        found = self.doctor(code=1)
        self.assertIn(self.db, found["missing"][0]["what"])
        self.assertIn("GQA_CACHE", found["missing"][0]["mend"])
        with open(self.db) as file:
            self.assertEqual(file.read(), "a shopping list")
        said = self.run_command("doctor", "--device", "host", code=1).stdout
        self.assertRegex(said, rf"(?m)^missing +{self.db}: ")
        self.assertIn("mended by: ", said)

    @unittest.skipIf(os.geteuid() == 0, "the superuser may write anywhere")
    def test_a_folder_that_cannot_be_written(self):
        locked = self.path("locked")
        os.mkdir(locked, 0o555)
        found = self.doctor(db=os.path.join(locked, "cache.db"), code=1)
        self.assertIn("forgotten with the process", found["missing"][0]["what"])

    @unittest.skipIf(shutil.which("nvidia-smi"), "this machine has a GPU")
    def test_a_gpu_that_is_not_there(self):
        found = self.json_of("doctor", "--device", "cuda", code=1)
        self.assertEqual((found["device"], found["first_calls"]), ("", []))
        self.assertIn("--gpus all", found["missing"][0]["mend"])
        self.assertEqual(self.json_of("doctor")["missing"], [], "auto takes the CPU then")

    def test_devices_that_are_none(self):
        self.refused("doctor", "--device", "abacus", naming=["abacus", "cuda:N"])

    def test_wrong_threads_are_named(self):
        done = call("--db", self.db, "doctor", "--device", "host", GQA_THREADS="many")
        self.assertEqual(done.returncode, 2)
        self.assertIn("GQA_THREADS", done.stderr)


if __name__ == "__main__":
    support.main()
