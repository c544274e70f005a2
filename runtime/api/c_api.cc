// c_api.cc: see c_api.h.
#include "runtime/api/c_api.h"

#include <exception>
#include <new>
#include <string>

namespace gqa {

thread_local constinit const char* last_error = "";

namespace {

// Kept apart so that a success does not touch a thread_local that has a constructor.
std::string& last_message() {
  thread_local std::string message;
  return message;
}

}  // namespace

gqa_status failed(const Status& status) noexcept {
  try {
    last_message() = status.message();
    last_error = last_message().c_str();
  } catch (...) {
    last_error = "host memory ran out, and none was left to say where";
  }
  return static_cast<gqa_status>(status.code());
}

gqa_status failed(Code code, const char* literal) noexcept {
  last_error = literal;
  return static_cast<gqa_status>(code);
}

gqa_status failed_by_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return failed(Code::kOutOfMemory, "host memory ran out");
  } catch (const std::exception& error) {
    try {
      return failed({Code::kInternal, std::string("an exception reached the C interface: ") + error.what()});
    } catch (...) {
      return failed(Code::kOutOfMemory, "host memory ran out");
    }
  } catch (...) {
    return failed(Code::kInternal, "an unknown exception reached the C interface");
  }
}

}  // namespace gqa
