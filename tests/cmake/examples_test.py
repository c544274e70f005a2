#!/usr/bin/env python3
"""bindings/examples against an installed library: each by the command that its first lines give, as they stand.

Owns: one class, and one ctest, for each language; and for each a planted fault, a page taken for another, which the
example itself must see.
Never: knows how a language is built: the example says so. Writes nothing outside a temporary folder. One thread.

  examples_test.py BUILD SOURCE LANGUAGE
"""
import os
import re

import installed
from installed import number, run

JNA = "/usr/share/java/jna.jar"
TOOLS = {"Rust": ["rustc", "cc", "pkg-config"], "Go": ["go", "cc", "pkg-config"], "Java": ["java", "javac", JNA],
         "Lua": ["luajit"]}


class Example:
    source = ""
    fault = ("", "")  # in the reference's look-up of a page: what the program has, and what makes it wrong

    def text(self):
        with open(os.path.join(installed.SOURCE, "bindings/examples", self.source)) as file:
            return file.read()

    def answer(self, text, code=0):
        self.write(self.source, text)
        first = text[:re.search(r"^(?!//|--)", text, re.MULTILINE).start()]
        commands = re.findall(r"^(?://!|//|--)(?:\t|   )(\S.*)$", first, re.MULTILINE)
        self.assertEqual(len(commands), 1, f"{self.source} gives the commands {commands}, expected one")
        return run("sh", "-c", commands[0], code=code, cwd=self.folder, GOCACHE=self.path("go"), **self.environment())

    def test_answers_as_its_reference_does(self):
        told = self.answer(self.text())
        self.assertRegex(told, rf"^\w+: gqa {number()}, largest error 0\.00\d+ in 1024 numbers\n$")

    def test_sees_a_wrong_page(self):
        self.assertEqual(self.text().count(self.fault[0]), 1, f"{self.source}: the fault's place")
        told = self.answer(self.text().replace(*self.fault), code=1)
        self.assertRegex(told, r"^\w+: gqa \d+, largest error 0\.[1-9]\d+ in 1024 numbers\n")


class Rust(Example, installed.Consumers):
    source = "paged_decode.rs"
    fault = "TABLE[b * COLUMNS + j / PAGE]", "TABLE[b * COLUMNS + COLUMNS - 1 - j / PAGE]"


class Go(Example, installed.Consumers):
    source = "paged_decode.go"
    fault = "table[b*columns+j/page]", "table[b*columns+columns-1-j/page]"


class Java(Example, installed.Consumers):
    source = "PagedDecode.java"
    fault = "TABLE[b * COLUMNS + j / PAGE]", "TABLE[b * COLUMNS + COLUMNS - 1 - j / PAGE]"


class Lua(Example, installed.Consumers):
    source = "paged_decode.lua"
    fault = "TABLE[b * COLUMNS + math.floor(j / PAGE) + 1]", "TABLE[b * COLUMNS + COLUMNS - math.floor(j / PAGE)]"


if __name__ == "__main__":
    installed.main(TOOLS)
