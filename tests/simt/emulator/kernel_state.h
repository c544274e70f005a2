// kernel_state.h: what a compiled kernel has of its emulator: set through its Binding.
// Owns: the variables.
// Never: included by the emulator.
// Threads: fibers of one thread of the system.
#pragma once

#include "machine.h"

namespace gqa::simt {

inline Machine* machine = nullptr;
inline const Self* self = nullptr;
inline const char* shared_begin = nullptr;
inline unsigned long shared_bytes = 0;
inline const char* workspace_begin = nullptr;
inline unsigned long workspace_bytes = 0;

}  // namespace gqa::simt
