// candidate.cc: see candidate.h. Everything here follows from GQA_CANDIDATE_FIELDS.
#include "search/families/candidate.h"

#include <xxhash.h>

#include <vector>

#include "search/text.h"

namespace gqa {
namespace {

constexpr std::int64_t kMostOfAField = 1 << 20;

struct Field {
  std::string_view key;
  std::int32_t Candidate::*value;
  std::int32_t initial;
  FieldUse use;
};
#define GQA_FIELD(field, key, initial, use) {key, &Candidate::field, initial, FieldUse::use},
constexpr Field kFields[] = {GQA_CANDIDATE_FIELDS(GQA_FIELD)};
#undef GQA_FIELD

constexpr Family kFamilies[] = {Family::kFlash, Family::kSplit, Family::kWarpgroup};

bool has(Family family, const Field& field) {
  const bool warpgroups = field.use == FieldUse::kWarpgroupCode || field.use == FieldUse::kMechanism;
  return !warpgroups || family == Family::kWarpgroup;
}

bool required(Family family, const Field& field) {
  return has(family, field) && field.use != FieldUse::kLaunch && field.use != FieldUse::kMechanism;
}

std::string field_keys(Family family) {
  std::string keys;
  for (const Field& field : kFields) {
    if (has(family, field)) keys += (keys.empty() ? "" : ", ") + std::string(field.key);
  }
  return keys;
}

std::string text_of(const Candidate& candidate, bool compiled_only) {
  std::string text(name(candidate.family));
  for (const Field& field : kFields) {
    if (!has(candidate.family, field) || (compiled_only && field.use == FieldUse::kLaunch)) continue;
    if (field.use == FieldUse::kMechanism && candidate.*field.value == field.initial) continue;
    text += " " + std::string(field.key) + "=" + std::to_string(candidate.*field.value);
  }
  return text;
}

Status parse_family(std::string_view word, Family* family) {
  for (const Family known : kFamilies) {
    if (word != name(known)) continue;
    *family = known;
    return {};
  }
  return text_error("unknown family " + quote(word) + ": expected 'flash', 'split' or 'warpgroup' first");
}

Status parse_field(std::string_view item, Candidate* candidate, unsigned* seen) {
  const auto equals = item.find('=');
  const std::string_view key = item.substr(0, equals);
  for (unsigned at = 0; at < std::size(kFields); ++at) {
    if (kFields[at].key != key || !has(candidate->family, kFields[at])) continue;
    if (equals == std::string_view::npos)
      return text_error(quote(key) + " has no value: expected " + std::string(key) + "=NUMBER");
    if (*seen & 1u << at) return text_error("key " + quote(key) + " is given twice: expected once");
    *seen |= 1u << at;
    std::int64_t number = 0;
    Status status = parse_number(key, item.substr(equals + 1), 0, kMostOfAField, &number);
    candidate->*kFields[at].value = static_cast<std::int32_t>(number);
    return status;
  }
  return text_error("unknown key " + quote(key) + ": expected " + field_keys(candidate->family));
}

Status missing_field(const Candidate& candidate, unsigned seen) {
  for (unsigned at = 0; at < std::size(kFields); ++at) {
    if (required(candidate.family, kFields[at]) && !(seen & 1u << at)) {
      Candidate example;
      example.family = candidate.family;
      return text_error("key " + quote(kFields[at].key) + " is missing: expected all that shape the code, as in " +
                        quote(kernel_text(example)));
    }
  }
  return {};
}

}  // namespace

std::uint64_t hash(const Candidate& candidate) {
  std::int32_t packed[1 + std::size(kFields)] = {static_cast<std::int32_t>(candidate.family)};
  for (std::size_t at = 0; at < std::size(kFields); ++at) packed[1 + at] = candidate.*kFields[at].value;
  return XXH3_64bits(packed, sizeof(packed));
}

std::string_view name(Family family) {
  switch (family) {
    case Family::kFlash:
      return "flash";
    case Family::kSplit:
      return "split";
    case Family::kWarpgroup:
      return "warpgroup";
  }
  return "unknown";
}

std::string to_text(const Candidate& candidate) { return text_of(candidate, false); }

std::string kernel_text(const Candidate& candidate) { return text_of(candidate, true); }

Status parse(std::string_view text, Candidate* candidate) {
  Candidate read;
  unsigned seen = 0;
  const std::vector<std::string_view> words = split_text(trim(text), ' ');
  if (Status status = parse_family(words[0], &read.family); !status.ok()) return status;
  for (std::size_t at = 1; at < words.size(); ++at) {
    if (Status status = parse_field(words[at], &read, &seen); !status.ok()) return status;
  }
  if (Status status = missing_field(read, seen); !status.ok()) return status;
  *candidate = read;
  return {};
}

}  // namespace gqa
