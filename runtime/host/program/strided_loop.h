// strided_loop.h: N tensors of common sizes and different strides walked in step, in as few and as long rows as they
// allow.
// Owns: StridedLoop: dimensions of size 1 dropped, neighbours that lie without a gap in all N joined.
// Never: allocates.
// Threads: a value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "search/graph/ir/tensor.h"

namespace gqa {

template <std::size_t N>
class StridedLoop {
 public:
  using Offsets = std::array<std::int64_t, N>;

  // The next dimension inward.
  void push(std::int64_t size, const Offsets& strides) {
    empty_ = empty_ || size == 0;
    if (size == 1) return;
    if (rank_ > 0 && joins(size, strides)) {
      sizes_[rank_ - 1] *= size;
      strides_[rank_ - 1] = strides;
    } else {
      sizes_[rank_] = size;
      strides_[rank_++] = strides;
    }
  }

  bool empty() const { return empty_; }
  std::size_t rank() const { return rank_; }
  // The row is the innermost dimension. Without one, it is a row of one element.
  std::int64_t row() const { return rank_ > 0 ? sizes_[rank_ - 1] : 1; }
  Offsets steps() const { return rank_ > 0 ? strides_[rank_ - 1] : Offsets{}; }
  void drop_row() { --rank_; }

  // Makes the dimension that tensor `which` steps through one by one the row, where there is one.
  void make_row_of(std::size_t which) {
    for (std::size_t at = rank_; at-- > 0;) {
      if (strides_[at][which] != 1) continue;
      std::swap(sizes_[at], sizes_[rank_ - 1]);
      std::swap(strides_[at], strides_[rank_ - 1]);
      return;
    }
  }

  // Calls visit(offsets of the row's first elements) for each row.
  template <typename Visit>
  void for_rows(Visit visit) const {
    if (empty_) return;
    std::array<std::int64_t, kMost> index = {};
    Offsets offsets = {};
    for (;;) {
      visit(offsets);
      std::size_t at = rank_ > 0 ? rank_ - 1 : 0;
      for (;; --at) {
        if (at == 0) return;
        const std::size_t dim = at - 1;
        for (std::size_t k = 0; k < N; ++k) offsets[k] += strides_[dim][k];
        if (++index[dim] < sizes_[dim]) break;
        for (std::size_t k = 0; k < N; ++k) offsets[k] -= strides_[dim][k] * sizes_[dim];
        index[dim] = 0;
      }
    }
  }

 private:
  static constexpr std::size_t kMost = kMostDims + 1;

  bool joins(std::int64_t size, const Offsets& strides) const {
    for (std::size_t k = 0; k < N; ++k) {
      if (strides_[rank_ - 1][k] != size * strides[k]) return false;
    }
    return true;
  }

  std::size_t rank_ = 0;
  bool empty_ = false;
  std::array<std::int64_t, kMost> sizes_ = {};
  std::array<Offsets, kMost> strides_ = {};
};

}  // namespace gqa
