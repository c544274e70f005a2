// hiding.h: inputs that hide keys: a mask of -inf added to scores, a mask of 0 and 1 multiplied into them.
// Owns: Hiding, which of a graph's inputs are such, and find_hidings(); HiddenKeys, what is hidden of a row.
// Never: runs a graph. equivalence.cc proves with keys hidden so, runtime/verify/program_reference.cc verifies with
// them.
// Threads: pure functions.
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

// Which elements of such an input are hidden: row after row the next pattern, from the `first` on; every other row
// where it has no keys.
class HiddenElements {
 public:
  HiddenElements(const Dims& dims, std::int64_t key_dim, std::size_t first)
      : has_keys_(key_dim >= 0),
        keys_(elements(dims) / hidden_rows(dims, key_dim)),
        inner_(key_dim < 0 ? 1 : row_major_strides(dims)[static_cast<std::size_t>(key_dim)]),
        first_(first) {}

  bool operator()(std::int64_t index) const {  // row-major
    const std::int64_t row = index / (inner_ * keys_) * inner_ + index % inner_;
    if (!has_keys_) return row % 2 == 0;
    const auto which = static_cast<HiddenKeys>((first_ + static_cast<std::size_t>(row)) % kHiddenPatterns);
    return hides(which, index / inner_ % keys_, keys_);
  }

 private:
  const bool has_keys_;
  const std::int64_t keys_, inner_;
  const std::size_t first_;
};

}  // namespace gqa
