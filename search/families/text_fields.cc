// text_fields.cc: see text_fields.h.
#include "search/families/text_fields.h"

#include <algorithm>
#include <vector>

#include "search/text.h"

namespace gqa {
namespace {

constexpr std::int64_t kMostOfAField = 1 << 20;

std::string field_keys(const FamilyText& family) {
  std::string keys;
  for (const TextField& field : family.fields) keys += (keys.empty() ? "" : ", ") + std::string(field.key);
  return keys;
}

Status read_field(const FamilyText& family, std::string_view item, std::span<std::int32_t> numbers, unsigned* seen) {
  const auto equals = item.find('=');
  const std::string_view key = item.substr(0, equals);
  for (unsigned at = 0; at < family.fields.size(); ++at) {
    if (family.fields[at].key != key) continue;
    if (equals == std::string_view::npos)
      return text_error(quote(key) + " has no value: expected " + std::string(key) + "=NUMBER");
    if (*seen & 1u << at) return text_error("key " + quote(key) + " is given twice: expected once");
    *seen |= 1u << at;
    std::int64_t number = 0;
    Status status = parse_number(key, item.substr(equals + 1), 0, kMostOfAField, &number);
    numbers[at] = static_cast<std::int32_t>(number);
    return status;
  }
  return text_error("unknown key " + quote(key) + ": expected " + field_keys(family));
}

Status missing_field(const FamilyText& family, unsigned seen) {
  std::vector<std::int32_t> initial;
  for (const TextField& field : family.fields) initial.push_back(field.initial);
  for (unsigned at = 0; at < family.fields.size(); ++at) {
    if (family.fields[at].use == FieldUse::kCode && !(seen & 1u << at))
      return text_error("key " + quote(family.fields[at].key) +
                        " is missing: expected all that shape the code, as in " +
                        quote(write_fields(family, initial, true)));
  }
  return {};
}

}  // namespace

std::string write_fields(const FamilyText& family, std::span<const std::int32_t> numbers, bool compiled_only) {
  std::string text(family.name);
  for (std::size_t at = 0; at < family.fields.size(); ++at) {
    const TextField& field = family.fields[at];
    if (compiled_only && field.use == FieldUse::kLaunch) continue;
    if (field.use == FieldUse::kMechanism && numbers[at] == field.initial) continue;
    text += " " + std::string(field.key) + "=" + std::to_string(numbers[at]);
  }
  return text;
}

Status read_fields(const FamilyText& family, std::span<const std::string_view> words, std::span<std::int32_t> numbers) {
  unsigned seen = 0;
  std::transform(family.fields.begin(), family.fields.end(), numbers.begin(),
                 [](const TextField& field) { return field.initial; });
  for (const std::string_view word : words) {
    if (Status status = read_field(family, word, numbers, &seen); !status.ok()) return status;
  }
  return missing_field(family, seen);
}

}  // namespace gqa
