// closure.h: all the text that a kernel is made of.
// Owns: which headers a generated source includes, directly or through others, and the hash of them all, which a
// kernel's key holds: change any of that text and the kernel is another, change anything else and it is not.
// Never: compiles, evaluates conditions (a header under #if counts) or reads a file.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/embedded.h"

namespace gqa {

// In the order in which they are met, each once. A name that is not among `headers` is left out: compiling says so.
std::vector<const EmbeddedHeader*> included_headers(std::string_view source,
                                                    const std::vector<EmbeddedHeader>& headers = embedded_headers());

// 32 hexadecimal digits, of the source and the names and texts of included_headers().
std::string closure_hash(std::string_view source, const std::vector<EmbeddedHeader>& headers = embedded_headers());

}  // namespace gqa
