// first_use.cc: see first_use.h.
#include "runtime/session/first_use.h"

namespace gqa {

Status KernelFinder::find_or_make(const Source& kernel, const char* what, Made* made) const {
  if (!cached_only) {
    *made = compile_pool.find_or_make(kernel);
    return made->status;
  }
  *made = compile_pool.find(kernel);
  if (made->status.code() != Code::kNotCached) return made->status;
  return {Code::kNotCached, "the cache holds no kernel that " + std::string(what) + " for " + device.spec().arch +
                                " and tuning is off: allow tuning once, or import a cache that holds it"};
}

}  // namespace gqa
