// sampled_places.h: where the sampled elements of a tensor stand.
// Owns: SampledPlaces: a walk over the indices taken of each dimension, by any strides.
// Never: holds values.
// Threads: a value; read by any number.
#pragma once

#include <cstdint>
#include <vector>

#include "search/graph/prove/operators.h"

namespace gqa {

class SampledPlaces {
 public:
  // at: the indices of each dimension; empty: all of them.
  SampledPlaces(const Dims& whole, const Dims& strides, const std::vector<Indices>& at) {
    for (std::size_t dim = 0; dim < whole.size(); ++dim) {
      const bool all = at.empty() || at[dim].empty();
      const std::int64_t count = all ? whole[dim] : static_cast<std::int64_t>(at[dim].size());
      Indices& offsets = offsets_.emplace_back();
      for (std::int64_t i = 0; i < count; ++i)
        offsets.push_back((all ? i : at[dim][static_cast<std::size_t>(i)]) * strides[dim]);
      dims_.push_back(count);
    }
  }

  const Dims& dims() const { return dims_; }  // how many of each dimension

  // Calls visit(offset) for each element of a row, row-major over the sample.
  template <typename Visit>
  void visit_row(std::int64_t row, const Visit& visit) const {
    std::int64_t origin = 0;
    for (std::size_t dim = dims_.size() - 1; dim-- > 0; row /= dims_[dim])
      origin += offsets_[dim][static_cast<std::size_t>(row % dims_[dim])];
    for (const std::int64_t offset : offsets_.back()) visit(origin + offset);
  }

  std::int64_t rows() const { return elements(outer_dims(dims_)); }

 private:
  std::vector<Indices> offsets_;
  Dims dims_;
};

}  // namespace gqa
