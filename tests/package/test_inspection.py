"""The packages that tools/package made hold what they must, and what a package must not be like is seen: each fault is
planted in a copy."""
import random
import subprocess
import tarfile
import zipfile

import support

import elf
import inspection
import machine


class Wheels(support.Scratch):
    def setUp(self):
        super().setUp()
        self.wheel = support.one("*.whl")

    def copy(self, drop="", add=(), change=lambda name, data: data):
        path = self.folder / self.wheel.name
        with zipfile.ZipFile(self.wheel) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
            for item in old.infolist():
                if not (drop and item.filename.endswith(drop)):
                    new.writestr(item, change(item.filename, old.read(item)))
            for name, data in add:
                new.writestr(name, data)
        return path

    def test_they_are_as_they_must_be(self):
        for wheel in sorted(support.PACKAGES.glob("*.whl")):
            self.assertEqual(inspection.wheel(wheel), [])
            self.assertLess(wheel.stat().st_size, 6_000_000)
            self.assertIn("manylinux_2_28_x86_64", wheel.name)

    def test_the_runtime_is_in_it_once(self):
        with zipfile.ZipFile(self.wheel) as archive:
            [command] = [item for item in archive.infolist() if item.filename.endswith("/scripts/gqa-cache")]
            [library] = [item for item in archive.infolist() if item.filename == "gqa/libgqa.so.0"]
        self.assertLess(command.file_size, 100_000)
        self.assertLess(library.file_size, 10_000_000)

    def test_every_program_of_it_is_looked_at(self):
        planted = self.library("planted.so", "int f(void) { return 1; }").read_bytes()
        wrong = inspection.wheel(self.copy(change=lambda name, data: planted if name == "gqa/libgqa.so.0" else data))
        self.assertTrue(any("exports f of version none" in line for line in wrong), wrong)
        self.assertTrue(any("does not export gqa_cache_main" in line for line in wrong), wrong)

    def test_a_planted_library_that_needs_another(self):
        self.library("libother.so", "int other(void) { return 1; }")
        planted = self.library("user.so", "int other(void);\nint f(void) { return other(); }", f"-L{self.folder}", "-lother")
        self.only_complaint(inspection.wheel(self.copy(add=[("gqa/planted.so", planted.read_bytes())])),
                            "gqa/planted.so", "libother.so")

    def test_what_is_missing_is_named(self):
        for name in ("/licenses/LICENSES-third-party", "gqa/include/gqa.h", "gqa/include/dlpack/dlpack.h"):
            self.only_complaint(inspection.wheel(self.copy(drop=name)), name)

    def test_a_folder_of_this_machine(self):
        self.only_complaint(inspection.wheel(self.copy(add=[("gqa/x", f"{machine.ROOT}/x")])), "gqa/x", str(machine.ROOT))

    def test_a_large_one(self):
        self.only_complaint(inspection.wheel(self.copy(add=[("gqa/x", random.Random(1).randbytes(6_000_000))])),
                            "expected under 6,000,000")

    def test_metadata(self):
        def older(name, data):
            return data.replace(b"License-Expression: Apache-2.0", b"License: A") if name.endswith("/METADATA") else data
        self.only_complaint(inspection.wheel(self.copy(change=older)), "License-Expression: Apache-2.0")

    def test_the_metadata_says_what_is_wanted(self):
        with zipfile.ZipFile(self.wheel) as archive:
            [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
            text = archive.read(name).decode()
        self.assertIn("Requires-Dist: nvidia-cuda-nvrtc-cu12", text)
        self.assertRegex(text, r'Requires-Dist: nvidia-cuda-nvrtc<14,>=13\.0; extra == .cuda13')
        self.assertNotRegex(text, r"(?m)^Requires-Dist: [^;]*$")


class Debs(support.Scratch):
    def test_they_are_as_they_must_be(self):
        debs = sorted(support.PACKAGES.glob("*.deb"))
        self.assertEqual([deb.name.partition("_")[0] for deb in debs], ["gqa-cache", "libgqa-dev", "libgqa0"])
        for deb in debs:
            self.assertEqual(inspection.deb(deb), [])

    def changed(self, name, change):
        tree = self.folder / name
        self.run_it("dpkg-deb", "--raw-extract", support.one(f"{name}_*.deb"), tree)
        change(tree)
        self.run_it("dpkg-deb", "--root-owner-group", "--build", tree, self.folder / "changed.deb")
        return self.folder / "changed.deb"

    def test_a_file_too_many_and_one_too_few(self):
        def change(tree):
            (tree / "usr/bin/gqa-cache").rename(tree / "usr/bin/gqa-cash")
        wrong = inspection.deb(self.changed("gqa-cache", change))
        self.assertEqual(len(wrong), 2, wrong)
        self.assertIn("holds no usr/bin/gqa-cache", wrong[0])
        self.assertIn("holds usr/bin/gqa-cash", wrong[1])

    def test_a_package_that_it_does_not_depend_on(self):
        def change(tree):
            control = tree / "DEBIAN/control"
            control.write_text(control.read_text().replace(", libdlpack-dev", ""))
        self.only_complaint(inspection.deb(self.changed("libgqa-dev", change)), "libdlpack-dev")

    def test_licences_that_are_not_named(self):
        self.only_complaint(inspection.deb(self.changed(
            "libgqa0", lambda tree: (tree / "usr/share/doc/libgqa0/copyright").write_text("Apache-2.0\n"))), "copyright")

    def test_gqa_pc_names_what_libdlpack_dev_has(self):
        self.run_it("dpkg-deb", "--extract", support.one("libgqa-dev_*.deb"), self.folder)
        [pc] = self.folder.glob("usr/lib/*/pkgconfig/gqa.pc")
        self.assertIn("-I/usr/include\n", pc.read_text())
        self.assertEqual(list(self.folder.rglob("dlpack.h")), [])

    def test_programs_find_the_library_without_being_told(self):
        fields = self.run_it("dpkg-deb", "--info", support.one("libgqa0_*.deb"), "shlibs")
        self.assertRegex(fields, r"^libgqa 0 libgqa0 \(>= 0\.\d+\)\n$")
        self.assertIn("ldconfig", self.run_it("dpkg-deb", "--info", support.one("libgqa0_*.deb"), "triggers"))


class Sources(support.Scratch):
    def test_it_is_as_it_must_be(self):
        self.assertEqual(inspection.sdist(support.one("*.tar.gz")), [])

    def test_it_has_every_file_that_is_built(self):
        with tarfile.open(support.one("*.tar.gz")) as archive:
            held = {name.partition("/")[2] for name in archive.getnames()}
        tracked = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "CMakeLists.txt", "cmake", "search", "cache",
                                  "jit", "runtime", "tools", "bindings"], cwd=support.ROOT, capture_output=True, text=True,
                                 check=False)
        if tracked.returncode:
            self.skipTest("no repository here")
        self.assertEqual([name for name in tracked.stdout.splitlines() if name not in held], [])

    def test_what_is_missing_is_named(self):
        tree = self.folder / "gqa"
        tree.mkdir()
        for name in inspection.IN_SDIST:
            if name != "LICENSE":
                self.write("gqa/" + name, "")
        with tarfile.open(self.folder / "x.tar.gz", "w:gz") as archive:
            archive.add(tree, "gqa")
        self.only_complaint(inspection.sdist(self.folder / "x.tar.gz"), "holds no LICENSE")


