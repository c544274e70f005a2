#!/usr/bin/env python3
"""gqa.h and gqa_graph.h as generators of bindings read them, with nothing but the folders that gqa.pc names: bindgen
(Rust), cgo (Go), ctypesgen (Python). Each must find every struct, field and function of the headers, where a C compiler
has them, and call the library.

Owns: one class, and one ctest, for each reader; the program that tells what it read; the comparison with C.
Never: helps a reader: no list of names, no option that leaves something out. One thread.

  headers_test.py BUILD SOURCE READER
"""
import os
import sys
from pathlib import Path

import installed
from installed import number, run

sys.path += [os.path.join(os.path.dirname(os.path.abspath(__file__)), *folder)
             for folder in (("..", "runtime", "api"), ("..", "..", "bindings", "c"))]
from layout_test import layout
from library_test import promised

TOOLS = {"Bindgen": ["bindgen", "rustc", "cc", "pkg-config"], "Cgo": ["go", "cc", "pkg-config"],
         "Ctypesgen": ["ctypesgen", "cc", "pkg-config"]}
HEADERS = ("gqa.h", "gqa_graph.h")
GO_WORDS = {"func", "interface", "map", "range", "select", "type"}  # cgo puts a _ before them


class Reader:
    """A subclass writes a program that prints a line "NAME NUMBER..." for each of what expected() has."""

    def setUp(self):
        super().setUp()
        self.include = os.path.dirname(self.find("gqa.h"))
        self.env = self.environment()
        self.flags = {option: run("pkg-config", f"--{option}", "gqa", **self.env).split()
                      for option in ("cflags", "libs")}
        structs_and_fields = layout(Path(self.include), "cc", os.path.join(self.include, "gqa"))
        self.fields = {name: numbers for name, numbers in structs_and_fields.items() if "." in name}
        self.structs = {name: (size,) for name, (_, size) in structs_and_fields.items() if "." not in name}
        self.functions = sorted(set().union(*(promised(os.path.join(self.include, name)) for name in HEADERS)))

    def expected(self):
        return {**self.structs, **self.fields, **{name: () for name in self.functions},
                "GQA_VERSION": (number(),), "GQA_ERROR_CANCELLED": (28,), "called": (number(),)}

    def test_all_is_where_a_c_compiler_has_it(self):
        told = {name: tuple(map(int, numbers)) for name, *numbers in map(str.split, self.told().splitlines())}
        self.maxDiff = None
        self.assertEqual(told, self.expected())


class Bindgen(Reader, installed.Consumers):
    def told(self):
        header = os.path.join(self.include, "gqa_graph.h")  # which includes the other
        run("bindgen", header, "-o", self.path("gqa.rs"), "--", *self.flags["cflags"])
        lines = [f'println!("{name} {{}}", size_of::<gqa::{name}>());' for name in self.structs]
        for struct, field in (name.split(".") for name in self.fields):
            lines += [f"let room = MaybeUninit::<gqa::{struct}>::uninit();",
                      f"let field = unsafe {{ addr_of!((*room.as_ptr()).{field}) }};",
                      "let offset = field as usize - room.as_ptr() as usize;",
                      f'println!("{struct}.{field} {{}} {{}}", offset, size_at(field));']
        lines += [f'if gqa::{name} as *const () as usize != 0 {{ println!("{name}"); }}' for name in self.functions]
        self.write("main.rs", "\n".join([
            "#[allow(warnings)] mod gqa;", "use std::mem::{size_of, MaybeUninit};", "use std::ptr::addr_of;",
            "fn size_at<T>(_: *const T) -> usize { size_of::<T>() }", "fn main() {", *lines,
            'println!("GQA_VERSION {}", gqa::GQA_VERSION);',
            'println!("GQA_ERROR_CANCELLED {}", gqa::gqa_status_GQA_ERROR_CANCELLED);',
            'println!("called {}", unsafe { gqa::gqa_version() });', "}", ""]))
        run("rustc", "main.rs", *self.flags["libs"], cwd=self.folder)
        return run(self.path("main"), **self.env)


class Cgo(Reader, installed.Consumers):
    def told(self):
        lines = [f'fmt.Println("{name}", unsafe.Sizeof(C.{name}{{}}))' for name in self.structs]
        for struct, field in (name.split(".") for name in self.fields):
            member = f"C.{struct}{{}}.{'_' if field in GO_WORDS else ''}{field}"
            lines.append(f'fmt.Println("{struct}.{field}", unsafe.Offsetof({member}), unsafe.Sizeof({member}))')
        lines += [f'if unsafe.Pointer(C.{name}) != nil {{ fmt.Println("{name}") }}' for name in self.functions]
        self.write("main.go", "\n".join([
            "package main", "// #cgo pkg-config: gqa", *(f"// #include <{name}>" for name in HEADERS), 'import "C"',
            'import ("fmt"; "unsafe")', "func main() {", *lines, 'fmt.Println("GQA_VERSION", C.GQA_VERSION)',
            'fmt.Println("GQA_ERROR_CANCELLED", C.GQA_ERROR_CANCELLED)', 'fmt.Println("called", C.gqa_version())', "}",
            ""]))
        return run("go", "run", "main.go", cwd=self.folder, GOCACHE=self.path("go"), **self.env)


class Ctypesgen(Reader, installed.Consumers):
    def told(self):
        said = run("ctypesgen", *self.flags["cflags"], "-l", "libgqa.so.0",
                   *(os.path.join(self.include, name) for name in HEADERS), "-o", self.path("gqa_read.py"), **self.env)
        for line in said.splitlines():  # of the C library's headers it may say what it likes
            self.assertFalse("error" in line.lower() and self.include in line, line)
        lines = [f'print("{name}", ctypes.sizeof(gqa.{name}))' for name in self.structs]
        for struct, field in (name.split(".") for name in self.fields):
            lines.append(f'print("{struct}.{field}", gqa.{struct}.{field}.offset, gqa.{struct}.{field}.size)')
        lines += [f'ctypes.cast(gqa.{name}, ctypes.c_void_p).value and print("{name}")' for name in self.functions]
        self.write("main.py", "\n".join([
            "import ctypes", "import gqa_read as gqa", *lines, 'print("GQA_VERSION", gqa.GQA_VERSION)',
            'print("GQA_ERROR_CANCELLED", gqa.GQA_ERROR_CANCELLED)', 'print("called", gqa.gqa_version())', ""]))
        return run(sys.executable, "main.py", cwd=self.folder, **self.env)


if __name__ == "__main__":
    installed.main(TOOLS)
