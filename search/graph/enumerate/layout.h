// layout.h: the grid and the maps that follow from the cuts of a section's dimensions.
// Owns: which grid dimension or loop each dimension goes to, the tile map of a tensor of some dimensions.
// Never: chooses cuts; writes nodes (lower.h does).
// Threads: a value that refers to its cuts; read by any number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "search/graph/enumerate/lower.h"
#include "search/rounding.h"

namespace gqa {

// Where each dimension goes: a grid dimension, the loop, both, or neither.
struct Layout {
  Layout(const Section& section, const LoopPlacement& placement, const Cuts& cuts) : loop(placement.loop), cuts_(cuts) {
    grid_dim.assign(section.dimensions.size(), -1);
    for (const DimensionRole role : {DimensionRole::kRow, DimensionRole::kColumn, DimensionRole::kBatch}) {
      for (std::size_t at = 0; at < cuts.tiles.size(); ++at) {
        if (cuts.tiles[at] == 0 || section.dimensions[at].role != role) continue;
        grid_dim[at] = static_cast<int>(grid.size());
        grid.push_back(ceil_div(section.dimensions[at].size, cuts.tiles[at]));
      }
    }
    if (loop == kNoDimension) return;
    const std::int64_t size = section.dimensions[static_cast<std::size_t>(loop)].size;
    share = std::min(size, ceil_div(ceil_div(size, cuts.loop_tile), cuts.splits) * cuts.loop_tile);
    splits = ceil_div(size, share);
    steps = ceil_div(share, std::min(share, cuts.loop_tile));
  }

  std::vector<std::int64_t> split_grid() const {
    std::vector<std::int64_t> with = grid;
    if (splits > 1) with.push_back(splits);
    return with;
  }

  // How a tensor of these dimensions is cut; `before` dimensions stand ahead of them.
  TileMap map(const DimensionIds& ids, bool loops, std::int64_t before = 0) const {
    TileMap map;
    map.grid.resize(grid.size() + (splits > 1 && loops ? 1 : 0));
    for (std::size_t at = 0; at < ids.size(); ++at) {
      if (ids[at] == kNoDimension) continue;
      const auto dim = static_cast<std::int64_t>(at) + before;
      const int to = grid_dim[static_cast<std::size_t>(ids[at])];
      if (to >= 0) map.grid[static_cast<std::size_t>(to)] = {dim, cuts_.tiles[static_cast<std::size_t>(ids[at])]};
      if (ids[at] != loop || !loops) continue;
      map.loop = {dim, std::min(share, cuts_.loop_tile)};
      if (splits > 1) map.grid.back() = {dim, share};
    }
    return map;
  }

  // The map of a partial result: the splits come first.
  TileMap partial_map(const DimensionIds& ids) const {
    TileMap partial = map(ids, false, 1);
    partial.grid.push_back({0, 1});
    return partial;
  }

  int loop;
  std::vector<int> grid_dim;
  std::vector<std::int64_t> grid;
  std::int64_t share = 0, splits = 1, steps = 1;

 private:
  const Cuts& cuts_;
};

}  // namespace gqa
