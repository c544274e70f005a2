// arithmetic.cc: see arithmetic.h.
#include "search/families/arithmetic.h"

#include <map>

#include "search/families/family.h"
#include "search/families/resources.h"

namespace gqa {

std::string arithmetic(const Candidate& candidate) {
  return std::visit([](const auto& c) { return std::string(c.kText.name) + arithmetic_words(c); }, candidate.of);
}

std::vector<ArithmeticExample> arithmetic_examples(const Space& space) {
  using Ends = std::pair<const Candidate*, const Candidate*>;
  std::map<std::string, Ends> found;
  for (const Ranked& ranked : space.ranked) {
    const Candidate& c = ranked.candidate;
    auto& [least, most] = found.try_emplace(arithmetic(c), &c, &c).first->second;
    const int keys = shape_of(c).keys, fewest = shape_of(*least).keys, largest = shape_of(*most).keys;
    if (keys < fewest || (keys == fewest && c < *least)) least = &c;
    if (keys > largest || (keys == largest && c < *most)) most = &c;
  }
  std::vector<ArithmeticExample> examples;
  for (const auto& [name, ends] : found) {
    examples.push_back({name, *ends.first});
    if (*ends.second != *ends.first) examples.push_back({name, *ends.second});
  }
  return examples;
}

}  // namespace gqa
