// errors.h: from a gqa_status to a Python exception.
// Owns: which message travels, and the way to gqa._errors, where the exception classes live.
// Never: decides which class a status becomes (gqa/_errors.py does).
// Threads: call with the GIL held, on the thread whose call failed.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "gqa.h"

namespace gqa::python {

// gqa_last_error() of a call that failed, or at least the status's name.
std::string last_message(gqa_status status);

// Throws the exception of a failed call, with that message.
[[noreturn]] void raise_last(gqa_status status);

// Throws the exception of a status with a message of the binding's own.
[[noreturn]] void raise(gqa_status status, const std::string& message);

}  // namespace gqa::python
