// outside.h: threads that are in the library, without the GIL, and what becomes of them when the interpreter exits.
// Owns: Outside (a scope without the GIL), the handles that are alive, leaving them at exit.
// Never: waits long at exit, or destroys what still works: a leak is fine there, joining a compiler is not.
// Threads: any.
#pragma once

#include <Python.h>

#include <atomic>

#include "gqa.h"

namespace gqa::python {

// Lets go of the GIL for the scope. A thread that comes back while the interpreter exits never does: asking for the GIL
// then would unwind it through frames that may not be unwound.
class Outside {
 public:
  // `calls`: counts those that are inside one handle; may be null.
  explicit Outside(std::atomic<int>* calls = nullptr);
  ~Outside();
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  std::atomic<int>* calls_;
  PyThreadState* state_;
};

struct HandleOwner;

// Handles that are alive; with the GIL held.
void enrol(HandleOwner* owner);
void strike_off(HandleOwner* owner);

// At the interpreter's exit, with the GIL held: cancels what is tuned, lets calls end and handles be destroyed for a
// moment, and leaves the rest as it is. No call begins after it. Where something still runs, the process ends with the
// status that it was going to, before static destructors run under it.
void leave();

// Whether leave() was called; and whether by another thread: then no callback of this thread may ask for the GIL.
bool left();
bool exiting();

}  // namespace gqa::python
