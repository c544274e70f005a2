// hopper.h: what a block of threads has on Hopper besides its threads: barriers that count bytes, a copy engine, and
// tensor cores that run behind the warps.
// Owns: that state for one block; which shared memory is being read or written behind the threads' backs, so that a
// second use of it is seen as the race it is; what happens where no thread can go on.
// Never: knows the instructions (ptx_barrier.cc, ptx_bulk.cc, ptx_wgmma.cc).
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

#include "tests/simt/machine.h"
#include "tests/simt/tensor_map.h"

namespace gqa::simt {

class Emulator;
struct Instruction;

// mbarrier: its phase ends when all arrivals and all bytes are in.
struct ByteBarrier {
  int expected = 0, pending = 0;  // arrivals
  std::int64_t bytes = 0;         // still to come in this phase
  unsigned phase = 0;
  int initialised_by = 0;
  bool shown = false;  // to the copy engine, by fence.mbarrier_init
  std::vector<int> waiters;
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
};

// Bytes of shared memory, as addresses of its window.
struct Range {
  std::uint64_t begin = 0, end = 0;
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

// A box that the copy engine was asked to move and has not moved.
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
  std::uint64_t descriptor = 0;
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
  std::array<NamedBarrier, 16> named;
  std::list<BoxCopy> loads;
  std::vector<BoxStores> stores;                  // by thread
  std::vector<WarpProducts> products;             // by warp
  std::vector<std::deque<IssuedProduct>> issued;  // by warpgroup: of its warp that is furthest ahead, all of them
  std::vector<std::vector<Range>> plain;          // by thread: ordinary stores that it has not fenced
  bool orders = false;                            // threads by mbarriers or numbered barriers
  std::vector<int> idlers;                        // threads in wait_until_idle()
                                                  // threads in wait_until_idle()

  void begin_block(std::size_t threads);
  // Empty, or what a block left unfinished as it ended.
  std::string unfinished() const;

  // Of bytes that a thread, the copy engine or the tensor cores are about to use: empty, or who still uses them.
  std::string conflict(const Range& range, bool write) const;
  // Empty, or which ordinary store the copy engine or the tensor cores would not see.
  std::string unfenced(const Range& range) const;
  void plain_store(Emulator& emulator, const Range& range);

  // The current thread sleeps until no thread can go on and its turn has come.
  void wait_until_idle(Emulator& emulator, const char* what);
  // No thread can go on: lets one thing happen. False: nothing is under way that a thread waits for.
  bool go_on(Emulator& emulator);
};

// Shared by the instructions.
ByteBarrier& byte_barrier(Emulator& emulator, std::uint64_t address);
void complete_bytes(Emulator& emulator, std::uint64_t address, std::int64_t bytes);
// Performs what go_on() chose among the loads of a barrier.
void land_chosen(Emulator& emulator, std::uint64_t barrier);

// 128-byte swizzle: 16-byte pieces of a 128-byte row, xor with the row's number in the eight.
constexpr std::uint64_t swizzled(std::uint64_t address) { return address ^ (address >> 7 & 7) << 4; }

}  // namespace gqa::simt
