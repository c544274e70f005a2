// numbers.h: numbers as people write them.
// Owns: k and M behind a whole number, in shapes and in options.
// Never: judges a number; who reads it does.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class Option;
}

namespace gqa::tools {

// "hq=32,sq=4k" -> "hq=32,sq=4096". A k (or K) behind a whole number that stands alone is 1024 times it, an M
// 1024 * 1024 times. What would not fit 64 bits, and any other text, stays as it is.
std::string plain_numbers(std::string_view text);

// The same for an option whose value is one number.
void take_short_numbers(CLI::Option* option);

}  // namespace gqa::tools
