"""What is found of a library that a manylinux_2_28 machine could not load: each fault is planted."""
import re

import support

import elf


class Elf(support.Scratch):
    def newest(self):
        """A function and its version, of this machine's glibc, that 2.28 lacks."""
        told = elf.told("objdump", "-T", re.search(r"\S+/libc\.so\.6", elf.told("ldd", "/bin/sh"))[0])
        for line in told.splitlines():
            found = re.search(r"DF \.text\s+\S+\s+\(?(GLIBC_2\.(\d+))\)?\s+(\w+)$", line)
            if found and int(found[2]) > 28:
                return found[3], found[1]
        self.skipTest("this glibc has nothing that 2.28 lacks")

    def test_a_library_of_old_symbols_lacks_nothing(self):
        library = self.library("plain.so", "#include <stdio.h>\nvoid f(void) { puts(\"\"); }")
        self.assertEqual(elf.complaints(library), [])
        self.assertIn("puts", {name for _, name in elf.asked(library)})
        self.assertIn(("", "f"), elf.exported(library))

    def test_a_planted_newer_symbol_is_named_with_its_version(self):
        name, version = self.newest()
        library = self.library("newer.so", f"extern void {name}(void);\nvoid f(void) {{ {name}(); }}", "-fno-builtin")
        self.only_complaint(elf.complaints(library), f"asks for {name} of {version}", "GLIBC_2.28", "old_glibc.c")
        self.assertIn(name, self.run_it("python3", support.ROOT / "tools/packaging/elf.py", library, code=1))

    def test_old_glibc_c_takes_it_away(self):
        text = "#include <math.h>\ndouble f(double x) { return pow(x, x) + hypot(x, x); }"
        options = ["-lm", "-fno-builtin"]
        newer = {"pow", "hypot"} & {name for version, name in elf.asked(self.library("maths.so", text, *options))
                                    if elf.lacking(version)}
        if not newer:
            self.skipTest("this glibc has no newer pow nor hypot")
        mended = self.library("mended.so", text, support.ROOT / "cmake/portable/old_glibc.c", "-Wl,--gc-sections",
                              "-ffunction-sections", *options, "-l:libdl.so.2", "-l:libpthread.so.0")
        self.assertEqual(elf.complaints(mended), [])

    def test_another_library_is_named_unless_it_comes_along(self):
        self.library("libother.so", "int other(void) { return 1; }")
        library = self.library("user.so", "int other(void);\nint f(void) { return other(); }", f"-L{self.folder}", "-lother")
        self.only_complaint(elf.complaints(library), "libother.so")
        self.assertEqual(elf.complaints(library, {"libother.so"}), [])

    def test_a_cxx_library_is_named(self):
        library = self.folder / "cxx.so"
        self.run_it("c++", "-shared", "-fPIC", "-o", library,
                    self.write("cxx.cc", "#include <string>\nstd::string f(int x) { return std::to_string(x) + 'x'; }"))
        wrong = "\n".join(elf.complaints(library))
        self.assertIn("libstdc++.so.6", wrong)
        self.assertIn("GLIBCXX_", wrong)

    def test_versions(self):
        for version in ("GLIBC_2.2.5", "GLIBC_2.28", "GQA_0", ""):
            self.assertFalse(elf.lacking(version), version)
        for version in ("GLIBC_2.29", "GLIBC_3.0", "GLIBC_PRIVATE", "GLIBCXX_3.4", "CXXABI_1.3", "GCC_3.0"):
            self.assertTrue(elf.lacking(version), version)
