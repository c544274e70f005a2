"""`gqa-cache help`: its topics, and that the grammar of SPEC reads the same in the docs as in the command."""
import math
import re
import unittest
from pathlib import Path

import support
from support import COMMANDS, CacheTest, call

ROOT = Path(__file__).resolve().parents[2]


class Help(CacheTest):
    def test_the_text_of_all(self):
        told = self.run_command("help").stdout
        self.assertEqual(told, call("--help").stdout)
        for command in COMMANDS:
            self.assertRegex(told, rf"(?m)^  {command}[ ,]")
        self.assertIn("help spec", told)

    def test_the_text_of_a_command(self):
        for command in COMMANDS:
            told = self.run_command("help", command).stdout
            self.assertEqual(told, call(command, "--help").stdout)
            self.assertIn(f"Usage: gqa-cache {command}", told)
            self.assertIn("Example", told)

    def test_topics_that_are_none(self):
        for topic in ("polish", "SPEC", "", "warm.cc", "\033[31m"):
            given = topic.replace("\033", "\\x1b")
            self.refused("help", topic, naming=[f"'{given}'", "spec", "serve", *COMMANDS])
        self.refused("help", "spec", "warm", naming=["warm"])

    def test_the_docs_have_the_same_grammar(self):
        blocks = re.findall(r"^```text\n(.*?)^```$", (ROOT / "docs" / "spec.md").read_text(), re.MULTILINE | re.DOTALL)
        self.assertEqual(blocks, [self.run_command("help", "spec").stdout])

    def test_the_docs_say_the_same_of_serving(self):
        blocks = re.findall(r"^```text\n(.*?)^```$", (ROOT / "docs" / "deployment.md").read_text(),
                            re.MULTILINE | re.DOTALL)
        self.assertEqual(blocks, [self.run_command("help", "serve").stdout])

    def test_the_readme_counts_its_serve_line_rightly(self):
        text = (ROOT / "README.md").read_text()
        model, serve = re.search(r"^gqa-cache warm --model (\S+) --serve (\S+) ", text, re.MULTILINE).groups()
        plan, = self.json_of("warm", "--device", "host", "--dry-run", "--model", model, "--serve", serve)["plan"]
        shapes, most = re.search(r"second line is (\d+) shapes\..*? at most (\d+)\b", text, re.DOTALL).groups()
        self.assertEqual((plan["shapes"], math.ceil(plan["most_seconds"] / 60)), (int(shapes), int(most)))
        self.assertIn("`--dry-run`", text)

    def test_refused_shapes_name_the_grammar(self):
        self.refused("warm", "--shape", "hq=32,sq=64,d=128,window=3", naming=["'window'", "gqa-cache help spec"])


if __name__ == "__main__":
    support.main()
