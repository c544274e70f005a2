// fiber.h: functions that can be left in the middle and gone on with.
// Owns: a fiber's stack and place in its code.
// Never: decides who runs next.
// Threads: all fibers belong to the thread of the system that resumes them.
#pragma once

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>

namespace gqa::simt {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() begins with this, on an empty stack. What was there before is dropped, not destroyed.
  void start(void (*function)(void*), void* argument);
  // Goes on until the function leaves or ends.
  void resume();
  // In a fiber: back to whom resumed it.
  static void leave();
  // Is an address in the guard below this fiber's stack?
  bool overflowed_at(const void* address) const;

 private:
  static void begin();

  char* stack_;
  void (*function_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool started_ = false;
  ucontext_t context_;
  std::jmp_buf here_;
};

}  // namespace gqa::simt
