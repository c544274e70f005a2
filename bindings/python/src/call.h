// call.h: Handle.run, which every call of attention goes through, and Handle.explain.
// Owns: what each argument becomes in a gqa_call; gqa/_gqa.pyi lists them in their order, in which gqa/_call.py hands
// them in. They are methods of Python's own, not of pybind11's: that spends half of what the rest of a hit does on
// twenty arguments. Never: checks what the library checks. Threads: entered and left with the GIL held, without it
// while the library runs.
#pragma once

#include <pybind11/pybind11.h>

namespace gqa::python {

// run(...): by position; from softcap on they may be left out. append: None, or the fields of _options.py's Append but
// the last. arrays: None, or tensors by the names of gqa_call's fields. tuning: a gqa_call_tuning. Returns the seconds
// that making the kernel ready took; 0.0: it was.
// explain(...), of the same arguments, out None or a tensor: (text, JSON), of gqa_explain.
void define_calls(pybind11::handle type);

}  // namespace gqa::python
