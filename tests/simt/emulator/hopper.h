// hopper.h: what a cluster of blocks has on Hopper besides its threads: barriers that count bytes, a barrier of the
// cluster, a TMA unit, and tensor cores that run behind the warps.
// Owns: that state for one cluster, by thread, by CTA or by shared address, which tells CTAs apart; which shared memory
// is being read or written behind the threads' backs, so that a second use of it is seen as the race it is; what
// happens where no thread can go on.
// Never: knows the instructions (ptx_barrier.cc, ptx_bulk.cc, ptx_cluster.cc, ptx_wgmma.cc).
// Threads: those of one launch.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simt/emulator/machine.h"
#include "tests/simt/emulator/races/clocks.h"
#include "tests/simt/emulator/tensor_map.h"

namespace gqa::simt {

class Emulator;
struct Instruction;

// mbarrier: its phase ends when all arrivals and all bytes are in.
struct ByteBarrier {
  int expected = 0, pending = 0;  // arrivals
  std::int64_t bytes = 0;         // still to come in this phase; below zero: that came before they were announced
  unsigned phase = 0;
  int initialised_by = 0;
  unsigned initialised_after = 0;  // arrivals of that thread at the cluster's barrier
  bool shown = false;              // to TMA, by fence.mbarrier_init
  std::vector<int> waiters;
  Gate gate;
};

// bar: numbered, among so many threads of a block.
struct NamedBarrier {
  struct Waiter {
    int thread;
    bool* all;
  };
  int expected = 0, arrived = 0;
  bool all = true;
  std::vector<Waiter> waiters;
  Gate gate;
};

// barrier.cluster: among all threads of a cluster that have not ended. A thread that has arrived once more than it has
// waited is under way.
struct ClusterBarrier {
  struct Passage {
    unsigned arrivals = 0, waits = 0;
  };
  unsigned phase = 0;
  std::size_t missing = 0, living = 0;  // threads: that the phase waits for, that have not ended
  std::vector<Passage> threads;
  std::vector<int> waiters;
  Gate gate;
};

// Bytes of shared memory, as addresses of its window.
struct Range {
  std::uint64_t begin = 0, end = 0;
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

// A box that TMA was asked to move and has not moved.
struct BoxCopy {
  TensorBox box;
  std::uint64_t address = 0, barrier = 0;
  Place place{};
  bool chosen = false;  // it is to land now, in the first thread that waits for it

  Range range() const { return {address, address + box.bytes()}; }
};

// One thread's stores.
struct BoxStores {
  std::vector<BoxCopy> open;
  std::deque<std::vector<BoxCopy>> groups;  // oldest first
};

// A warp's 16 rows of a warpgroup's accumulators, while products own them.
struct Accumulators {
  unsigned columns = 0;
  std::vector<float*> registers;  // lane * columns / 2 + register
  std::vector<float> rows;        // 16 x columns
  int products = 0;               // that are not done
};

struct ProductOperand {
  std::uint64_t descriptor = 0, window = 0;  // of the CTA's shared addresses, which a descriptor leaves out
  bool transposed = false;
  std::vector<Range> ranges;  // one a panel

  bool meets(const Range& range) const {
    return std::any_of(ranges.begin(), ranges.end(), [&](const Range& mine) { return mine.meets(range); });
  }
};

// What a wgmma.mma_async makes of one warp's rows.
struct Product {
  std::shared_ptr<Accumulators> accumulators;
  ProductOperand a, b;
  std::vector<std::uint32_t> a_registers;  // lane * 4 + register; empty: a lies in shared memory
  bool bf16 = false, accumulate = false;
  float sign = 1;
  unsigned warp = 0;  // of its warpgroup
  Place place{};
};

struct WarpProducts {
  std::vector<Product> open;
  std::deque<std::vector<Product>> groups;  // oldest first
  std::list<std::shared_ptr<Accumulators>> owned;
  bool fenced = false;     // since the registers were last the threads'
  std::size_t issued = 0;  // products
};

// What all four warps of a warpgroup must say alike.
struct IssuedProduct {
  const Instruction* instruction;
  std::uint64_t a, b;
  bool accumulate;
};

struct Hopper {
  std::map<std::uint64_t, ByteBarrier> barriers;
  std::vector<std::array<NamedBarrier, 16>> named;  // by CTA
  ClusterBarrier cluster;
  std::list<BoxCopy> loads;
  std::vector<BoxStores> stores;                  // by thread
  std::vector<WarpProducts> products;             // by warp
  std::vector<std::deque<IssuedProduct>> issued;  // by warpgroup: of its warp that is furthest ahead, all of them
  std::vector<std::vector<Range>> plain;          // by thread: ordinary stores that it has not fenced
  std::vector<int> idlers;                        // threads in wait_until_idle()
  std::size_t block_threads = 0;

  void begin_cluster(std::size_t ctas, std::size_t threads_of_block);
  // The current thread has ended: the cluster's barrier does not wait for it.
  void end_thread(Emulator& emulator);
  // Empty, or which load has not landed in a CTA that has ended.
  std::string landing_in(std::uint64_t rank) const;
  // Empty, or what a cluster left unfinished as it ended.
  std::string unfinished() const;

  // Who still uses bytes that a thread, TMA or the tensor cores are about to use; empty: nobody.
  std::string conflict(const Range& range, bool write) const;
  // Empty, or which ordinary store TMA or the tensor cores would not see.
  std::string unfenced(const Range& range) const;
  void plain_store(Emulator& emulator, const Range& range);

  // The current thread sleeps until no thread can go on and its turn has come.
  void wait_until_idle(Emulator& emulator, const char* what);
  // No thread can go on: lets one thing happen. False: nothing is under way that a thread waits for.
  bool go_on(Emulator& emulator);

 private:
  // "the block", or which CTA of several.
  std::string block_of(std::size_t rank) const;
};

// Shared by the instructions.
ByteBarrier& byte_barrier(Emulator& emulator, std::uint64_t address);
// In any CTA of the cluster that has not ended; that another CTA's was initialised is known through the cluster's
// barrier alone.
ByteBarrier& cluster_byte_barrier(Emulator& emulator, std::uint64_t address, const char* what);
void arrive_with(Emulator& emulator, ByteBarrier& barrier, std::int64_t bytes);
// How often the current thread came to the cluster's barrier and left it.
ClusterBarrier::Passage& passage_of(Emulator& emulator);
// A phase of the cluster's barrier misses one thread less.
void arrive_at_cluster(Emulator& emulator);
void complete_bytes(Emulator& emulator, std::uint64_t address, std::int64_t bytes);
// Performs what go_on() chose among the loads of a barrier.
void land_chosen(Emulator& emulator, std::uint64_t barrier);

// 128-byte swizzle: 16-byte pieces of a 128-byte row, xor with the row's number in the eight.
constexpr std::uint64_t swizzled(std::uint64_t address) { return address ^ (address >> 7 & 7) << 4; }

}  // namespace gqa::simt
