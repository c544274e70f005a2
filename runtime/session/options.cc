// options.cc: see options.h.
#include "runtime/session/options.h"

#include <cstdlib>
#include <string_view>

namespace gqa {

bool heeds_load() {
  const char* given = std::getenv("GQA_IGNORE_LOAD");
  return given == nullptr || std::string_view(given) != "1";
}

}  // namespace gqa
