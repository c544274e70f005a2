// c_struct.h: structs of the C interface that begin with their size.
// Owns: check_struct(): which sizes are taken, and what is said of others; number(): an enum's number.
// Never: knows a struct.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include "search/status.h"

namespace gqa {

inline constexpr std::size_t kLargestStruct = 4096;  // a larger `size` is not a size but uninitialised memory

// Callers compiled against a later header may hand in a larger struct, if all that this library does not know is zero.
inline bool known_size(const void* data, std::size_t size, std::size_t known) {
  if (size < known || size > kLargestStruct) return false;
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = known; i < size; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

template <typename Struct>
Status check_struct(const Struct& given, const char* name) {
  if (given.size == sizeof(Struct) || known_size(&given, given.size, sizeof(Struct))) return {};
  std::string message = std::string(name) + ".size is " + std::to_string(given.size) + ", expected sizeof(" + name +
                        ") = " + std::to_string(sizeof(Struct));
  message += given.size > sizeof(Struct) && given.size <= kLargestStruct
                 ? ": fields past it are set that this library does not know; use a library as new as the header"
                 : ": zero-initialise the struct and set size";
  return {Code::kStructSize, message};
}

// An enum of a C struct as the number it holds, which may be none of its names.
template <typename Enum>
int number(const Enum& given) {
  static_assert(sizeof(Enum) == sizeof(int));
  int value = 0;
  std::memcpy(&value, &given, sizeof(value));
  return value;
}

}  // namespace gqa
