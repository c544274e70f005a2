// race.h: accesses to shared memory that no barrier orders.
// Owns: for every two bytes of it the last write and the reads since, each with its thread and its step.
// Never: sees registers, global memory, TMA or the tensor cores (hopper.h); knows what orders threads.
// Threads: one launch at a time.
//
// Two accesses of different threads, one of them a write, are ordered where the second thread knew of the first one's
// step (clocks.h): through barriers of any kind, or, within a warp, a __syncwarp. Shuffles and ldmatrix meet but order
// nothing. An asynchronous copy writes from its issue until its thread has waited for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simt/emulator/machine.h"
#include "tests/simt/emulator/races/clocks.h"

namespace gqa::simt {

// A thread of the block in a step.
struct Moment {
  int thread = -1;
  std::uint32_t step = 0;
  bool of_warp = false;  // by an instruction of the whole warp, which is over before any of its lanes goes on
  Place place{"", 0};
};

// What is done to shared memory. kReadOfWarp: by an instruction of the whole warp.
enum class Access { kRead, kReadOfWarp, kWrite, kIssueCopy, kLandCopy };

class RaceDetector {
 public:
  explicit RaceDetector(std::size_t bytes) : cells_((bytes + 1) / 2) {}

  void begin_block() { cells_.assign(cells_.size(), {}); }
  // Empty, or the race that the access makes. `known`: steps that its thread knows to be over, by thread of the block.
  std::string check(Access access, std::size_t offset, std::size_t bytes, const Moment& now,
                    const std::uint32_t* known);

 private:
  std::string read(std::size_t offset, std::size_t bytes, const Moment& now, const std::uint32_t* known);
  std::string write(std::size_t offset, std::size_t bytes, const Moment& now, const std::uint32_t* known);
  void begin_copy(std::size_t offset, std::size_t bytes);
  void land_copy(std::size_t offset, std::size_t bytes, const Moment& now);

  struct Cell {
    Moment written;
    Moment reads[3];  // the last, the last of another thread of its warp, the last of another warp
    bool in_flight = false;
  };
  template <typename Visit>
  std::string each(std::size_t offset, std::size_t bytes, Visit visit);

  std::vector<Cell> cells_;
};

}  // namespace gqa::simt
