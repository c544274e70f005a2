// place.h: a place in the source as messages name it.
// Owns: its text.
// Never: more of the path than the file's name.
// Threads: pure functions.
#pragma once

#include <string>

#include "tests/simt/emulator/machine.h"

namespace gqa::simt {

// "stream_k.cuh:57"; of line 0 the name alone, which may be words.
inline std::string to_text(Place place) {
  const std::string file = place.file;
  return file.substr(file.rfind('/') + 1) + (place.line > 0 ? ":" + std::to_string(place.line) : "");
}

}  // namespace gqa::simt
