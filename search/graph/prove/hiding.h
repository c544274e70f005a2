// hiding.h: inputs that hide keys: a mask of -inf added to scores, a mask of 0 and 1 multiplied into them.
// Owns: Hiding, which of a graph's inputs are such, and find_hidings(); HiddenKeys, what is hidden of a row.
// Never: runs a graph. equivalence.cc proves with keys hidden so, runtime/workload/program_reference.cc verifies with
// them. Threads: pure functions.
#pragma once

#include <vector>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

enum class HidesBy : std::uint8_t { kLowest, kHighest, kZero };  // -inf added, +inf subtracted, 0 multiplied

struct Hiding {
  std::size_t input = 0;  // of graph.inputs()
  HidesBy by = HidesBy::kLowest;
  std::int64_t key_dim = -1;  // of the input; -1: it has one value for all keys of a row
};

// Inputs of which nothing is read but as a part of what an exponential or softmax is taken of, or as a factor of it or
// of its result: what is hidden there gives no NaN but where a whole row is.
std::vector<Hiding> find_hidings(const KernelGraph& graph);

// Together they hide the first tile, the last and some between, whatever the tiles are, and the whole row; the first
// three do, for inputs of few rows.
enum class HiddenKeys : std::uint8_t {
  kAllButLast,
  kScattered,
  kAll,
  kAllButFirst,
  kFirstHalf,
  kLastHalf,
  kMiddle,
  kAlternate
};
inline constexpr std::size_t kHiddenPatterns = 8;

bool hides(HiddenKeys which, std::int64_t key, std::int64_t keys);

// The rows of an input that hides keys: what hides of each its own.
inline std::int64_t hidden_rows(const Dims& dims, std::int64_t key_dim) {
  return elements(dims) / (key_dim < 0 ? 1 : dims[static_cast<std::size_t>(key_dim)]);
}

// Calls hide(row-major index) for each element that is hidden: row after row the next pattern, from the `first` on;
// every other row where it has no keys.
template <typename Hide>
void for_hidden(const Dims& dims, std::int64_t key_dim, std::size_t first, Hide hide) {
  const std::int64_t keys = elements(dims) / hidden_rows(dims, key_dim);
  const std::int64_t inner = key_dim < 0 ? 1 : row_major_strides(dims)[static_cast<std::size_t>(key_dim)];
  for (std::int64_t at = 0; at < elements(dims); ++at) {
    const std::int64_t row = at / (inner * keys) * inner + at % inner;
    const auto which = static_cast<HiddenKeys>((first + static_cast<std::size_t>(row)) % kHiddenPatterns);
    if (key_dim < 0 ? row % 2 == 0 : hides(which, at / inner % keys, keys)) hide(at);
  }
}

}  // namespace gqa
