// race.cc: see race.h.
#include "tests/simt/emulator/races/race.h"

#include <algorithm>

#include "tests/simt/emulator/place.h"

namespace gqa::simt {
namespace {

// Is what happened at `before` sure to be over for the thread of `now`?
bool ordered(const Moment& before, const Moment& now, const std::uint32_t* known) {
  if (before.thread < 0 || before.thread == now.thread || before.step <= known[before.thread]) return true;
  return before.of_warp && before.thread / 32 == now.thread / 32;
}

std::string to_text(const Moment& moment) {
  return "thread " + std::to_string(moment.thread) + " (at or after " + to_text(moment.place) + ")";
}

std::string race(std::size_t offset, const char* what, const Moment& other) {
  return "race: bytes " + std::to_string(offset) + " and on of shared memory are " + what + " " + to_text(other) +
         " without a barrier between";
}

}  // namespace

std::string RaceDetector::check(Access access, std::size_t offset, std::size_t bytes, const Moment& now,
                                const std::uint32_t* known) {
  std::string text;
  if (access == Access::kRead || access == Access::kReadOfWarp) text = read(offset, bytes, now, known);
  if (access == Access::kWrite || access == Access::kIssueCopy) text = write(offset, bytes, now, known);
  if (access == Access::kIssueCopy) begin_copy(offset, bytes);
  if (access == Access::kLandCopy) land_copy(offset, bytes, now);
  return text;
}

template <typename Visit>
std::string RaceDetector::each(std::size_t offset, std::size_t bytes, Visit visit) {
  const std::size_t end = std::min((offset + bytes + 1) / 2, cells_.size());
  for (std::size_t at = offset / 2; at < end; ++at)
    if (std::string text = visit(cells_[at], 2 * at); !text.empty()) return text;
  return {};
}

std::string RaceDetector::read(std::size_t offset, std::size_t bytes, const Moment& now, const std::uint32_t* known) {
  return each(offset, bytes, [&](Cell& cell, std::size_t at) -> std::string {
    if (cell.in_flight) return race(at, "read while a copy writes them, by", cell.written);
    if (!ordered(cell.written, now, known)) return race(at, "read, and written by", cell.written);
    if (cell.reads[0].thread != now.thread)
      cell.reads[cell.reads[0].thread / 32 == now.thread / 32 ? 1 : 2] = cell.reads[0];
    cell.reads[0] = now;
    return {};
  });
}

std::string RaceDetector::write(std::size_t offset, std::size_t bytes, const Moment& now, const std::uint32_t* known) {
  return each(offset, bytes, [&](Cell& cell, std::size_t at) -> std::string {
    if (cell.in_flight) return race(at, "written while a copy writes them, by", cell.written);
    if (!ordered(cell.written, now, known)) return race(at, "written, and written by", cell.written);
    for (const Moment& read : cell.reads)
      if (!ordered(read, now, known)) return race(at, "written, and read by", read);
    cell = {now, {}, false};
    return {};
  });
}

void RaceDetector::begin_copy(std::size_t offset, std::size_t bytes) {
  each(offset, bytes, [](Cell& cell, std::size_t) {
    cell.in_flight = true;
    return std::string();
  });
}

void RaceDetector::land_copy(std::size_t offset, std::size_t bytes, const Moment& now) {
  each(offset, bytes, [&](Cell& cell, std::size_t) {
    cell = {now, {}, false};
    return std::string();
  });
}

}  // namespace gqa::simt
