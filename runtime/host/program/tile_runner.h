// tile_runner.h: one block of a tile program on one thread.
// Owns: TileWorker, a thread's memory; run_block(): the phases and steps in order, regions of tensors read and written.
// Never: allocates once the worker has grown to the program.
// Threads: a worker belongs to one thread; programs and tensors are shared.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "runtime/host/program/tile_program.h"

namespace gqa {

// Sizes of a tile as it is in this step: the last one of a dimension may be short.
struct TileShape {
  std::size_t rank = 0;
  std::array<std::int64_t, kMostDims> sizes = {};

  std::int64_t elements() const;
};

class TileWorker {
 public:
  // This thread's; grown to the program. Null where memory ran out: no exception may leave a thread of the pool.
  static TileWorker* ready(const TileProgram& program);

  float* arena() const { return arena_; }
  std::vector<TileShape>& shapes() { return shapes_; }
  std::vector<std::int64_t>& position() { return position_; }

 private:
  void grow(const TileProgram& program);

  std::vector<float> floats_;
  float* arena_ = nullptr;  // in floats_, on a cache line's start
  std::vector<TileShape> shapes_;
  std::vector<std::int64_t> position_;
};

struct TileTensors {
  const std::byte* const* operands = nullptr;
  std::byte* const* results = nullptr;
};

// The block of that number, the last grid dimension fastest.
void run_block(const TileProgram& program, const HostOps& ops, const TileTensors& tensors, std::int64_t block,
               TileWorker* worker);

}  // namespace gqa
