"""The sources of what a wheel has inside: fetched at their pinned versions, or refused by name."""
import os
import stat

import support

import machine
import sources

ONE_LINE = "# deb x y\ndeb [signed-by=/k] https://mirror.example/debian bookworm main contrib\ndeb-src x y\n"
DEB822 = "Types: deb\nURIs: https://mirror.example/debian\nSuites: bookworm\nComponents: main\n"


class Lists(support.Scratch):
    def test_of_sources_are_those_of_packages(self):
        self.assertEqual(sources.source_lists(ONE_LINE, False),
                         "# deb x y\ndeb-src [signed-by=/k] https://mirror.example/debian bookworm main contrib\n"
                         "deb-src x y\n")
        self.assertEqual(sources.source_lists(DEB822, True), DEB822.replace("Types: deb", "Types: deb-src"))
        self.assertEqual(sources.source_lists(DEB822.replace("deb\n", "deb deb-src\n"), True),
                         DEB822.replace("deb\n", "deb-src\n"))


class Fetching(support.Scratch):
    def setUp(self):
        super().setUp()
        self.before = sources.ARCHIVES, os.environ["PATH"]
        sources.ARCHIVES = self.folder
        os.environ["PATH"] = f"{self.folder}/bin:{os.environ['PATH']}"

    def tearDown(self):
        sources.ARCHIVES, os.environ["PATH"] = self.before

    def apt_get(self, text):
        self.write("bin/apt-get", "#!/bin/sh\n" + text).chmod(stat.S_IRWXU)

    def fetch(self):
        with self.assertRaises(machine.Failure) as raised:
            sources.fetch("libexample", "1.2-3", "0" * 64, [])
        return str(raised.exception)

    def test_a_version_that_has_gone(self):
        self.apt_get("echo 'E: Version not found' >&2; exit 100")
        told = self.fetch()
        for word in ("libexample", "expected at version 1.2-3", "libexample_1.2-3.dsc", str(self.folder)):
            self.assertIn(word, told)

    def test_another_content_is_refused(self):
        self.apt_get("echo other >libexample_1.2-3.dsc")
        told = self.fetch()
        self.assertIn("expected " + "0" * 64, told)
        self.assertIn("do not use it", told)

    def test_what_is_there_is_not_fetched(self):
        dsc = self.write("libexample_1.2-3.dsc", "x")
        self.assertTrue(sources.intact(dsc, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"))
        self.assertFalse(sources.intact(dsc, "0" * 64))
        self.assertFalse(sources.intact(self.folder / "none.dsc", "0" * 64))

    def test_the_pinned_ones_are_whole(self):
        for name, version, digest in sources.PINNED.values():
            self.assertRegex(digest, "^[0-9a-f]{64}$")
            self.assertRegex(version, r"-\d")
            self.assertTrue(name)


class Usage(support.Scratch):
    def tool(self, *arguments, code=0):
        return self.run_it(support.ROOT / "tools/package", *arguments, code=code)

    def test_help_has_an_example(self):
        told = self.tool("--help")
        self.assertIn("example: tools/package --python python3.11", told)
        self.assertIn("--check", told)

    def test_what_it_does_not_know_is_refused(self):
        self.assertIn("--pythons", self.tool("--pythons", code=2))
