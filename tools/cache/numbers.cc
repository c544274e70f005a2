// numbers.cc: see numbers.h.
#include "tools/cache/numbers.h"

#include <CLI/Option.hpp>
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>

#include "search/text.h"

namespace gqa::tools {
namespace {

constexpr std::int64_t kKilo = 1024, kMega = kKilo * kKilo;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// "4k" -> "4096"
std::string plain_number(std::string_view word) {
  const char last = word.empty() ? ' ' : word.back();
  const std::int64_t unit = last == 'k' || last == 'K' ? kKilo : last == 'M' ? kMega : 0;
  std::int64_t count = 0;
  const bool whole = unit != 0 && parse_number("", word.substr(0, word.size() - 1), 0,
                                               std::numeric_limits<std::int64_t>::max() / unit, &count)
                                      .ok();
  return whole ? std::to_string(count * unit) : std::string(word);
}

// A point alone before digits makes them a fraction; two are a range's.
bool is_fraction(std::string_view text, std::size_t at) {
  return at > 0 && text[at - 1] == '.' && !(at > 1 && text[at - 2] == '.');
}

}  // namespace

std::string plain_numbers(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    while (at < text.size() && is_word(text[at])) ++at;
    const std::string_view word = text.substr(begin, at - begin);
    const bool number = !word.empty() && is_digit(word.front()) && !is_fraction(text, begin);
    plain += number ? plain_number(word) : std::string(word);
    if (at < text.size()) plain += text[at++];
  }
  return plain;
}

void take_short_numbers(CLI::Option* option) {
  option->transform([](const std::string& given) { return plain_number(given); });
}

}  // namespace gqa::tools
