// candidate.cc: see candidate.h.
#include "search/families/candidate.h"

#include <xxhash.h>

#include <optional>

#include "search/families/family.h"
#include "search/families/text_fields.h"
#include "search/text.h"

namespace gqa {
namespace {

template <typename Variant>
struct Families;
template <KernelFamily... F>
struct Families<std::variant<F...>> {
  static std::vector<std::string_view> names() { return {F::kText.name...}; }

  // A first candidate of the family so named.
  static std::optional<Candidate> named(std::string_view name) {
    std::optional<Candidate> found;
    ((name == F::kText.name ? void(found = Candidate{F{}}) : void()), ...);
    return found;
  }
};
using AllFamilies = Families<decltype(Candidate::of)>;

std::string text_of(const Candidate& candidate, bool compiled_only) {
  return std::visit([&](const auto& c) { return write_fields(c.kText, numbers_of(c), compiled_only); }, candidate.of);
}

Status unknown_family(std::string_view word) {
  const std::vector<std::string_view> names = family_names();
  std::string expected;
  for (std::size_t at = 0; at < names.size(); ++at)
    expected += (at == 0 ? "'" : at + 1 == names.size() ? " or '" : ", '") + std::string(names[at]) + "'";
  return text_error("unknown family " + quote(word) + ": expected " + expected + " first");
}

template <typename F>
Status read_words(std::span<const std::string_view> words, F* candidate) {
  typename F::Numbers numbers;
  if (Status status = read_fields(F::kText, words, numbers); !status.ok()) return status;
  const std::string reason = read(numbers, candidate);
  return reason.empty() ? Status() : text_error(reason);
}

}  // namespace

std::uint64_t hash(const Candidate& candidate) {
  const std::string text = to_text(candidate);
  return XXH3_64bits(text.data(), text.size());
}

std::string_view name(const Candidate& candidate) {
  return std::visit([](const auto& c) { return c.kText.name; }, candidate.of);
}

std::vector<std::string_view> family_names() { return AllFamilies::names(); }

std::string to_text(const Candidate& candidate) { return text_of(candidate, false); }

std::string kernel_text(const Candidate& candidate) { return text_of(candidate, true); }

Status parse(std::string_view text, Candidate* candidate) {
  const std::vector<std::string_view> words = split_text(trim(text), ' ');
  std::optional<Candidate> made = AllFamilies::named(words[0]);
  if (!made) return unknown_family(words[0]);
  const std::span<const std::string_view> fields = std::span(words).subspan(1);
  Status status = std::visit([&](auto& c) { return read_words(fields, &c); }, made->of);
  if (status.ok()) *candidate = *made;
  return status;
}

}  // namespace gqa
