// text.cc: see text.h.
#include "search/text.h"

#include <charconv>
#include <cstdio>

namespace gqa {

std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    char escaped[5];
    std::snprintf(escaped, sizeof(escaped), "\\x%02x", byte);
    if (byte < 0x20 || byte >= 0x7f) {
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + (text.size() > kLongest ? "...'" : "'");
}

std::string grouped(std::int64_t value) {
  std::string out = std::to_string(value);
  const int first = value < 0 ? 1 : 0;
  for (int at = static_cast<int>(out.size()) - 3; at > first; at -= 3) out.insert(static_cast<std::size_t>(at), ",");
  return out;
}

Status parse_number(std::string_view key, std::string_view text, std::int64_t least, std::int64_t most,
                    std::int64_t* value) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool whole = !text.empty() && stop == end && error != std::errc::invalid_argument;
  if (whole && error == std::errc() && number >= least && number <= most) {
    *value = number;
    return {};
  }
  return text_error(std::string(key) + "=" + (text.empty() ? "(nothing)" : quote(text)) +
                    ": expected a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

Status text_error(std::string message) { return Status(Code::kOption, std::move(message)); }

}  // namespace gqa
