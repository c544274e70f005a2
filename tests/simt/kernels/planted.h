// planted.h: the device headers with one fault in them, which the emulator must see, or it judges nothing.
// Owns: planting. A fault whose text a header no longer holds is an error, in runs that leave the fault out, too.
// Never: compiles.
// Threads: any.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jit/embedded.h"

namespace gqa::simt {

// `header` with the first `from` in it replaced by `to`, among all others; without a name the headers as they are.
inline std::vector<EmbeddedHeader> planted(const std::string& header, const std::string& from, const std::string& to) {
  std::vector<EmbeddedHeader> headers = embedded_headers();
  if (header.empty()) return headers;
  for (EmbeddedHeader& each : headers) {
    if (each.name != header) continue;
    const std::size_t at = each.text.find(from);
    if (at == std::string::npos) break;
    each.text.replace(at, from.size(), to);
    return headers;
  }
  ADD_FAILURE() << "no fault is planted: " << header << " does not hold\n" << from;
  return headers;
}

}  // namespace gqa::simt
