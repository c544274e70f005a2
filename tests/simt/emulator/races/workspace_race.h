// workspace_race.h: accesses of a launch's thread blocks to memory that they share: what nothing orders, and what is
// read before it is written. Owns: of every four bytes of the workspace the last write, with its thread and its step.
// Never: sees what is not read or written as plain memory (atomics order others, clocks.h); judges reads before writes:
// a launch writes each place once.
// Threads: one launch at a time; its clusters one after the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simt/emulator/machine.h"
#include "tests/simt/emulator/races/clocks.h"

namespace gqa::simt {

class WorkspaceRaces {
 public:
  struct Access {
    unsigned cluster;
    int thread;  // of the cluster
    Place place;
  };

  explicit WorkspaceRaces(std::size_t bytes) : cells_((bytes + 3) / 4) {}

  // Empty, or what is wrong with the access.
  std::string check(bool write, std::size_t offset, std::size_t bytes, const Access& now, const Clocks& clocks);

 private:
  struct Cell {
    Access by{0, -1, {"", 0}};
    std::uint32_t step = 0;
  };
  static bool ordered(const Cell& cell, const Access& now, const Clocks& clocks);

  std::vector<Cell> cells_;
};

}  // namespace gqa::simt
