// text.h: the few steps every text form of search/ is read with.
// Owns: splitting, trimming, quoting and whole-number parsing with messages that name key, value and range.
// Never: knows what the text means.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/status.h"

namespace gqa {

std::vector<std::string_view> split_text(std::string_view text, char separator);  // keeps empty parts
std::string_view trim(std::string_view text);                                     // spaces and tabs off both ends

// 'text' in single quotes, control bytes as \xNN, shortened past 64 bytes: safe to put into a message.
std::string quote(std::string_view text);

// 1234567 -> "1,234,567": what messages for people show.
std::string grouped(std::int64_t value);

// A whole decimal number between least and most, nothing before or after it.
Status parse_number(std::string_view key, std::string_view text, std::int64_t least, std::int64_t most,
                    std::int64_t* value);

Status text_error(std::string message);  // kOption

}  // namespace gqa
