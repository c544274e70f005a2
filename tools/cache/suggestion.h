// suggestion.h: what somebody who mistyped a word probably meant.
// Owns: the distance of two words, and how small it must be.
// Never: knows what the words are for.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gqa::tools {

// Letters that must be put in, left out, replaced, or swapped with the next one.
int edits(std::string_view a, std::string_view b);

// "; did you mean 'list'?" of the word of `known` that is nearest, "" where none is near: a third of the given one's
// letters may be wrong, and one of a short one's. Where several are as near: the first.
std::string did_you_mean(std::string_view given, const std::vector<std::string>& known);

}  // namespace gqa::tools
