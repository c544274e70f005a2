// program.h: gqa_program as a Python object.
// Owns: the search (with the GIL let go of), its progress callback, runs, and the program's life, which keeps its
// handle's.
// Never: allocates outputs or knows a framework (gqa/ does).
// Threads: run() on any number at once.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph.h"
#include "handle.h"

namespace gqa::python {

struct SearchOptions {
  std::optional<std::string> config;
  double budget = 0;
  uint64_t seed = 0;
  pybind11::object progress;  // None or called with one dict
};

class Program {
 public:
  Program(const Graph& graph, const Handle& handle, SearchOptions options);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run(const std::vector<pybind11::object>& inputs, const std::vector<pybind11::object>& outputs,
           uintptr_t stream) const;
  static void define(pybind11::module_& module);

 private:
  gqa_program get() const;  // raises where it is of a process that forked

  std::shared_ptr<HandleOwner> owner_;
  gqa_program program_ = nullptr;
};

}  // namespace gqa::python
