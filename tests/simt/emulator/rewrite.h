// rewrite.h: CUDA's text made fit for a host compiler.
// Owns: asm statements, whose PTX no host compiler takes, become calls of the emulator; extern shared arrays become
// pointers. Line numbers stay.
// Never: changes what a kernel does: all else is left as it stands.
// Threads: pure functions.
#pragma once

#include <string>

namespace gqa::simt {

std::string rewrite(const std::string& cuda);

}  // namespace gqa::simt
