"""Somebody else's file, as a shell meets it: every command names what it was given and leaves it alone."""
import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import unittest

import support
from support import SHAPE, CacheTest, call, clean_environment

WARM = ["warm", "--device", "host", "--shape", SHAPE, "--budget", "0.5"]
NOBODY = 65533


def snapshot(folder):
    """Names, bytes, inodes, modes and times of everything in a folder."""
    found = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        at = os.lstat(path)
        data = None
        if stat.S_ISREG(at.st_mode):
            with open(path, "rb") as file:
                data = file.read()
        found[name] = (data, at.st_ino, at.st_mode, at.st_mtime_ns)
    return found


class Foreign(CacheTest):
    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def every_command(self, path):
        export = ["export", os.path.join(self.elsewhere, "out.gqa")]
        for arguments in (["list"], ["show", "ab"], ["forget", "ab"], ["tune", "ab"], ["check"], ["check", "--repair"],
                          ["stats"], export,
                          ["prune", "--max-size", "0"], ["import", path], WARM):
            yield arguments

    def setUp(self):
        super().setUp()
        self.elsewhere = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.elsewhere)

    def left_alone(self, path, what, environment=False):
        before = snapshot(self.folder)
        for arguments in self.every_command(path):
            if environment:
                done = call(*arguments, GQA_CACHE=path)
                self.assertEqual(done.returncode, 1, done.stderr)
            else:
                done = self.run_command(*arguments, code=1, db=path)
            self.assertEqual(done.stdout == "", arguments != ["stats"], "stats tells of compiler and driver, too")
            self.assertEqual(done.stderr.count("warning: "), 1, f"said once\n{done.stderr}")
            self.assertIn(path, done.stderr)
            self.assertIn(what, done.stderr)
            self.assertEqual(snapshot(self.folder), before, arguments)
        self.assertEqual(os.listdir(self.elsewhere), [])

    def test_files_of_other_kinds(self):
        with open(sys.executable, "rb") as file:
            binary = file.read(100000)
        self.left_alone(self.write("notes.txt", b"dear diary\n"), "it is a text file")
        self.left_alone(self.write("program", binary), "it is an ELF binary")
        self.left_alone(self.write("noise", bytes(range(256)) * 50), "it is a binary file")

    def test_the_environments_file(self):
        self.left_alone(self.write("notes.txt", b"dear diary\n"), "it is a text file", environment=True)

    def test_a_system_file_through_a_link(self):
        before = snapshot("/etc")["passwd"]
        os.symlink("/etc/passwd", self.db)
        self.left_alone(self.db, "/etc/passwd is left untouched: it is a text file")
        self.assertEqual(snapshot("/etc")["passwd"], before)

    def test_what_is_no_file(self):
        os.mkdir(self.path("folder"))
        os.mkfifo(self.path("pipe"))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path("socket"))
            for name, what in [("folder", "a directory"), ("pipe", "a pipe"), ("socket", "a socket")]:
                self.left_alone(self.path(name), f"it is {what}")
        self.left_alone("/dev/null", "it is a device node")

    def test_another_programs_database(self):
        db = sqlite3.connect(self.db)
        self.addCleanup(db.close)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE mail(body)")
        db.execute("INSERT INTO mail VALUES('dear')")
        db.commit()  # and stays open, so that its log stays
        self.assertIn("cache.db-wal", os.listdir(self.folder))
        self.left_alone(self.db, "it is an SQLite database of another program")
        self.assertEqual(db.execute("SELECT body FROM mail").fetchall(), [("dear",)])

    def test_what_mktemp_makes_is_used(self):
        self.write("cache.db", b"")
        self.run_command("import", self.path("none.gqa"), code=1)
        self.assertEqual(self.json_of("check"), {"whole": True, "damages": [], "mode": "read-only"})

    def test_a_damaged_cache_of_ours_is_set_aside(self):
        self.run_command("import", self.path("none.gqa"), code=1)  # begins an empty cache
        with open(self.db, "r+b") as file:
            file.write(b"\x07" * 60)
        damaged = snapshot(self.folder)["cache.db"][0]
        done = self.run_command("check", "--repair", code=1)
        self.assertIn("set aside as", done.stderr)
        aside = [name for name in os.listdir(self.folder) if ".damaged-" in name]
        self.assertEqual([snapshot(self.folder)[name][0] for name in aside], [damaged])
        self.assertEqual(self.json_of("check")["whole"], True)


