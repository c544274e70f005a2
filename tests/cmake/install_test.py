#!/usr/bin/env python3
"""What `cmake --install` and add_subdirectory give others: used from a prefix that was moved, as a stranger would.

Owns: consumers of an installation (installed.py) in temporary folders. A test whose tool is not here is skipped by
name.
Never: builds the library again: a project that has it as a part compiles its own files and links with what is built.
One thread.

  install_test.py BUILD SOURCE
"""
import json
import os
import re
import shlex
import shutil

import installed
from installed import needs, number, run, version

C_PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "gqa.h"
#include "gqa_graph.h"
int main(void) {
  int64_t shape[] = {1, 2, 1, 32};
  uint16_t q[64] = {0}, v[64], out[64] = {0};
  DLTensor t = {.data = q, .device = {kDLCPU, 0}, .ndim = 4, .dtype = {kDLBfloat, 16, 1}, .shape = shape};
  DLTensor tv = t, to = t;
  gqa_options options = {.size = sizeof options, .device = "host", .cache_mode = GQA_CACHE_OFF,
                         .tuning = GQA_TUNE_GUESS};
  gqa_handle gqa;
  for (int i = 0; i < 64; ++i) v[i] = i < 32 ? 0x3f80 : 0x4040; /* 1 and 3: 2 in the mean */
  tv.data = v;
  to.data = out;
  if (gqa_create(&options, &gqa) != GQA_OK || gqa_run(gqa, &t, &t, &tv, &to) != GQA_OK) {
    puts(gqa_last_error());
    return 1;
  }
  gqa_destroy(gqa);
  printf("%d 0x%04x\\n", gqa_version(), out[0]);
  return 0;
}
"""

CPP_PROGRAM = """
#include <cstdio>
#include "gqa.hpp"
int main() {
  const gqa::Handle handle("host");
  std::printf("%d\\n", gqa_version());
}
"""

CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
@GET@
add_executable(c_program program.c)
add_executable(cpp_program program.cc)
foreach(program c_program cpp_program)
  target_link_libraries(${program} PRIVATE gqa::gqa)
endforeach()
set_target_properties(cpp_program PROPERTIES CXX_STANDARD 17)
"""


class Consumers(installed.Consumers):
    def project(self, get):
        self.write("CMakeLists.txt", CMAKE_PROJECT.replace("@GET@", get))
        self.write("program.c", C_PROGRAM)
        self.write("program.cc", CPP_PROGRAM)

    def answers(self, program):
        told = run(program, LD_LIBRARY_PATH=self.library_dir, XDG_CACHE_HOME=self.folder)
        self.assertIn(str(number()), told)
        return told


class Installed(Consumers):
    def test_nothing_names_a_folder_of_this_machine(self):
        for folder, _, files in os.walk(self.moved):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    data = file.read()
                for place in (installed.BUILD, installed.SOURCE, self.made):
                    self.assertNotIn(place.encode(), data, f"{folder}/{name}")

    def test_programs_are_linked_with_the_name_of_all_minor_versions(self):
        self.assertTrue(os.path.islink(self.find("libgqa.so")))
        self.assertEqual(os.readlink(self.find("libgqa.so")), "libgqa.so.0")
        self.assertFalse(os.path.islink(self.find("libgqa.so.0")))

    @needs("pkg-config", "cc", "c++")
    def test_pkg_config(self):
        env = self.environment()
        self.assertEqual(run("pkg-config", "--modversion", "gqa", **env).strip(), ".".join(version()))
        flags = run("pkg-config", "--cflags", "--libs", "gqa", **env).split()
        self.write("program.c", C_PROGRAM)
        self.write("program.cc", CPP_PROGRAM)
        run("cc", "-std=c11", "-Wall", "-Werror", "program.c", *flags, "-o", "c_program", cwd=self.folder)
        run("c++", "-std=c++17", "-Wall", "-Werror", "program.cc", *flags, "-o", "cpp_program", cwd=self.folder)
        self.assertIn("0x4000", self.answers(self.path("c_program")))
        self.answers(self.path("cpp_program"))

    @needs("cmake", "cc", "c++")
    def test_find_package(self):
        self.project(f"find_package(gqa {version()[0]}.{version()[1]} REQUIRED)")
        run("cmake", "-S", self.folder, "-B", self.path("build"), f"-DCMAKE_PREFIX_PATH={self.moved}")
        run("cmake", "--build", self.path("build"))
        self.assertIn("0x4000", self.answers(self.path("build/c_program")))
        self.answers(self.path("build/cpp_program"))

    @needs("cmake")
    def test_find_package_refuses_other_versions(self):
        major, minor, _ = map(int, version())
        for other in (f"{major}.{minor + 1}", f"{major + 1}.0", f"{major}.{minor - 1}"):
            self.project(f"find_package(gqa {other} REQUIRED)")
            shutil.rmtree(self.path("build"), ignore_errors=True)
            told = run("cmake", "-S", self.folder, "-B", self.path("build"), f"-DCMAKE_PREFIX_PATH={self.moved}",
                       code=1)
            self.assertIn(f'compatible with requested version "{other}"', " ".join(told.split()))

    def test_the_command_runs(self):
        self.assertIn(".".join(version()), run(os.path.join(self.moved, "bin", "gqa-cache"), "--version"))


