// program_inputs.h: the numbers that a user's graph is verified on.
// Owns: InputNumbers, what stands in one input of a trial: generated from a seed and where it lies in memory, so that
// indices that share an element share its number; of any magnitude; with keys hidden; at sampled places or laid out.
// Never: evaluates, or decides what is tried (program_reference.h). Threads: values; filling uses several.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/verify/tensor_bytes.h"
#include "search/graph/prove/hiding.h"
#include "search/graph/prove/operators.h"

namespace gqa {

// Dimensions of stride 0 count as one index: each element of memory once, unless others overlap too.
Dims stored_dims(const TensorSpec& spec);

// Whether some element of memory stands at several of those indices.
bool overlaps(const TensorSpec& spec);

struct HiddenInput {
  HiddenElements elements;  // of the stored dimensions
  float value;
};

class InputNumbers {
 public:
  // Near normal about `centre` with a deviation of `magnitude`, rounded to the tensor's type; about 0, exact in it from
  // 2^-12 to 2^12.
  InputNumbers(const TensorSpec& spec, std::uint64_t seed, double magnitude, double centre = 0);

  const TensorSpec& spec() const { return spec_; }

  // Only of inputs that do not overlap.
  void hide(const HiddenInput& hidden) { hidden_.emplace(hidden); }

  // Those at the indices taken of each dimension, row-major.
  template <typename Real>
  std::vector<Real> at(const std::vector<Indices>& indices, const Workers& workers) const;

  // Written where the strides say; gaps stay as they are.
  void fill(const Workers& workers, std::byte* to) const;

 private:
  class Draws;
  static constexpr std::size_t kDraws = 4096;
  static const std::array<float, kDraws>& draws();

  const TensorSpec& spec_;
  const std::uint64_t seed_;
  std::array<float, kDraws> numbers_;
  std::optional<HiddenInput> hidden_;
};

}  // namespace gqa
