// interruptible.h: calls of the library that may take long, and that Ctrl-C ends.
// Owns: a thread for such a call while the main thread, the only one that Python's signals reach, looks for them.
// Never: on the way of a call that needs no tuning.
// Threads: entered and left with the GIL held; without it while the call runs. Elsewhere than on the main thread the
// call runs where it stands.
#pragma once

#include <functional>
#include <string>

#include "gqa.h"

namespace gqa::python {

struct Outcome {
  gqa_status status;
  std::string message;  // gqa_last_error() of the thread that called; "" after a success
};

struct HandleOwner;

// A signal whose handler raises cancels all that the handle is tuning; the exception is thrown once the call has ended.
Outcome interruptible(HandleOwner& owner, const std::function<gqa_status()>& call);

}  // namespace gqa::python
