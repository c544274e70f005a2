// fault.h: faults of the processor (a guard page touched, a trap of the compiler's checks) while kernels run.
// Owns: the signal handlers of a scope, and what the last fault was.
// Never: decides what it means.
// Threads: one launch at a time.
#pragma once

namespace gqa::simt {

struct Fault {
  int signal = 0;  // 0: none
  const void* address = nullptr;
};

// While it lives, a fault leaves the running fiber for good.
class FaultScope {
 public:
  FaultScope();
  ~FaultScope();
  FaultScope(const FaultScope&) = delete;
  FaultScope& operator=(const FaultScope&) = delete;

  static Fault last();
};

}  // namespace gqa::simt
