// handle.h: gqa_handle as a Python object.
// Owns: the handle's life, the log callback or the warnings, and letting go of the GIL around every call into the
// library.
// Never: chooses a device, allocates outputs or knows a framework (gqa/ does).
// Threads: any number at once. close() lets calls that are under way finish and programs live; the last of them
// destroys the handle.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gqa.h"
#include "interruptible.h"
#include "outside.h"
#include "warnings.h"

namespace gqa::python {

struct HandleOptions {
  std::optional<std::string> device, cache_path, nvrtc_path;
  int cache_mode = GQA_CACHE_READ_WRITE;
  int tuning = GQA_TUNE_NOW;
  double tuning_budget = 0;
  int threads = 0;
  pybind11::object log;
  bool checked = false;
};

// Left and right; none: no window.
using Window = std::optional<std::array<std::int32_t, 2>>;

// Dies with the GIL held: by close(), or by the last call or program that needs it.
struct HandleOwner {
  gqa_handle handle = nullptr;
  pybind11::object log;
  Warnings warnings;                                  // where there is no log
  std::atomic<int> calls = 0;                         // threads that are inside
  std::atomic<int> tuning = GQA_CALL_TUNE_AS_HANDLE;  // of calls that say nothing of it: a gqa_call_tuning
  bool abandoned = false;                             // by a process that forked or exits
  const pid_t process;                                // that made it
  HandleOwner();
  ~HandleOwner();
  // Else nothing of it may be used or destroyed here: its threads are another process's.
  bool usable_here() const;
  // Before one: raises where the interpreter exits; another thread than the one that ends it never comes back.
  void begin() const;
  // After a call of the library: tells its warnings, then raises if it failed.
  void finish(const Outcome& outcome);
};

class Handle {
 public:
  explicit Handle(HandleOptions options);
  std::shared_ptr<HandleOwner> open() const;  // raises where it is closed
  void merge_states(const std::vector<pybind11::object>& outs, const std::vector<pybind11::object>& lses,
                    pybind11::object out, pybind11::object lse, uintptr_t stream) const;
  void warm(const gqa_shape& shape) const;
  // progress: None, or is given a dict of gqa_serving_progress.
  void warm_serving(gqa_serving serving, pybind11::object progress) const;
  void cancel() const;
  void set_tuning(int tuning) const { open()->tuning = tuning; }
  void set_budget(double seconds) const;
  void close() { owner_.reset(); }
  bool closed() const { return owner_ == nullptr; }
  // Forgets the handle without destroying it: for a child process, whose copy has no threads.
  void abandon();
  static void define(pybind11::module_& module);

 private:
  std::shared_ptr<HandleOwner> owner_;
};

}  // namespace gqa::python
