// op.cc: see op.h. Everything here follows from GQA_OPS and GQA_OP_ATTRIBUTES.
#include "search/graph/ir/op.h"

#include <charconv>
#include <cmath>

#include "search/text.h"

namespace gqa {
namespace {

namespace table {
using namespace attribute;  // NOLINT(google-build-using-namespace): the last column's names
constexpr OpInfo kOps[] = {
#define GQA_OP(id, text, kind, least, most, linear, commutes, level, attributes) \
  {Op::id, text, OpClass::kind, least, most, Linear::linear, commutes, Level::level, static_cast<unsigned>(attributes)},
    GQA_OPS(GQA_OP)
#undef GQA_OP
};
}  // namespace table
using table::kOps;

struct Key {
  std::string_view text;
  unsigned bit;
};
#define GQA_FIELD(field, kind, key, initial) {key, attribute::field},
constexpr Key kKeys[] = {GQA_OP_ATTRIBUTES(GQA_FIELD)};
#undef GQA_FIELD

std::string key_names(Op op) {
  std::string keys;
  for (const Key& key : kKeys) {
    if (info(op).attributes & key.bit) keys += (keys.empty() ? "" : ", ") + std::string(key.text);
  }
  return keys.empty() ? "none" : keys;
}

std::string value_text(std::int64_t value) { return value == kUnbounded ? "inf" : std::to_string(value); }
std::string value_text(bool value) { return value ? "1" : "0"; }
std::string value_text(double value) { return to_text(value); }
std::string value_text(const Dims& value) { return to_text(value); }
std::string value_text(ElementType value) { return std::string(name(value)); }

Status parse_value(std::string_view text, std::int64_t* value) {
  if (text == "inf") {
    *value = kUnbounded;
    return {};
  }
  return parse_number("value", text, -kMostElements, kMostElements, value);
}

Status parse_value(std::string_view text, bool* value) {
  std::int64_t number = 0;
  Status status = parse_number("value", text, 0, 1, &number);
  *value = number != 0;
  return status;
}

template <typename T>
Status parse_value(std::string_view text, T* value) {
  return parse(text, value);
}

}  // namespace

const OpInfo& info(Op op) { return kOps[static_cast<std::size_t>(op)]; }

const OpInfo* find_op(std::string_view name) {
  for (const OpInfo& known : kOps) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

std::string op_names(Level level) {
  std::string names;
  for (const OpInfo& known : kOps) {
    if (level != Level::kBoth && known.level != Level::kBoth && known.level != level) continue;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return names;
}

std::string to_text(const Attributes& attributes) {
  static const Attributes kDefaults;
  std::string text;
#define GQA_FIELD(field, kind, key, initial) \
  if (attributes.field != kDefaults.field) text += std::string(" " key "=") + value_text(attributes.field);
  GQA_OP_ATTRIBUTES(GQA_FIELD)
#undef GQA_FIELD
  return text;
}

Status parse_attribute(Op op, std::string_view item, Attributes* attributes) {
  const auto equals = item.find('=');
  const std::string_view key = item.substr(0, equals);
  for (const Key& known : kKeys) {
    if (known.text != key || !(info(op).attributes & known.bit)) continue;
    if (equals == std::string_view::npos) break;
    const std::string_view value = item.substr(equals + 1);
    Status status;
    switch (known.bit) {
#define GQA_FIELD(field, kind, text, initial)        \
  case attribute::field:                             \
    status = parse_value(value, &attributes->field); \
    break;
      GQA_OP_ATTRIBUTES(GQA_FIELD)
#undef GQA_FIELD
      default:
        break;
    }
    if (status.ok()) return status;
    return Status(status.code(), std::string(name(op)) + " " + std::string(key) + ": " + status.message());
  }
  return text_error(std::string(name(op)) + " has no attribute " + quote(item) + ": expected " + key_names(op) +
                    ", as key=value");
}

Status check(Op op, const Attributes& attributes) {
  static const Attributes kDefaults;
  const unsigned read = info(op).attributes;
#define GQA_FIELD(field, kind, key, initial)                             \
  if (!(read & attribute::field) && attributes.field != kDefaults.field) \
    return Status(                                                       \
        Code::kOption,                                                   \
        std::string(name(op)) + " does not read attribute " key ": expected it unset; it reads " + key_names(op));
  GQA_OP_ATTRIBUTES(GQA_FIELD)
#undef GQA_FIELD
  for (const double value : {attributes.factor, attributes.epsilon}) {
    if (!std::isfinite(value))
      return Status(Code::kOption, std::string(name(op)) + " with constant " + to_text(value) + ": expected finite");
  }
  if (attributes.epsilon < 0)
    return Status(Code::kOption,
                  std::string(name(op)) + " with eps=" + to_text(attributes.epsilon) + ": expected 0 or more");
  if (!(attributes.low <= attributes.high)) {
    return Status(Code::kOption, std::string(name(op)) + " from " + to_text(attributes.low) + " to " +
                                     to_text(attributes.high) + ": expected lo <= hi");
  }
  if (attributes.count < 1)
    return Status(Code::kOption, "scale with count=" + std::to_string(attributes.count) + ": expected 1 or more");
  return {};
}

std::string to_text(double value) {
  char buffer[64];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
}

Status parse(std::string_view text, double* value) {
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size() || std::isnan(number))
    return text_error("a number " + quote(text) + ": expected decimal digits, inf or -inf");
  *value = number;
  return {};
}

Status parse(std::string_view text, Dims* dims) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']')
    return text_error("sizes " + quote(text) + ": expected whole numbers as in [2,256,64]");
  Dims read;
  const std::string_view inside = text.substr(1, text.size() - 2);
  for (const std::string_view part : inside.empty() ? std::vector<std::string_view>{} : split_text(inside, ',')) {
    Status status = parse_number("size", part, 0, kMostElements, &read.emplace_back());
    if (!status.ok()) return status;
    if (read.size() > kMostDims) return text_error("sizes " + quote(text) + ": expected at most 8");
  }
  *dims = std::move(read);
  return {};
}

}  // namespace gqa
