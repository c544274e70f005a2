"""`gqa-cache show KEY --html FILE`: a page that stands alone and has all that the evidence has. On the host device."""
import html.parser
import os
import re
import shutil
import tempfile

import support
from support import SHAPE, CacheTest, call

VOID = {"meta", "br"}


class Page(html.parser.HTMLParser):
    """The elements of a page, which must nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.wrong, self.words = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.words.append(data)

    def count(self, tag, kind=None):
        return sum(1 for name, has in self.seen if name == tag and (kind is None or has.get("class") == kind))


class Report(CacheTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.template = os.path.join(folder.name, "cache.db")
        done = call("--db", cls.template, "warm", "--device", "host", "--budget", "2", "--shape", SHAPE)
        assert done.returncode == 0, done.stderr

    def setUp(self):
        super().setUp()
        shutil.copy(self.template, self.db)
        winner, = self.json_of("list")["winners"]
        self.key = winner["key"]
        self.file = self.path("tuning.html")

    def report(self):
        said = self.run_command("show", self.key[:12], "--html", self.file).stdout
        self.assertIn(self.file, said)
        with open(self.file, encoding="utf-8") as file:
            return file.read()

    def test_it_has_what_the_evidence_has(self):
        text = self.report()
        page, words = Page(text), " ".join(Page(text).words)
        self.assertEqual((page.open, page.wrong), ([], []))
        shown = self.json_of("show", self.key)["winner"]
        evidence = shown["evidence"]
        timed = [each for each in evidence["attempts"] if each.get("median_us", 0) > 0]
        for each in evidence["attempts"]:
            self.assertIn(each["candidate"], words)
        for reason in evidence["pruned"]["by_reason"]:
            self.assertIn(reason, words)
        for each in evidence["pruned"]["listed"]:
            self.assertIn(each["reason"], words)
        self.assertEqual(page.count("circle"), len(timed), "a point for each that was timed")
        self.assertEqual(page.count("circle", "chosen"), 1)
        finalists = min(8, sum(1 for each in timed if each.get("timings_us")))
        self.assertEqual(page.count("svg", "strip"), finalists)
        strokes = sum(has["d"].count("M") for tag, has in page.seen if has.get("class") == "sample")
        self.assertLessEqual(max(len(each["timings_us"]) for each in timed), strokes)
        for title in ("Candidates by time", "Measured and predicted", "Samples of the finalists", "Errors",
                      "Errors by row", "Refused before they were compiled", "Where the seconds went"):
            self.assertIn(title, words)

    def test_errors_by_row_are_those_of_the_evidence(self):
        text = self.report()
        part = text[text.index("<h2>Errors by row</h2>"):]
        words = " ".join(Page(part[:part.index("</section>")]).words)
        attempts = self.json_of("show", self.key)["winner"]["evidence"]["attempts"]
        judged = [each for each in attempts if each.get("errors")]
        self.assertEqual([each["candidate"] for each in judged],
                         [each["candidate"] for each in attempts if each.get("bound", 0) > 0])
        for each in judged:
            self.assertIn(each["candidate"], words)
            self.assertEqual([error["what"] for error in each["errors"]], ["all rows", "worst row", "worst element"])
            shares = [error["error"] / error["bound"] for error in each["errors"]]
            self.assertEqual(max(shares), each["error"] / each["bound"], "what the verdict is about is one of them")
            self.assertTrue(all(0 < share <= 1 for share in shares) or each["outcome"] == "verify failed", each)
            for error, share in zip(each["errors"], shares):
                self.assertRegex(error["where"], r"^output(, hard queries)?: (batch \d+, head \d+, row \d+|\d+ rows)")
                self.assertIn(f"{100 * share:.3g} %", words)
                self.assertIn(f"{error['error']:.3g} of {error['bound']:.3g} \u00b7 {error['where']}", words)

    def test_it_loads_nothing_and_runs_nothing(self):
        text = self.report()
        page = Page(text)
        self.assertFalse({tag for tag, _ in page.seen} & {"script", "link", "img", "iframe", "object", "embed", "a"})
        for _, has in page.seen:
            self.assertFalse({name for name in has if name.startswith("on")} | ({"src", "href"} & set(has)))
        self.assertNotRegex(text, r"https?:|@import|url\(")

    def test_it_is_for_narrow_wide_light_and_dark(self):
        text = self.report()
        viewport = [has["content"] for tag, has in Page(text).seen if has.get("name") == "viewport"]
        self.assertEqual(viewport, ["width=device-width, initial-scale=1"])
        self.assertIn("prefers-color-scheme: dark", text)
        light, dark = re.findall(r":root \{([^}]*)\}", text)
        colours = lambda rules: dict(re.findall(r"(--[a-z]+): (#[0-9a-f]{6})", rules))
        self.assertEqual(set(colours(light)), set(colours(dark)))
        for rules in (colours(light), colours(dark)):
            for ink in ("--text", "--quiet", "--bad"):
                for ground in ("--page", "--card"):
                    self.assertGreater(contrast(rules[ink], rules[ground]), 4.5, (ink, ground))
        self.assertNotRegex(text, r"(min-)?width: *\d{3,}px", "nothing is wider than a phone")

    def test_it_writes_over_a_report_and_nothing_else(self):
        self.assertEqual(self.report(), self.report())
        notes = self.path("notes.html")
        with open(notes, "w") as file:
            file.write("<!doctype html>\n<p>dear diary")
        os.symlink(self.file, self.path("link.html"))
        for path in (notes, self.folder, self.path("link.html"), self.db):
            done = self.run_command("show", self.key, "--html", path, code=1)
            self.assertIn(f"{path} is left untouched", done.stderr)
        with open(notes) as file:
            self.assertEqual(file.read(), "<!doctype html>\n<p>dear diary")
        done = self.run_command("show", self.key, "--html", self.path("no/a.html"), code=1)
        self.assertIn("No such file", done.stderr)

    def test_what_has_no_report(self):
        kernel = self.json_of("list")["kernels"][0]["key"]
        self.assertIn("kernel", self.run_command("show", kernel, "--html", self.file, code=1).stderr)
        for more in ("--source", "--ptx", "--json"):
            self.assertIn("--html", self.run_command("show", self.key, "--html", self.file, more, code=2).stderr)
        self.assertIn("--html", self.run_command("show", self.key, "--html", "", code=2).stderr)
        self.assertFalse(os.path.exists(self.file))


def contrast(one, other):
    """WCAG's ratio of two colours' luminances."""
    def luminance(colour):
        parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


if __name__ == "__main__":
    support.main()
