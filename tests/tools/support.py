"""What the tests of the command share.

Owns: running gqa-cache on a fresh cache in a fresh folder, with nothing of the caller's environment that it heeds.
Never: knows what a test is about. One thread.
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from in_folder import InFolder  # noqa: E402  # the folder is on the path just now

SKIPPED = 77  # ctest's SKIP_RETURN_CODE
SHAPE = "b=1,hq=4,hk=2,sq=64,sk=64,d=64,dtype=bf16,causal"
COMMANDS = ["warm", "list", "show", "forget", "tune", "check", "export", "import", "prune", "stats", "doctor",
            "help"]
PROGRAM = ""


def clean_environment(**more):
    heeded = {"GQA_CACHE", "XDG_CACHE_HOME", "NO_COLOR", "TERM", "COLUMNS"}
    return {**{k: v for k, v in os.environ.items() if k not in heeded}, "TERM": "xterm",
            "GQA_IGNORE_LOAD": "1", **more}  # other tests run beside these


def call(*arguments, **environment):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300,
                          env=clean_environment(**environment))


def all_of(terminal):
    """What was written to a terminal whose other end is closed; a read gives no more than a piece of it."""
    seen = b""
    try:
        while part := os.read(terminal, 65536):
            seen += part
    except OSError:  # how Linux says that the other end is closed
        pass
    return seen.decode()


class CacheTest(InFolder):
    def setUp(self):
        super().setUp()
        self.db = self.path("cache.db")

    def run_command(self, *arguments, code=0, db=None):
        """Runs it on self.db and gives what it wrote; the exit code must be `code`."""
        done = call("--db", db or self.db, *arguments)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        self.assertNotIn("\033", done.stdout + done.stderr, "an escape code, and no terminal")
        return done

    def json_of(self, *arguments, code=0, db=None):
        return json.loads(self.run_command(*arguments, "--json", code=code, db=db).stdout)

    def refused(self, *arguments, naming):
        """A usage error that names what was given, and begins no file."""
        done = self.run_command(*arguments, code=2)
        self.assertEqual(done.stdout, "")
        for text in naming:
            self.assertIn(text, done.stderr)
        self.assertFalse(os.path.exists(self.db))


def main(why_not=lambda: ""):
    """Runs the script's tests, or none of them: then says why and exits as skipped."""
    global PROGRAM
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    if reason := why_not():
        print("skipped:", reason)
        sys.exit(SKIPPED)
    unittest.main(module="__main__")


def no_nvrtc():
    found = json.loads(call("--db", "/nonexistent/cache.db", "stats", "--json").stdout)["nvrtc"]
    return "" if found.startswith("NVRTC ") else found
