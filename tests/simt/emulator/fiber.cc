// fiber.cc: see fiber.h. A context starts a fiber; from then on jumps switch, which make no system call. The checked
// longjmp takes a jump between stacks for a mistake.
#undef _FORTIFY_SOURCE
#include "tests/simt/emulator/fiber.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace gqa::simt {
namespace {

constexpr std::size_t kStack = 256 * 1024, kGuard = 4096;

Fiber* current = nullptr;
std::jmp_buf resumer;

}  // namespace

Fiber::Fiber() {
  void* memory = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<char*>(memory);
  mprotect(stack_, kGuard, PROT_NONE);
}

Fiber::~Fiber() { munmap(stack_, kGuard + kStack); }

void Fiber::start(void (*function)(void*), void* argument) {
  function_ = function;
  argument_ = argument;
  started_ = false;
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_ + kGuard;
  context_.uc_stack.ss_size = kStack;
  context_.uc_link = nullptr;
  makecontext(&context_, &Fiber::begin, 0);
}

void Fiber::begin() {
  current->function_(current->argument_);
  leave();
  std::abort();  // resumed after its end; to return would end the process, quietly and with success
}

void Fiber::resume() {
  current = this;
  if (_setjmp(resumer) != 0) return;
  if (started_) _longjmp(here_, 1);
  started_ = true;
  setcontext(&context_);
}

void Fiber::leave() {
  if (_setjmp(current->here_) == 0) _longjmp(resumer, 1);
}

bool Fiber::overflowed_at(const void* address) const { return address >= stack_ && address < stack_ + kGuard; }

}  // namespace gqa::simt
