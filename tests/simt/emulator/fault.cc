// fault.cc: see fault.h.
#include "tests/simt/emulator/fault.h"

#include <csignal>
#include <vector>

#include "tests/simt/emulator/fiber.h"

namespace gqa::simt {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
struct sigaction before[4];
stack_t stack_before;
Fault fault;

// On a stack of its own: the fiber's may be what overflowed.
void leave_fiber(int signal, siginfo_t* info, void*) {
  fault = {signal, info->si_addr};
  Fiber::leave();
}

}  // namespace

FaultScope::FaultScope() {
  static std::vector<char> memory(64 * 1024);
  stack_t stack{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  sigaltstack(&stack, &stack_before);
  fault = {};
  struct sigaction action {};
  action.sa_sigaction = leave_fiber;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // left by a jump, the signal must not stay blocked
  for (int i = 0; i < 4; ++i) sigaction(kSignals[i], &action, &before[i]);
}

FaultScope::~FaultScope() {
  for (int i = 0; i < 4; ++i) sigaction(kSignals[i], &before[i], nullptr);
  sigaltstack(&stack_before, nullptr);
}

Fault FaultScope::last() { return fault; }

}  // namespace gqa::simt
