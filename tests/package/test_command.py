"""The gqa-cache of a wheel, unpacked to where installers put it, and where they do not."""
import re
import shutil
import zipfile

import support

import machine

# As gqa-cache of that wheel was told: "python3.11", of "cp311".
PYTHON = "python{}.{}".format(*re.search(r"-cp(\d)(\d+)-", support.one("*.whl").name).groups())


class Command(support.Scratch):
    """gqa-cache finds the library of its installation, wherever an installer put both."""

    def installed(self, bin_folder, package):
        with zipfile.ZipFile(support.one("*.whl")) as archive:
            archive.extractall(self.folder / "raw")
        [command] = (self.folder / "raw").glob("*.data/scripts/gqa-cache")
        (self.folder / bin_folder).mkdir(parents=True)
        (self.folder / package).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(self.folder / "raw/gqa", self.folder / package)
        placed = shutil.copy(command, self.folder / bin_folder)
        (self.folder / bin_folder / "gqa-cache").chmod(0o755)
        return placed

    def test_in_each_place(self):
        for number, place in enumerate((f"lib/{PYTHON}/site-packages", f"lib64/{PYTHON}/site-packages",
                                        f"lib/{PYTHON}/dist-packages", "lib/python3/dist-packages", ".")):
            command = self.installed(f"{number}/bin", f"{number}/{place}/gqa")
            self.assertIn(machine.version(), self.run_it(command, "--version"))
            shutil.rmtree(self.folder / "raw")

    def test_through_a_link(self):
        command = self.installed("venv/bin", f"venv/lib/{PYTHON}/site-packages/gqa")
        (self.folder / "gqa-cache").symlink_to(command)
        self.assertIn(machine.version(), self.run_it(self.folder / "gqa-cache", "--version"))
        self.assertIn("--nonsense", self.run_it(command, "warm", "--nonsense", code=2))

    def test_without_its_library(self):
        command = self.installed("bin", "gqa")
        shutil.rmtree(self.folder / "gqa")
        told = self.run_it(command, "--version", code=1)
        for word in ("no libgqa.so.0", "site-packages/gqa", "pip install --force-reinstall gqa"):
            self.assertIn(word, told)

    def test_with_the_library_of_another_version(self):
        command = self.installed("bin", "gqa")
        planted = self.library("planted.so", "int gqa_version(void) { return 199; }\nint gqa_cache_main(void) { return 0; }")
        shutil.copy(planted, self.folder / "gqa/libgqa.so.0")
        told = self.run_it(command, "--version", code=1)
        for word in ("has version 199", "expected", "--force-reinstall"):
            self.assertIn(word, told)

    def test_with_a_library_that_cannot_be_loaded(self):
        command = self.installed("bin", "gqa")
        (self.folder / "gqa/libgqa.so.0").write_text("damaged")
        self.assertIn("gqa-cache: ", self.run_it(command, "--version", code=1))
