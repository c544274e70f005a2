"""What a person at a terminal sees that a file does not: the live line and colour. On a real pseudo-terminal."""
import fcntl
import os
import re
import struct
import subprocess
import termios
import unittest

import support
from support import CacheTest, clean_environment

WARM = ["warm", "--device", "host", "--budget", "1", "--shape", support.SHAPE, "--shape", "hq=2,sq=1,sk=64,d=32"]
ERASE = "\r\033[K"
COLOUR = re.compile(r"\033\[[0-9;]*m")


class OnATerminal(CacheTest):
    def on_terminal(self, *arguments, columns=200, stdout=None, **environment):
        """Runs it with standard error (and output, unless it goes elsewhere) on a terminal; gives what that got."""
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen([support.PROGRAM, "--db", self.db, *arguments], stdin=subprocess.DEVNULL,
                              stdout=stdout or theirs, stderr=theirs, env=clean_environment(**environment)) as process:
            os.close(theirs)
            seen = support.all_of(ours)
            os.close(ours)
        self.assertEqual(process.returncode, 0, seen)
        return seen.replace("\r\n", "\n")

    def drawn(self, seen):
        return re.findall(re.escape(ERASE) + r"(\[[#-]{20}\][^\r\n]*)", seen)

    def test_the_live_line(self):
        seen = self.on_terminal(*WARM)
        lines = self.drawn(seen)
        self.assertIn("0/2 shapes", lines[0])
        self.assertTrue(any("1/2 shapes" in line for line in lines), lines)
        for line in lines:
            self.assertRegex(line, r"^\[[#-]{20}\] \d/2 shapes  compiled \d+ verified \d+ timed \d+ of \d+.* left$")
        self.assertTrue(any(re.search(r"compiled [1-9].*verified [1-9].*timed [1-9].*best [\d.]+ [um]s", line)
                            for line in lines), lines)
        self.assertRegex(seen, COLOUR)

    def test_the_line_is_gone_in_the_end(self):
        screen = [line.rsplit(ERASE)[-1] for line in COLOUR.sub("", self.on_terminal(*WARM)).split("\n")]
        self.assertEqual(len(screen), 4)
        self.assertIn("tuned in", screen[0])
        self.assertIn("tuned in", screen[1])
        self.assertRegex(screen[2], r"^2 shapes in .*: 2 tuned$")
        self.assertEqual(screen[3], "")

    def test_a_narrow_terminal(self):
        lines = self.drawn(self.on_terminal(*WARM, columns=40))
        self.assertGreater(len(lines), 2)
        self.assertLess(max(map(len, lines)), 40)

    def test_output_to_a_file_stays_plain(self):
        with open(self.path("out"), "w+") as out:
            seen = self.on_terminal(*WARM, stdout=out)
            out.seek(0)
            text = out.read()
        self.assertGreater(len(self.drawn(seen)), 2)
        self.assertNotIn("\033", text)
        self.assertRegex(text, r"2 shapes in .*: 2 tuned\n$")

    def test_no_color(self):
        seen = self.on_terminal(*WARM, NO_COLOR="1")
        self.assertNotRegex(seen, COLOUR)
        self.assertGreater(len(self.drawn(seen)), 2)
        self.assertRegex(self.on_terminal("list"), COLOUR)
        self.assertNotIn("\033", self.on_terminal("list", NO_COLOR="1"))

    def test_a_list_is_as_wide_as_the_terminal(self):
        self.run_command(*WARM)
        widths = {}
        for columns in (50, 80, 200):
            seen = COLOUR.sub("", self.on_terminal("list", "--all", columns=columns, COLUMNS="30"))
            widths[columns] = max(map(len, seen.splitlines()[:-1]))
            self.assertLessEqual(widths[columns], columns)
        self.assertEqual((widths[50], widths[80]), (50, 80))
        self.assertGreater(widths[200], 80)

    def test_a_dumb_terminal(self):
        self.assertNotIn("\033", self.on_terminal(*WARM, TERM="dumb"))


if __name__ == "__main__":
    support.main()
