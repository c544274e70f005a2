"""Which NVRTC is taken, and that its builtins are found beside it. The NVRTCs here are made of a few lines of C, so that
none is needed, but for one test, which is skipped by name without one.

Owns: fake libraries that list their architectures and, like NVIDIA's, open their builtins by bare name when they compile.
"""
import os
import re
import shutil
import subprocess
import unittest

import support
from support import CacheTest, call, clean_environment

SHAPE = "b=1,hq=8,hk=8,sq=64,sk=64,d=64"
LOADER = "/lib64/ld-linux-x86-64.so.2"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang") or shutil.which("c++")

FAKE = r"""
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
static const int archs[] = {ARCHS};
static int failed;
int nvrtcVersion(int* a, int* b) { return *a = MAJOR, *b = MINOR, 0; }
int nvrtcGetNumSupportedArchs(int* count) { return *count = sizeof archs / sizeof *archs, 0; }
int nvrtcGetSupportedArchs(int* out) { return memcpy(out, archs, sizeof archs), 0; }
int nvrtcCreateProgram(void** p, const char* s, const char* n, int c, const char* const* h, const char* const* i) {
  return *p = &failed, 0;
}
int nvrtcDestroyProgram(void** p) { return 0; }
int nvrtcCompileProgram(void* p, int count, const char* const* options) {
  return failed = dlopen("libnvrtc-builtins.so.VERSION", RTLD_LAZY) == NULL;
}
static int size(const char* text, size_t* bytes) { return *bytes = strlen(text) + 1, 0; }
static int get(const char* text, char* out) { return strcpy(out, text), 0; }
int nvrtcGetPTXSize(void* p, size_t* bytes) { return size("fake", bytes); }
int nvrtcGetPTX(void* p, char* out) { return get("fake", out); }
int nvrtcGetCUBINSize(void* p, size_t* bytes) { return size("fake", bytes); }
int nvrtcGetCUBIN(void* p, char* out) { return get("fake", out); }
static const char* text(void) { return failed ? "error: no builtins" : ""; }
int nvrtcGetProgramLogSize(void* p, size_t* bytes) { return size(text(), bytes); }
int nvrtcGetProgramLog(void* p, char* out) { return get(text(), out); }
const char* nvrtcGetErrorString(int error) { return "failed"; }
"""


def make_library(file, source):
    name = os.path.basename(file)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file + ".c", "w") as text:
        text.write(source)
    subprocess.run([COMPILER, "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}", "-o", file, file + ".c", "-ldl"], check=True)
    os.remove(file + ".c")


def make_nvrtc(folder, version, archs, builtins=()):
    """An NVRTC of that version and, beside it, builtins of others."""
    major, minor = version.split(".")
    source = FAKE.replace("MAJOR", major).replace("MINOR", minor).replace("VERSION", version)
    make_library(f"{folder}/libnvrtc.so.{major}", source.replace("ARCHS", ", ".join(map(str, archs))))
    for other in builtins:
        make_library(f"{folder}/libnvrtc-builtins.so.{other}", "int of_no_interest;")


@unittest.skipUnless(COMPILER, "no C compiler here")
class FakeNvrtc(CacheTest):
    def warm(self, arch, code=0, **environment):
        done = call("--db", self.db, "warm", "--arch", arch, "--shape", SHAPE, **environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr

    def compiler(self):
        return self.json_of("list")["kernels"][0]["compiler"]

    def test_the_builtins_of_its_own_version_are_loaded_from_beside_it(self):
        make_nvrtc(self.path("lib"), "13.7", [80], ["13.6", "13.7", "13.8"])
        self.warm("sm_80", GQA_NVRTC=self.path("lib"))

    def test_so_are_those_beside_the_file_that_a_link_stands_for(self):
        make_nvrtc(self.path("lib"), "13.7", [80], ["13.7"])
        os.symlink(self.path("lib/libnvrtc.so.13"), self.path("libnvrtc.so"))
        self.warm("sm_80", GQA_NVRTC=self.path("libnvrtc.so"))

    def test_builtins_of_another_version_are_not_taken_for_its_own(self):
        make_nvrtc(self.path("lib"), "13.7", [80], ["13.6", "13.8"])
        self.assertIn("no builtins", self.warm("sm_80", code=1, GQA_NVRTC=self.path("lib")))

    def test_the_first_that_knows_the_architecture_is_taken(self):
        make_nvrtc(self.path("given"), "12.4", [80, 90], ["12.4"])
        make_nvrtc(self.path("cuda/lib64"), "12.8", [80, 90, 123], ["12.8"])
        given, toolkit = self.path("given"), self.path("cuda")
        self.warm("sm_90a", GQA_NVRTC=given, CUDA_HOME=toolkit)
        self.assertIn("nvrtc 12.4 ", self.compiler())

    def test_one_that_cannot_be_loaded_is_an_error_that_names_it(self):
        make_nvrtc(self.path("cuda/lib64"), "12.8", [80], ["12.8"])
        said = self.warm("sm_80", code=1, GQA_NVRTC=self.path("nothing"), CUDA_HOME=self.path("cuda"))
        self.assertIn(f"GQA_NVRTC names '{self.path('nothing')}'", said)

    def test_one_that_does_not_know_it_is_passed_over(self):
        make_nvrtc(self.path("given"), "12.4", [80, 90], ["12.4"])
        make_nvrtc(self.path("cuda/lib64"), "12.8", [80, 90, 100], ["12.8"])
        self.warm("sm_100a", GQA_NVRTC=self.path("given"), CUDA_HOME=self.path("cuda"))
        self.assertNotIn("nvrtc 12.4 ", self.compiler())


class RealNvrtc(CacheTest):
    """NVIDIA's own, from a folder that the loader does not know: as its wheel lies on a fresh machine."""

    def nvrtc(self):
        found = re.search(r" at (/.*)$", self.json_of("stats")["nvrtc"])
        if not found:
            self.skipTest("no NVRTC here")
        return os.path.realpath(found[1])

    def test_its_builtins_need_no_place_known_to_the_loader(self):
        file = self.nvrtc()
        if not os.path.exists(LOADER):
            self.skipTest("no " + LOADER)
        with open(support.PROGRAM, "rb") as program:
            if re.search(rb"lib[at]san\.so", program.read()):
                self.skipTest("sanitizers start themselves anew, which this loader's options would not survive")
        os.mkdir(self.path("lib"))
        for name in os.listdir(os.path.dirname(file)):
            if re.match(r"libnvrtc(-builtins)?\.so", name):
                os.symlink(os.path.join(os.path.dirname(file), name), self.path("lib/" + name))
        environment = clean_environment(GQA_NVRTC=self.path("lib"))
        environment.pop("LD_LIBRARY_PATH", None)
        done = subprocess.run([LOADER, "--inhibit-cache", support.PROGRAM, "--db", self.db, "warm", "--arch", "sm_80",
                               "--shape", SHAPE], capture_output=True, text=True, timeout=300, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    support.main()