class Licences(support.Scratch):
    def test_all_that_is_inside_is_named_with_its_text(self):
        text = (support.ROOT / "LICENSES-third-party").read_text()
        listed = text.partition("=" * 20)[0]
        for name, words in {"SQLite": "May you do good and not evil", "Zstandard": "For Zstandard software",
                            "xxHash": "xxHash Library", "pybind11": "Wenzel Jakob", "nlohmann/json": "Niels Lohmann",
                            "CLI11": "University of Cincinnati", "DLPack": "DLPack Contributors",
                            "Eigen": "Mozilla Public License Version 2.0",
                            "libstdc++": "GCC RUNTIME LIBRARY EXCEPTION"}.items():
            self.assertIn(f"- {name}" if name != "nlohmann/json" else name, listed)
            self.assertIn(words, text)


class TheLibraryOfTheWheel(support.Scratch):
    def test_it_keeps_what_the_headers_promise(self):
        with zipfile.ZipFile(support.one("*.whl")) as archive:
            library = archive.extract("gqa/libgqa.so.0", self.folder)
            headers = [archive.extract(f"gqa/include/{name}", self.folder) for name in ("gqa.h", "gqa_graph.h")]
        self.run_it("python3", support.ROOT / "bindings/c/library_test.py", "keeps", library, *headers)
        hidden = {name for _, name in elf.exported(library) if name.startswith(("sqlite3", "ZSTD", "XXH", "_Z"))}
        self.assertEqual(hidden, set())
