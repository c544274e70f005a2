"""The scripts of tools/: what they refuse, what they show, and tools/fresh with every program that it runs played here.

Owns: stand-ins for debootstrap, chroot, mount and apt's tools, in a folder that comes first on PATH.
Never: needs root or a network; nothing is mounted and no root is made.
"""
import json
import os
import pty
import re
import shutil
import stat
import subprocess
import unittest

import support

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")

STAND_INS = {
    "unshare": 'shift 3; exec "$@"',  # past --mount --propagation private
    "mount": "exit 0",
    "umount": "exit 0",
    "git": 'echo git "$@" >>"$PLAYED"',
    "debootstrap": 'echo "debootstrap $* proxy=$http_proxy" >>"$PLAYED"; mkdir -p "$3/dev" "$3/root"; exit ${BOOT:-0}',
    "chroot": 'cat "$1/etc/apt/apt.conf.d/90taken-over" "$1$PIP_CONFIG_FILE" >>"$PLAYED"; echo "inside: $*" >>"$PLAYED"\n'
              'case $* in *tools/demo) exit ${DEMO:-0} ;; esac; exit ${TESTS:-0}',
    "apt-get": "printf 'http://mirror.example/ubuntu/\\nhttp://mirror.example/debian/\\n'",
    "apt-config": 'if [ "$1" = shell ]; then echo "$2=http://proxy.example:3128"; else\n'
                  "printf 'Acquire::http::Proxy \"http://proxy.example:3128\";\\nAcquire::http::Proxy-Auto-Detect \"/x\";\\n"
                  "Acquire::IndexTargets::deb \"\";\\n'; fi",
}


class Scripts(support.InFolder):
    def tool(self, name, *arguments, code=0, **environment):
        done = subprocess.run([os.path.join(TOOLS, name), *arguments], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **environment})
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr


class Usage(Scripts):
    def test_help_has_an_example_of_each(self):
        for name in ("demo", "fresh", "package", "packaging/newcomer", "progress", "setup"):
            example = "fresh trixie --packages" if name == "packaging/newcomer" else name
            self.assertIn(f"example: tools/{example}", self.tool(name, "--help"))

    def test_what_they_do_not_know_is_refused(self):
        for name, arguments in [("demo", ["--shapes"]), ("demo", ["--shape"]), ("setup", ["--demos"]), ("progress", []),
                                ("progress", ["log"]), ("fresh", []), ("fresh", ["sid"]), ("fresh", ["--test"]),
                                ("fresh", ["trixie", "--in"]), ("package", ["--pythons"]),
                                ("packaging/newcomer", ["wheels"])]:
            self.assertIn("usage: tools/" + name, self.tool(name, *arguments, code=2))
        self.assertIn("'sid'", self.tool("fresh", "sid", code=2))


@unittest.skipUnless(shutil.which("cmake") and shutil.which("ninja"), "no CMake with Ninja on PATH")
class Builds(Scripts):
    """What a build is told, by its compile commands; none is run."""

    def commands(self, *options):
        given = [f"-DGQA_CUDA_INCLUDE={os.environ['GQA_CUDA_INCLUDE']}"] if "GQA_CUDA_INCLUDE" in os.environ else []
        done = subprocess.run(["cmake", "-S", os.path.join(TOOLS, ".."), "-B", self.path("build"), *given, *options],
                              cwd=os.path.join(TOOLS, ".."), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.path("build/compile_commands.json")) as file:
            return {os.path.basename(entry["file"]): entry["command"] for entry in json.load(file)}

    def test_a_users_build_has_warnings_but_none_is_an_error(self):
        for command in self.commands("-G", "Ninja", "-DGQA_TESTS=OFF").values():
            self.assertIn("-Wall", command)
            self.assertNotIn("-Werror", command)

    def test_ours_stops_at_a_warning(self):
        for command in self.commands("--preset", "release", "-DGQA_TESTS=OFF").values():
            self.assertIn("-Werror", command)

    def test_the_demo_needs_no_package_of_the_tests(self):
        commands = self.commands("-G", "Ninja", "-DGQA_TESTS=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON",
                                 "-DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON")
        self.assertIn("demo.cc", commands)
        self.assertNotIn("nvrtc_test.cc", commands)


