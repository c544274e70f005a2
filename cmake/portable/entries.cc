// entries.cc: gqa-cache as a function of libgqa.so, so that a wheel has the runtime once; tools/demo.cc has the other.
// Owns: the function's name, which no header promises: the program of the same wheel calls it (command.c).
// Never: lets an exception out.
#include "tools/cache/command.h"

extern "C" __attribute__((visibility("default"))) int gqa_cache_main(int count, char** arguments) noexcept {
  return gqa::tools::run(count, arguments);
}
