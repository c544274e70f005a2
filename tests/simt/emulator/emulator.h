// emulator.h: one launch of a kernel on the CPU.
// Owns: the clusters of blocks (one block each, unless the launch says otherwise), one cluster after the other; the
// threads of a cluster's blocks as fibers that run together, their order, the places where they meet (warp functions,
// barriers), and what goes wrong there: divergence, deadlock, faults.
// Never: compiles (kernel.h) or knows what an instruction does (ptx.h).
// Threads: one thread of the system; one launch at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "search/status.h"
#include "tests/simt/emulator/cta.h"
#include "tests/simt/emulator/fiber.h"
#include "tests/simt/emulator/hopper.h"
#include "tests/simt/emulator/machine.h"
#include "tests/simt/emulator/races/clocks.h"
#include "tests/simt/emulator/races/workspace_race.h"

namespace gqa::simt {

// A GPU promises no order. What a launch computes may depend neither on which thread runs ahead nor on when, between
// issue and wait, an asynchronous copy happens.
enum class Order { kAscending, kDescending, kRandom };
enum class Copies { kLate, kEarly };
struct Schedule {
  Order order = Order::kAscending;
  Copies copies = Copies::kLate;
  unsigned seed = 1;  // of kRandom
};
std::string to_text(const Schedule& schedule);

struct Launch {
  Index3 grid, block;
  std::size_t dynamic_shared = 0;
  void** arguments = nullptr;
  unsigned cluster = 1;               // CTAs of a cluster, side by side along x
  const Buffer* workspace = nullptr;  // what blocks write for each other; races in it are seen
};

// A copy that was issued and has not happened.
struct Copy {
  char* to;
  const char* from;
  std::size_t bytes, zeros;
  std::uint64_t address;  // of `to`, in the window

  Range range() const { return {address, address + bytes + zeros}; }
};

struct Thread {
  Fiber fiber;
  Self self{};
  Cta* cta = nullptr;
  int number = 0, in_block = 0;  // of its cluster's threads, of its block's
  bool done = false;
  Place place{"the kernel's begin", 0};   // where it met others last
  std::string_view waits_for;             // empty: it can go on
  std::vector<Copy> open;                 // copies of no group yet
  std::vector<std::vector<Copy>> groups;  // oldest first
};

// Lanes of a warp that come to the same function or instruction.
struct Meeting {
  std::string_view name;
  bool aligned;  // all of the mask's lanes, at the same place; else ended lanes are not waited for
  Place place;
  unsigned mask = 0, arrived = 0;
  std::array<const void*, 32> payloads{};              // what each lane brought
  void (*complete)(const Meeting& meeting) = nullptr;  // run by the last to arrive
};

class Emulator final : public Machine {
 public:
  Emulator(const Binding& binding, const Launch& launch, const Schedule& schedule);
  ~Emulator();

  Status run();

  // ---- for kernels
  const Instruction* decode(const char* text) override;
  void execute(const Instruction* instruction, const Operand* operands, Place place) override;
  int sync_block(const char* function, bool vote, Place place) override;
  void gather(const char* function, unsigned mask, unsigned long long value, unsigned long long (&values)[32],
              Place place) override;
  void access(unsigned long offset, unsigned long bytes, bool write) override;
  void access_workspace(unsigned long offset, unsigned long bytes, bool write) override;
  void access_global(const void* at, std::size_t bytes, bool write);  // by an instruction
  char* dynamic_shared() override { return current_->cta->shared.as<char>(); }
  unsigned shared_address(const void* pointer) override;
  unsigned long long clock() override { return ++ticks_; }
  void trap(const char* what, Place place) override;

  // ---- for instructions
  Thread& thread() { return *current_; }
  const Schedule& schedule() const { return schedule_; }
  Hopper& hopper() { return hopper_; }
  // The current thread sleeps until one wakes it.
  void sleep(std::string_view what) { wait(what, current_->place); }
  void wake(int thread);
  // One of so many things that may happen next, by the schedule's order.
  std::size_t choose(std::size_t count);
  // The current thread waits until all lanes of the mask came; the last runs `complete`.
  void meet(Meeting meeting, const void* payload);
  // Shared memory of the current thread's CTA at an address of its window, checked.
  char* shared(std::uint64_t address, std::size_t bytes, const char* what);
  // Shared memory of any CTA of the cluster, checked: one that has ended has none.
  char* cluster_shared(std::uint64_t address, std::size_t bytes, const char* what);
  unsigned cluster_size() const { return launch_.cluster; }
  unsigned cluster_rank() const { return current_->cta->rank; }
  // At a barrier: what the current thread knows goes to those who pass; it passes, and knows what they brought.
  void tell(Gate* gate) { clocks_.tell(current_->number, &gate->coming); }
  void learn(const Gate& gate) { clocks_.learn(current_->number, gate.passed); }
  // By an atomic operation at an address.
  void release(const void* at) { clocks_.release(current_->number, first_block_, &heard_[at]); }
  void acquire(const void* at) { clocks_.acquire(current_->number, heard_[at]); }
  // What an instruction of the current thread does to its CTA's shared memory, against what others did.
  using Access = simt::Access;
  void check_race(Access access, const char* at, std::size_t bytes);
  // Ends the launch. Never returns to the thread.
  [[noreturn]] void fail(const std::string& message);

 private:
  struct Warp {
    unsigned there = 0, runnable = 0, ended = 0;
    std::vector<Meeting> meetings;
  };

  std::string refusal() const;
  void run_cluster(unsigned first_block);
  void begin_cluster(unsigned first_block);
  bool run_warps();
  bool run_warp(std::size_t warp, unsigned rounds);
  bool go_on(std::size_t thread);
  void end_thread();
  void wait(std::string_view what, Place place);
  void finish(Warp& warp, std::size_t meeting);
  void order_lanes(unsigned lanes);  // of the current thread's warp
  void check_deadlock();
  void explain_fault();
  std::string where() const;
  std::vector<unsigned> order_of(unsigned count);

  Binding binding_;
  Launch launch_;
  Schedule schedule_;
  unsigned block_threads_;
  std::vector<std::unique_ptr<Cta>> ctas_;        // of the cluster, by rank
  std::vector<std::unique_ptr<Thread>> threads_;  // of its CTAs, one CTA after the other
  std::vector<Warp> warps_;                       // of these threads
  Hopper hopper_;
  Clocks clocks_;                       // of these threads
  unsigned first_block_ = 0;            // of the cluster
  std::map<const void*, Heard> heard_;  // at atomics' addresses
  WorkspaceRaces races_;
  Thread* current_ = nullptr;
  std::mt19937 random_;
  unsigned long long ticks_ = 0;
  int ended_ = 0;
  bool failed_ = false;
  std::string error_;
};

}  // namespace gqa::simt
