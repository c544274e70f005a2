// tile.h: one row tile's attention over a range of keys, the unit of the host device's work.
// Owns: Tile, what it is given, and the variants of run_tile for the instruction sets.
// Never: starts threads or allocates: scratch is the caller's.
// Threads: run_tile from any thread, each with scratch of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/call/sequence.h"
#include "runtime/device.h"

namespace gqa {

struct Tile {
  const Call* call = nullptr;
  int tile_m = 0, tile_n = 0, pack = 1;
  int batch = 0, head = 0, kv_head = 0;  // head: the first of the packed ones
  int first_row = 0, rows = 0;           // packed rows: row r is position r / pack, head r % pack; none past its end
  Sequence sequence;                     // its place and size
  int first_key = 0, last_key = 0;       // keys [first, last) of this tile: none that no row of it sees at either end
  // Null: the rows are finished and stored to the call's out and lse. Else (out rows, maxima, sums) are left here:
  // tile_m * (head_dim_v + 2) floats, unnormalised, maxima scaled to exp2.
  float* partial = nullptr;
};

// A tile's rows as partials of `parts` key ranges, merged and stored.
struct TileMerge {
  Tile tile;
  const float* partials = nullptr;
  int parts = 1;
};

// Keys [first, end) that one packed row sees.
struct SeenByRow {
  int first = 0, end = 0;
};
SeenByRow seen_by_row(const Tile& tile, int row);

// Floats of scratch that run_tile needs.
std::size_t tile_scratch(const Problem& problem, const Candidate& candidate);

using RunTile = void (*)(const Tile& tile, float* scratch);
using MergeTile = void (*)(const TileMerge& merge);

// One build of tile_kernel.inc for an instruction set.
struct TileKernels {
  const char* name;  // "avx512"
  RunTile run;
  MergeTile merge;
};

// The best that this processor runs.
const TileKernels& tile_kernels();

namespace baseline {
extern const TileKernels kKernels;
}
namespace avx2 {
extern const TileKernels kKernels;
}
namespace avx512 {
extern const TileKernels kKernels;
}
namespace amx {
extern const TileKernels kKernels;
}

// The builds that this processor (and its kernel) can run and host_limits.h allows, the best last.
std::vector<const TileKernels*> usable_tile_kernels();

}  // namespace gqa
