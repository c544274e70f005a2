// workspace_race.cc: see workspace_race.h.
#include "tests/simt/emulator/races/workspace_race.h"

#include <algorithm>

#include "tests/simt/emulator/place.h"

namespace gqa::simt {
namespace {

std::string bytes_from(std::size_t offset) {
  return "bytes " + std::to_string(offset) + " and on of the workspace are ";
}

std::string to_text(const WorkspaceRaces::Access& access) {
  return "thread " + std::to_string(access.thread) + " of block " + std::to_string(access.cluster) + " (at or after " +
         to_text(access.place) + ")";
}

}  // namespace

bool WorkspaceRaces::ordered(const Cell& cell, const Access& now, const Clocks& clocks) {
  const bool mine = cell.by.cluster == now.cluster;
  if (mine && cell.by.thread == now.thread) return true;
  const Clock* known = mine ? &clocks.of(now.thread) : clocks.of_cluster(now.thread, cell.by.cluster);
  const auto by = static_cast<std::size_t>(cell.by.thread);
  return known != nullptr && by < known->size() && cell.step <= (*known)[by];
}

std::string WorkspaceRaces::check(bool write, std::size_t offset, std::size_t bytes, const Access& now,
                                  const Clocks& clocks) {
  const std::size_t end = std::min((offset + bytes + 3) / 4, cells_.size());
  for (std::size_t at = offset / 4; at < end; ++at) {
    Cell& cell = cells_[at];
    if (cell.by.thread < 0 && !write) return bytes_from(4 * at) + "read, and nobody has written them";
    if (cell.by.thread >= 0 && !ordered(cell, now, clocks))
      return "race: " + bytes_from(4 * at) + (write ? "written" : "read") + ", and written by " + to_text(cell.by) +
             " without an atomic between that releases, and one that acquires";
    if (write) cell = {now, clocks.step(now.thread)};
  }
  return {};
}

}  // namespace gqa::simt
