// exchange.h: DLPack's exchange API, by which a type hands out a function that describes its objects: no capsule.
// Owns: the layout of its table (DLPack 1.2; Debian's header is older), and which type was asked last.
// Never: waits for a stream, as an export on the framework's own stream does not.
// Threads: the GIL held.
#pragma once

#include <pybind11/pybind11.h>

#include "gqa.h"

namespace gqa::python {

// False where the object's type has no such function. Shape and strides belong to the object. Leaves a Python exception
// and *failed set where the type has one that refuses.
bool describe_by_exchange(PyObject* object, DLTensor* tensor, bool* failed);

}  // namespace gqa::python
