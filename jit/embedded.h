// embedded.h: the device headers, carried inside the library.
// Owns: their names and texts, handed to NVRTC by memory.
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

}  // namespace gqa
