// blob.h: the bytes of one column: compressed, and checked against the checksum of what they were.
// Owns: the zstd frame and its XXH3-128. The checksum is of the raw content, so it also holds against a bad decoder.
// Never: knows a row or a file. Never trusts a size that the bytes themselves claim.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gqa::cache {

struct Blob {
  std::string packed;  // zstd frame; "" for ""
  std::string sum;     // hash128 of the raw bytes
  std::int64_t raw_bytes = 0;
};

Blob pack(std::string_view raw);

// The raw bytes, or false if the frame does not decode, is larger than `raw_limit`, or does not match `sum`.
bool unpack(std::string_view packed, std::string_view sum, std::int64_t raw_limit, std::string* raw);

}  // namespace gqa::cache
