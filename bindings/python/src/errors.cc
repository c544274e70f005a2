// errors.cc: builds the exception with gqa._errors.error_for(status, message) and throws it through pybind11.
// Threads: GIL held.
#include "errors.h"

namespace py = pybind11;

namespace gqa::python {

void raise(gqa_status status, const std::string& message) {
  py::object error = py::module_::import("gqa._errors").attr("error_for")(static_cast<int>(status), message);
  PyErr_SetObject(py::type::of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

std::string last_message(gqa_status status) {
  const std::string message = gqa_last_error();
  return message.empty() ? gqa_status_string(status) : message;
}

void raise_last(gqa_status status) { raise(status, last_message(status)); }

}  // namespace gqa::python
