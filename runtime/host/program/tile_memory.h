// tile_memory.h: where each tile of a program lies in its arena.
// Owns: plan_memory(): values that live across phases keep a place of their own, others share by when they are read
// last; an elementwise step writes over an operand that nobody reads after it.
// Never: reorders steps.
// Threads: a pure function.
#pragma once

namespace gqa {

struct TileProgram;

// Fills in the values' offsets and the arena's size.
void plan_memory(TileProgram* program);

}  // namespace gqa
