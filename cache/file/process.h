// process.h: which process is which, and whether it still lives.
// Owns: a process's identity that survives the reuse of its number.
// Never: signals anybody.
// Threads: pure reads of /proc.
#pragma once

#include <cstdint>
#include <string>

namespace gqa::cache {

struct Process {
  std::string machine;  // this boot of this kernel, and the PID namespace: where `pid` means something
  std::int64_t pid = 0;
  std::int64_t started = 0;  // clock ticks after boot; 0 if unknown
};

Process this_process();

// True only if it is certain: on this machine, and gone, a zombie, or another process under the same number.
bool is_dead(const Process& process);

}  // namespace gqa::cache
