// embedded.h: the device headers, carried inside the library.
// Owns: their names and texts, handed to NVRTC by memory, and the fingerprint over them and the generator's own sources
// that every cache key holds: change either and old rows are simply not found.
// Never: reads a file. The .cc is written at build time by embed.cmake.
// Threads: constant after first use.
#pragma once

#include <string>
#include <vector>

namespace gqa {

struct EmbeddedHeader {
  std::string name;
  std::string text;
};

const std::vector<EmbeddedHeader>& embedded_headers();
const char* generator_fingerprint();

}  // namespace gqa
