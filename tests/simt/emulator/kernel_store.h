// kernel_store.h: emulated kernels as shared libraries, each compiled once and kept by the hash of all it is made of.
// Owns: the compiler's command, the key (the compiler's version, its options, the kernel's text and the headers it
// includes, the emulator's own), the folder of libraries below the build's. Never: loads or runs one. Never gives a
// library back whose text has changed by a byte. Threads: any; processes that compile the same kernel at once leave the
// same file.
#pragma once

#include <string>
#include <vector>

#include "jit/embedded.h"

namespace gqa::simt {

// The library of a kernel's text, rewritten for the host (rewrite.h); empty, and the compiler's words, where it does
// not compile.
std::string library_of(const std::string& text, const std::vector<EmbeddedHeader>& headers, std::string* why);

// What names a library; different for any two kernels that differ in a byte the compiler sees.
std::string kernel_digest(const std::string& text, const std::vector<EmbeddedHeader>& headers);

// Whether the compiler answers at all.
bool compiler_works();

}  // namespace gqa::simt
