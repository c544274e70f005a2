// race.h: accesses to shared memory that no barrier orders.
// Owns: for every two bytes of it the last write and the reads since, each with its thread and how many barriers of the
// block and of its warp had passed.
// Never: sees registers, global memory, or an order made by other means than barriers and waits.
// Threads: one launch at a time.
//
// Two accesses of different threads, one of them a write, are ordered where the block passed a barrier between them,
// or, within a warp, a __syncwarp. Shuffles and ldmatrix meet but order nothing. An asynchronous copy writes from its
// issue until its thread has waited for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simt/machine.h"

namespace gqa::simt {

// A thread at a time.
struct Moment {
  int thread = -1;
  std::uint64_t block_barriers = 0, warp_barriers = 1;  // passed, and one
  Place place{"", 0};
};

// What is done to shared memory. kReadOfWarp: by an instruction of the whole warp.
enum class Access { kRead, kReadOfWarp, kWrite, kIssueCopy, kLandCopy };

class RaceDetector {
 public:
  explicit RaceDetector(std::size_t bytes) : cells_((bytes + 1) / 2) {}

  void begin_block() { cells_.assign(cells_.size(), {}); }
  // Empty, or the race that the access makes.
  std::string check(Access access, std::size_t offset, std::size_t bytes, const Moment& now);

 private:
  std::string read(std::size_t offset, std::size_t bytes, const Moment& now, bool of_warp);
  std::string write(std::size_t offset, std::size_t bytes, const Moment& now);
  std::string issue_copy(std::size_t offset, std::size_t bytes, const Moment& now);
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