class Progress(Scripts):
    BUILD = 'for i in 1 2 3 4 5 6 7 8; do echo "[$i/8] object $i"; sleep 0.3; done; echo "error: of the last"; exit 3'

    def test_plain_lines_at_intervals_where_there_is_no_terminal(self):
        shown = self.tool("progress", self.path("log"), "bash", "-c", self.BUILD, code=3, GQA_PROGRESS_EVERY="1")
        self.assertNotIn("\r", shown)
        self.assertNotIn("\033", shown)
        self.assertRegex(shown, r"(?m)^  \[\d/8\] \d s")
        self.assertRegex(shown, r"(?m)^  \[\d/8\] \d s, about \d s left$")
        self.assertRegex(shown, r"\n  8 steps in \d+ s\n$")
        with open(self.path("log")) as log:
            self.assertEqual(log.read().splitlines(), [f"[{i}/8] object {i}" for i in range(1, 9)] + ["error: of the last"])

    def test_a_line_that_comes_in_parts_is_kept_whole(self):
        self.tool("progress", self.path("log"), "bash", "-c", "printf '[1/2] a'; sleep 1.5; echo b; printf end")
        with open(self.path("log")) as log:
            self.assertEqual(log.read(), "[1/2] ab\nend")

    def test_one_live_line_on_a_terminal(self):
        ours, theirs = pty.openpty()
        done = subprocess.run([os.path.join(TOOLS, "progress"), self.path("log"), "bash", "-c", self.BUILD],
                              stdout=theirs, stdin=subprocess.DEVNULL, timeout=60)
        os.close(theirs)
        shown = support.all_of(ours)
        os.close(ours)
        self.assertEqual(done.returncode, 3)
        self.assertIn("\r\033[K  [3/8]", shown)
        self.assertEqual(shown.count("\n"), 1, "only the last line stays")


@unittest.skipUnless(os.geteuid() == 0, "tools/fresh needs root to begin")
class Fresh(Scripts):
    def setUp(self):
        super().setUp()
        for name, body in STAND_INS.items():
            os.chmod(self.write("bin/" + name, "#!/bin/sh\n" + body + "\n"), stat.S_IRWXU)
        os.mkdir(self.path("in"))

    def fresh(self, *arguments, code=0, **environment):
        given = {"PATH": self.path("bin") + ":" + os.environ["PATH"], "PLAYED": self.path("played"),
                 "PIP_CONFIG_FILE": self.write("pip.conf", "[global]\n"), "PIP_INDEX_URL": "http://index.example",
                 "https_proxy": "http://proxy.example:3128", "SECRET_TOKEN": "of no concern"}
        shown = self.tool("fresh", *arguments, "--in", self.path("in"), code=code, **{**given, **environment})
        with open(self.path("played")) as played:
            return shown, played.read()

    def rows(self, shown):
        return re.findall(r"(?m)^\w+ +(\w+) +(passed|FAILED) +\d+ s$", shown.split("== summary")[1])

    def test_the_steps_in_a_table_and_nothing_left(self):
        shown, played = self.fresh("trixie")
        self.assertEqual(self.rows(shown), [("root", "passed"), ("clone", "passed"), ("demo", "passed")])
        self.assertEqual(os.listdir(self.path("in")), [])
        self.assertNotIn("exec tools/test", played)
        self.assertRegex(played, r"debootstrap --variant=minbase trixie /.* http://mirror.example/debian proxy=http://proxy")

    def test_a_failed_demo_is_told_and_the_tests_still_run(self):
        shown, played = self.fresh("bookworm", "--test", code=1, DEMO="7")
        self.assertEqual(self.rows(shown)[2:], [("demo", "FAILED"), ("tests", "passed")])
        self.assertIn("exec tools/test", played)

    def test_packages_are_used_in_the_place_of_the_demo(self):
        shown, played = self.fresh("trixie", "--packages", code=None)
        self.assertEqual([name for name, _ in self.rows(shown)], ["root", "clone", "wheel", "debs", "projects", "sources"])
        self.assertIn("exec tools/packaging/newcomer debs", played)
        self.assertNotIn("exec tools/demo", played)

    def test_without_a_root_nothing_else_is_tried(self):
        shown, played = self.fresh("bookworm", code=1, BOOT="1")
        self.assertEqual(self.rows(shown), [("root", "FAILED")])
        self.assertNotIn("git clone", played)
        self.assertEqual(os.listdir(self.path("in")), [])

    def test_keep_leaves_the_root(self):
        self.fresh("trixie", "--keep")
        self.assertRegex(" ".join(os.listdir(self.path("in"))), r"^gqa-fresh-trixie\.\w+$")

    def test_this_machines_way_to_packages_holds_inside_and_nothing_else_of_it(self):
        _, played = self.fresh("trixie")
        self.assertIn('Acquire::http::Proxy "http://proxy.example:3128";', played)
        self.assertNotIn("Auto-Detect", played)
        self.assertNotIn("IndexTargets", played)
        self.assertIn("[global]", played)
        self.assertIn("PIP_INDEX_URL=http://index.example", played)
        self.assertIn("https_proxy=http://proxy.example:3128", played)
        self.assertNotIn("SECRET_TOKEN", played)

    def test_what_is_missing_is_named(self):
        os.remove(self.path("bin/debootstrap"))
        for name in ("bash", "dirname", "env"):
            os.symlink(subprocess.check_output(["which", name], text=True).strip(), self.path("bin/" + name))
        shown = self.tool("fresh", "trixie", code=1, PATH=self.path("bin"))
        self.assertIn("missing: debootstrap", shown)


if __name__ == "__main__":
    support.main()
