// cta.h: what a CTA, a block of threads, has for itself while the CTAs of its cluster run together.
// Owns: its shared memory and where that lies among the cluster's shared addresses, its __syncthreads, the races in it,
// how many of its threads have ended.
// Never: schedules threads (emulator.h); holds what is found by shared address or by thread (hopper.h).
// Threads: those of one launch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/simt/emulator/buffer.h"
#include "tests/simt/emulator/machine.h"
#include "tests/simt/emulator/races/race.h"

namespace gqa::simt {

// So many shared addresses are each CTA's, by its rank: the 18 bits that a wgmma descriptor holds. An address of a
// thread's own CTA is thereby one of the cluster's, too.
constexpr std::uint64_t kCtaWindow = 0x40000;
// Where shared memory begins in its window: zero is no address of anything, and swizzles look at low bits.
constexpr unsigned kSharedBegin = 1024;

constexpr std::uint64_t rank_of(std::uint64_t address) { return address / kCtaWindow; }
// The same place in another CTA.
constexpr std::uint64_t in_cta(std::uint64_t address, std::uint64_t rank) {
  return rank * kCtaWindow + address % kCtaWindow;
}

// __syncthreads and its votes.
struct BlockBarrier {
  std::string_view name;
  Place place{};
  unsigned arrived = 0;
  int votes = 0, last_votes = 0;
  Gate gate;
};

struct Cta {
  Cta(unsigned rank_in_cluster, unsigned cluster, std::size_t shared_bytes)
      : rank(rank_in_cluster),
        shared(cluster == 1 ? "shared memory" : "shared memory of CTA " + std::to_string(rank), shared_bytes, 1024),
        races(shared_bytes) {}

  void begin() {
    shared.poison();
    races.begin_block();
    barrier = {};
    ended = 0;
  }

  std::uint64_t address_of(std::size_t offset) const { return rank * kCtaWindow + kSharedBegin + offset; }
  char* at(std::uint64_t address) const { return shared.as<char>() + (address - address_of(0)); }
  // Empty, or why no instruction can use these bytes.
  std::string refusal(std::uint64_t address, std::size_t bytes, const char* what) const {
    const std::uint64_t offset = address - address_of(0);
    if (address < address_of(0) || offset + bytes > shared.bytes())
      return std::string(what) + " of bytes " + std::to_string(static_cast<std::int64_t>(offset)) + " to " +
             std::to_string(static_cast<std::int64_t>(offset + bytes)) + " of shared memory, which has " +
             std::to_string(shared.bytes());
    if (offset % bytes != 0)
      return std::string(what) + " at byte " + std::to_string(offset) + " of shared memory, which is not aligned to " +
             std::to_string(bytes);
    return {};
  }

  unsigned rank;  // in its cluster
  Buffer shared;
  RaceDetector races;
  BlockBarrier barrier;
  unsigned ended = 0;  // threads
};

}  // namespace gqa::simt