class Export(CacheTest):
    def setUp(self):
        super().setUp()
        self.run_command("import", self.path("none.gqa"), code=1)  # begins an empty cache
        os.mkdir(self.path("out"))

    def out(self, name):
        return os.path.join(self.path("out"), name)

    def refused_export(self, path, what):
        before = snapshot(self.path("out"))
        done = self.run_command("export", path, code=1)
        self.assertEqual(done.stdout, "")
        self.assertIn(f"error: {path} is left untouched", done.stderr)
        self.assertIn(what, done.stderr)
        self.assertEqual(snapshot(self.path("out")), before)

    def test_over_an_older_one(self):
        for _ in range(2):
            self.run_command("export", self.out("out.gqa"))
        self.assertEqual(os.listdir(self.path("out")), ["out.gqa"], "one file, nothing beside it")

    def test_never_over_anything_else(self):
        with open(self.out("notes.txt"), "w") as file:
            file.write("dear diary\n")
        self.refused_export(self.out("notes.txt"), "it is a text file")
        self.refused_export(self.path("out"), "it is a directory")
        os.mkfifo(self.out("pipe"))
        self.refused_export(self.out("pipe"), "it is a pipe")
        self.run_command("export", self.out("out.gqa"))
        for target in ("out.gqa", "nothing", "/dev/null"):
            os.symlink(target, self.out("link"))
            self.refused_export(self.out("link"), "it is a link")
            os.unlink(self.out("link"))
        self.refused_export("/dev/null", "it is a device node")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        self.refused_export(self.db, "it is a database in use")

    def test_a_device_node_that_root_could_replace(self):
        if os.geteuid() != 0:
            self.skipTest("only root makes device nodes")
        os.mknod(self.out("null"), 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        self.refused_export(self.out("null"), "it is a device node")

    def test_empty_names_are_usage_errors(self):
        for command in ("export", "import"):
            done = self.run_command(command, "", code=2)
            self.assertIn("FILE", done.stderr)
            self.assertIn("''", done.stderr)

    def test_import_names_what_it_was_given(self):
        for path, what in [("/dev/null", "a device node"), (self.folder, "a directory"), ("/etc/passwd", "a text file")]:
            done = self.run_command("import", path, code=1)
            self.assertIn(f"{path} is refused: it is {what}", done.stderr)
            self.assertIn("nothing was imported", done.stderr)


class ReadOnly(CacheTest):
    def setUp(self):
        super().setUp()
        self.run_command("import", self.path("none.gqa"), code=1)

    def reads_and_does_not_write(self, run):
        before = snapshot(self.folder)
        self.assertIn("0 winners and 0 kernels", run("list", code=0).stdout)
        self.assertIn("whole", run("check", code=0).stdout)
        for arguments in (["prune", "--max-size", "0"], ["check", "--repair"], ["forget", "ab"], ["tune", "ab"], WARM):
            done = run(*arguments, code=1)
            self.assertEqual(done.stderr.count("nothing new will be kept"), 1, done.stderr)
            self.assertIn(self.db, done.stderr)
        self.assertEqual(snapshot(self.folder), before)

    def test_mode_0444(self):
        os.chmod(self.db, 0o444)
        self.reads_and_does_not_write(self.run_command)

    def test_roots_file_and_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        os.chmod(self.folder, 0o755)
        os.chmod(self.db, 0o644)
        program = os.path.join(self.folder, "gqa-cache")
        shutil.copy(support.PROGRAM, program)  # where that user can reach it

        def run(*arguments, code):
            done = subprocess.run([program, "--db", self.db, *arguments], capture_output=True, text=True, timeout=300,
                                  env=clean_environment(), user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
            self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
            return done

        self.reads_and_does_not_write(run)

    def test_another_users_file(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give files away")
        os.chown(self.db, NOBODY, NOBODY)
        before = snapshot(self.folder)
        for arguments in (["list"], ["prune", "--max-size", "0"], WARM):
            done = self.run_command(*arguments, code=1)
            self.assertIn(f"{self.db} belongs to user {NOBODY}", done.stderr)
        self.assertEqual(snapshot(self.folder), before)


if __name__ == "__main__":
    support.main()
