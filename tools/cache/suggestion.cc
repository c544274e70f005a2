// suggestion.cc: see suggestion.h.
#include "tools/cache/suggestion.h"

#include <algorithm>
#include <cstddef>

namespace gqa::tools {
namespace {

constexpr std::size_t kLongest = 64;  // of a word that is worth comparing

int most_edits(std::string_view given) { return std::max(1, static_cast<int>(given.size()) / 3); }

}  // namespace

// Optimal string alignment: row i holds what it takes to turn the first i letters of a into those of b.
int edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> took(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        took[i][j] = static_cast<int>(i + j);
        continue;
      }
      const int replaced = took[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      took[i][j] = std::min({replaced, took[i - 1][j] + 1, took[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        took[i][j] = std::min(took[i][j], took[i - 2][j - 2] + 1);
    }
  }
  return took[a.size()][b.size()];
}

std::string did_you_mean(std::string_view given, const std::vector<std::string>& known) {
  if (given.size() > kLongest) return "";
  const std::string* nearest = nullptr;
  int least = most_edits(given) + 1;
  for (const std::string& word : known) {
    const int distance = edits(given, word);
    if (distance >= least) continue;
    least = distance;
    nearest = &word;
  }
  return nearest == nullptr ? "" : "; did you mean '" + *nearest + "'?";
}

}  // namespace gqa::tools
