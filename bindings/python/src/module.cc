// module.cc: gqa._gqa, the extension module: Handle, Graph, Program, PagePool, Array, and what the library says about
// itself. Never: holds state of its own. Threads: as its classes say.
#include <pybind11/pybind11.h>

#include "array.h"
#include "borrow.h"
#include "graph.h"
#include "handle.h"
#include "pages.h"
#include "program.h"

namespace py = pybind11;

PYBIND11_MODULE(_gqa, module) {
  module.doc() = "The C interface of gqa as Python sees it; use the package gqa.";
  gqa::python::Handle::define(module);
  gqa::python::Array::define(module);
  gqa::python::Graph::define(module);
  gqa::python::Program::define(module);
  gqa::python::PagePool::define(module);
  module.def("describe", &gqa::python::describe_capsule, py::arg("capsule"));
  module.def("leave", &gqa::python::leave);
  module.def("version", &gqa_version);
  module.def("built_with", [] { return GQA_VERSION; });
  module.def(
      "status_string", [](int status) { return gqa_status_string(static_cast<gqa_status>(status)); },
      py::arg("status"));
}
