// interruptible.cc: see interruptible.h.
#include "interruptible.h"

#include <pybind11/pybind11.h>

#include <chrono>
#include <future>
#include <system_error>
#include <thread>

#include "errors.h"
#include "handle.h"

namespace py = pybind11;

namespace gqa::python {

namespace {

constexpr std::chrono::milliseconds kLook(50);  // between two looks for signals

bool on_main_thread() {
  const py::module_ threading = py::module_::import("threading");
  return threading.attr("current_thread")().is(threading.attr("main_thread")());
}

Outcome called(const std::function<gqa_status()>& call) {
  const gqa_status status = call();
  return {status, status == GQA_OK ? "" : last_message(status)};
}

// The call on a thread of its own; where the system gives none, here and now.
std::future<Outcome> started(const std::function<gqa_status()>& call) {
  try {
    return std::async(std::launch::async, called, std::cref(call));
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, called, std::cref(call));
  }
}

// Without the GIL; false: not yet.
bool ended(const std::future<Outcome>& outcome) {
  const py::gil_scoped_release release;
  const std::future_status status = outcome.wait_for(kLook);
  if (status == std::future_status::deferred) outcome.wait();
  return status != std::future_status::timeout;
}

}  // namespace

Outcome interruptible(HandleOwner& owner, const std::function<gqa_status()>& call) {
  if (!on_main_thread()) {
    const Outside outside(&owner.calls);
    return called(call);
  }
  std::future<Outcome> outcome = started(call);
  while (!ended(outcome)) {
    if (PyErr_CheckSignals() == 0) continue;
    py::error_already_set thrown;  // takes it over: the callbacks of a call that is ending may run Python
    gqa_cancel(owner.handle);
    {
      const py::gil_scoped_release release;
      outcome.wait();
    }
    throw thrown;
  }
  return outcome.get();
}

}  // namespace gqa::python
