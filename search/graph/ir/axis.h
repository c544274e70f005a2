// axis.h: one dimension of a value, and which part of it a block sees in a step of its loop.
// Owns: Axis, Axes, Extent. A kernel-level value sees all of each dimension; a block-level one may see a share of the
// grid's and a tile of the loop's. The last share and tile of a dimension may be short, or empty.
// Never: knows an operator.
// Threads: values and pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "search/graph/ir/tensor.h"

namespace gqa {

struct Extent {
  std::int64_t begin = 0, size = 0;
};

struct Axis {
  std::int64_t full = 1;   // size of the dimension
  std::int64_t share = 1;  // elements a block owns; full where no grid dimension cuts it
  std::int64_t tile = 1;   // elements a step sees; share where the loop does not cut it
  int grid = -1;           // the grid dimension that cuts it; -1: none
  bool loop = false;       // the loop cuts it

  bool whole() const { return grid < 0 && !loop; }
  // What the block at `position` of the grid sees in step `step`.
  Extent at(const std::vector<std::int64_t>& position, std::int64_t step) const {
    std::int64_t begin = grid < 0 ? 0 : std::min(full, position[static_cast<std::size_t>(grid)] * share);
    std::int64_t end = std::min(full, begin + share);
    if (loop) {
      begin = std::min(end, begin + step * tile);
      end = std::min(end, begin + tile);
    }
    return {begin, end - begin};
  }
  friend bool operator==(const Axis&, const Axis&) = default;
};

using Axes = std::vector<Axis>;

inline Axis whole_axis(std::int64_t size) { return {size, size, size, -1, false}; }

inline Axes whole_axes(const Dims& dims) {
  Axes axes;
  for (const std::int64_t size : dims) axes.push_back(whole_axis(size));
  return axes;
}

// Sizes of the largest tile.
inline Dims tile_dims(const Axes& axes) {
  Dims dims;
  for (const Axis& axis : axes) dims.push_back(axis.tile);
  return dims;
}

}  // namespace gqa
