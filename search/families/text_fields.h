// text_fields.h: how a family's candidate is written: its name, then "key=number" for each field, in its order.
// Owns: writing and reading that form, with messages that name key, value and expectation.
// Never: knows what a number means, or which go together; the family refuses those.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "search/status.h"

namespace gqa {

// What a field shapes: kLaunch the launch only, both others the generated code. A mechanism that is not used, at its
// first value, is left out of the text, so that no text changes when a family gains one.
enum class FieldUse : std::uint8_t { kCode, kMechanism, kLaunch };

struct TextField {
  std::string_view key;
  std::int32_t initial;  // what it is where it is left out
  FieldUse use;
};

struct FamilyText {
  std::string_view name;
  std::span<const TextField> fields;
};

// `compiled_only`: without what shapes the launch only.
std::string write_fields(const FamilyText& family, std::span<const std::int32_t> numbers, bool compiled_only);

// Reads what stands after the name. Numbers that are not given get their first values; those that shape the code must
// be given, but for mechanisms.
Status read_fields(const FamilyText& family, std::span<const std::string_view> words, std::span<std::int32_t> numbers);

}  // namespace gqa
