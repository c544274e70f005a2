// progress.h: what the library tells on the way, for a Python callable.
// Owns: the callable, and the first exception that it raises: none may pass through C.
// Never: knows what is told.
// Threads: told on whichever thread works; entered without the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>

#include "gqa.h"
#include "outside.h"

namespace gqa::python {

// An exception cancels the work, is kept and raised once that has returned.
struct Progress {
  pybind11::object call;  // None: nothing is told
  gqa_handle handle;
  std::exception_ptr thrown;

  // fill: puts what is told into a dict.
  template <typename Fill>
  void tell(const Fill& fill) {
    if (thrown || call.is_none() || exiting()) return;
    pybind11::gil_scoped_acquire gil;
    try {
      pybind11::dict told;
      fill(told);
      call(told);
    } catch (...) {
      thrown = std::current_exception();
      gqa_cancel(handle);
    }
  }
  void rethrow() const {
    if (thrown) std::rethrow_exception(thrown);
  }
};

}  // namespace gqa::python
