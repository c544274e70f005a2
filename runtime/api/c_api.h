// c_api.h: what every file of the C interface does at its edge.
// Owns: this thread's last error, and the guards in which every exception ends as a status.
// Never: knows what a call does.
// Threads: the last error is thread-local. A success touches one thread-local pointer, no string.
#pragma once

#include "runtime/api/gqa.h"
#include "search/status.h"

namespace gqa {

// What gqa_last_error returns: "", the text of a message kept beside it, or a literal.
extern thread_local constinit const char* last_error;

gqa_status failed(const Status& status) noexcept;
gqa_status failed(Code code, const char* literal) noexcept;
gqa_status failed_by_exception() noexcept;  // in a catch block: whatever was thrown

// Runs a step that gives a Status; whatever it throws becomes one.
template <typename Step>
gqa_status guarded(const Step& step) noexcept {
  try {
    const Status status = step();
    if (!status.ok()) [[unlikely]]
      return failed(status);
    last_error = "";
    return GQA_OK;
  } catch (...) {
    return failed_by_exception();
  }
}

// The same for a step that writes what its caller returns: a text, a number. `otherwise` where it fails.
template <typename Result, typename Step>
Result guarded_or(Result otherwise, const Step& step) noexcept {
  Result result = otherwise;
  return guarded([&] { return step(&result); }) == GQA_OK ? result : otherwise;
}

}  // namespace gqa
