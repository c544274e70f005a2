// prepared.h: what a call found when it last ran.
// Owns: Prepared: a session's program for calls that differ in their addresses alone.
// Never: runs or owns the program; the session that wrote it knows whether it is still good.
// Threads: each has its own (recent_calls.h).
#pragma once

#include <cstdint>

namespace gqa {

class LoadedProgram;

struct Prepared {
  std::uint64_t call = 0;                  // which call of the thread's it is of; its memory may be another's by now
  std::uint64_t session = 0, version = 0;  // that found it, and of its table; no session has number 0
  const LoadedProgram* program = nullptr;
  bool guessed = false;
  bool two_steps = false;  // the program does not append itself
};

}  // namespace gqa
