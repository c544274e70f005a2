// ptxas_log.h: what the assembler's report says of a kernel.
// Owns: reading registers, spills and static shared memory out of a compile log, and its first error line.
// Never: compiles.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace gqa {

struct PtxasReport {
  int registers = 0;    // a thread
  int spill_bytes = 0;  // stores, a thread
  int static_smem = 0;  // bytes
};

// What a log with --ptxas-options=-v reports; the largest of each number where it is of several kernels.
PtxasReport read_ptxas_report(std::string_view log);

// The first line with "error" in it, else `fallback`.
std::string first_error(std::string_view log, std::string_view fallback);

}  // namespace gqa
