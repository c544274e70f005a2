// without_exceptions.h: where exceptions of a long step end as a Status.
// Owns: without_exceptions().
// Never: hides what was thrown.
// Threads: any.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "search/status.h"

namespace gqa {

// What a device or the library throws while `doing` something becomes the step's status.
template <typename Step>
Status without_exceptions(const char* doing, const Step& step) {
  try {
    return step();
  } catch (const std::bad_alloc&) {
    return {Code::kOutOfMemory, std::string("host memory ran out while ") + doing};
  } catch (const std::exception& error) {
    return {Code::kInternal, std::string(doing) + " threw: " + error.what()};
  }
}

}  // namespace gqa
