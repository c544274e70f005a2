// wgmma_text.h: the wgmma wrappers a kernel needs, as CUDA source.
// Owns: the text of one wgmma.mma_async instruction (PTX ISA 9.7.15.5.2) for a tile size: its operand list names every
// accumulator register, so a wrapper for all sizes cannot be written by hand.
// Never: decides which sizes; codegen.cc does.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "search/problem/problem.h"

namespace gqa {

// How b (16 x columns) lies in shared memory: contiguous along the inner dimension, or along its rows.
enum class BLayout : std::uint8_t { kColumns, kRows };

// struct `name` with static multiply(float (&d)[columns / 8][4], u64 a, u64 b, bool accumulate): d (64 x columns) = or
// += a (64 x 16, rows) * b, both in shared memory.
std::string shared_product(const std::string& name, ElementType dtype, int columns, BLayout b);

// The same with a in registers, const u32 (&a)[4].
std::string register_product(const std::string& name, ElementType dtype, int columns, BLayout b);

// Both, as overloads.
std::string either_product(const std::string& name, ElementType dtype, int columns, BLayout b);

}  // namespace gqa
