// ptx_block.h: asm statements of several instructions.
// Owns: their recognition and their execution, step by step.
// Never: knows what a step does (the other ptx_*.cc).
// Threads: those of one launch.
#pragma once

#include <string>

#include "tests/simt/emulator/ptx/ptx.h"

namespace gqa::simt {

bool is_block(const std::string& text);
Handler block_handler();

}  // namespace gqa::simt
