// graph.h: gqa_graph as a Python object.
// Owns: the graph's life, and one method an operator, each a call of the C function of its name.
// Never: checks a shape or words a message (the library does), or searches (program.h).
// Threads: with the GIL held, which is what keeps two threads from building one graph at once.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gqa_graph.h"

namespace gqa::python {

class Graph {
 public:
  Graph();
  explicit Graph(const std::string& text);  // from its text or JSON
  gqa_graph get() const { return graph_.get(); }
  // name: none, or what the value is called.
  gqa_value input(const std::vector<int64_t>& dims, const std::optional<std::vector<int64_t>>& strides, int code,
                  int bits, const std::optional<std::string>& name);
  pybind11::tuple describe(gqa_value value) const;  // (dims, dtype code, dtype bits)
  static void define(pybind11::module_& module);

 private:
  void check_name(const std::string& name) const;

  struct Destroy {
    void operator()(gqa_graph graph) const { gqa_graph_destroy(graph); }
  };
  std::unique_ptr<gqa_graph_s, Destroy> graph_;
};

// (dims, dtype code, dtype bits)
pybind11::tuple described(int rank, const int64_t* dims, DLDataType dtype);

// A text of the library; raises where it gave none.
std::string text_of(const char* text);

}  // namespace gqa::python