class Part(Consumers):
    """As a part of another project. Its own files are compiled there, and linked with the library of this build."""

    def configure(self, get):
        self.project(get)
        with open(os.path.join(installed.BUILD, "CMakeCache.txt")) as file:
            cuda = re.search(r"^GQA_CUDA_H_DIR:PATH=(.*)$", file.read(), re.MULTILINE)[1]
        run("cmake", "-G", "Ninja", "-S", self.folder, "-B", self.path("build"), f"-DGQA_CUDA_INCLUDE={cuda}")

    def part(self, get):
        self.configure(get)
        with open(self.path("build/compile_commands.json")) as file:
            commands = {os.path.basename(entry["file"]): entry["command"] for entry in json.load(file)}
        for name in ("program.c", "program.cc"):
            run(*shlex.split(commands[name])[:-4], "-c", self.path(name), "-o", self.path("program.o"))
            run("c++", self.path("program.o"), os.path.join(installed.BUILD, "libgqa.so"), "-o", self.path("program"))
            self.answers(self.path("program"))
        self.assertTrue([name for name in commands if name.startswith("unity_runtime")], sorted(commands))
        for name, command in commands.items():
            for option in ("-Wall", "-O2", "-DNDEBUG"):
                self.assertNotIn(option, command.split(), f"{name}: a flag of a project that chose none")
        self.assertFalse([name for name in commands if name.endswith("_test.cc")], "tests")
        self.assertNotIn("main.cc", commands, "the command")
        self.assertIn("Total Tests: 0", run("ctest", "-N", "--test-dir", self.path("build")))

    @needs("cmake", "ninja", "cc", "c++")
    def test_add_subdirectory(self):
        self.part(f'add_subdirectory("{installed.SOURCE}" gqa)')

    @needs("cmake", "ninja", "cc", "c++")
    def test_fetch_content(self):
        self.part(f'include(FetchContent)\nFetchContent_Declare(gqa SOURCE_DIR "{installed.SOURCE}")\n'
                  "FetchContent_MakeAvailable(gqa)")


class Pages(Consumers):
    """The manual page and the completions, which are made of the command's help."""

    def help(self, *command):
        return run(os.path.join(self.moved, "bin", "gqa-cache"), "help", *command)

    def commands(self):
        listed = re.search(r"\nSubcommands:\n(.*?)\n\n", self.help(), re.DOTALL)[1]
        found = [name for line in listed.splitlines()
                 for name in re.match(r"  ([a-z][a-z, ]*?)  ", line)[1].split(", ")]
        self.assertIn("warm", found)
        return found

    def options(self, command):
        lines = self.help(command).split("Options:\n")[1].splitlines()
        return {name for line in lines if line.startswith("  -")
                for name in re.findall(r"--[a-z][a-z-]+", line.split(":")[0].split(" Excludes")[0][:30])}

    @needs("man")
    def test_the_manual_page_has_every_command(self):
        told = run("man", "--warnings", "-l", self.find("gqa-cache.1"), MANWIDTH="200", LC_ALL="C.UTF-8",
                   MANPAGER="cat")
        self.assertNotIn("warning", told)
        for command in self.commands():
            for line in self.help(command).splitlines():
                self.assertIn(line.strip()[:60], told)

    @needs("bash")
    def test_bash_completes(self):
        script = os.path.join(self.moved, "share/bash-completion/completions/gqa-cache")

        def completed(*words):
            return run("bash", "-c", f'. "{script}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gqa_cache; '
                       'printf "%s\\n" "${COMPREPLY[@]}"', "bash", "gqa-cache", *words).split()

        for command in self.commands():
            self.assertIn(command, completed(command[:2]))
            self.assertLessEqual(self.options(command), set(completed("--db", "x.db", command, "--")))
        self.assertEqual(completed("warm", "--sh"), ["--shape", "--shapes"])
        self.assertEqual(completed("show", "3f"), [])

    def read(self, path):
        with open(os.path.join(self.moved, path)) as file:
            return file.read()

    def test_zsh_and_fish_are_told_the_same(self):
        zsh = self.read("share/zsh/site-functions/_gqa-cache")
        fish = self.read("share/fish/vendor_completions.d/gqa-cache.fish")
        for command in self.commands():
            self.assertRegex(zsh, rf"(?m)^  '{command}:")
            self.assertIn(f" -a {command} ", fish)
            offered = re.search(rf"(?m)^  (?:\S*\|)?{command}(?:\|\S*)?\) offered=\((.*?)\);;$", zsh)[1].split()
            for option in self.options(command):
                self.assertIn(option, offered)
                self.assertIn(f"'__fish_seen_subcommand_from {command}' -l {option[2:]}\n", fish)

    @needs("zsh")
    def test_zsh_reads_its_completions(self):
        run("zsh", "-n", os.path.join(self.moved, "share/zsh/site-functions/_gqa-cache"))

    @needs("fish")
    def test_fish_completes(self):
        script = os.path.join(self.moved, "share/fish/vendor_completions.d/gqa-cache.fish")
        told = run("fish", "--no-config", "-c", f'source {script}; complete -C "gqa-cache warm --sh"')
        self.assertIn("--shapes", told)


if __name__ == "__main__":
    installed.main()
