// ptx_barrier.cc: barriers in shared memory and numbered ones, the fences of Hopper's proxies, the election of a lane.
#include <algorithm>
#include <bit>

#include "tests/simt/emulator/ptx/ptx.h"

namespace gqa::simt {
namespace {

constexpr int kMostArrivals = (1 << 20) - 1;
constexpr std::int64_t kMostBytes = (1 << 20) - 1;  // either way

// ---- mbarrier

// Bytes may come before the arrival that announces them: the phase waits for that arrival.
void end_phase_if_complete(Emulator& emulator, ByteBarrier& barrier) {
  if (barrier.bytes > kMostBytes || barrier.bytes < -kMostBytes)
    emulator.fail("an mbarrier that counts " + std::to_string(barrier.bytes) + " bytes, which it cannot");
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  barrier.gate.open();
  for (const int thread : barrier.waiters) emulator.wake(thread);
  barrier.waiters.clear();
}

void init(Emulator& emulator, const Call& call) {
  const std::uint64_t address = call.read(0);
  const auto arrivals = static_cast<std::int64_t>(call.read(1));
  emulator.shared(address, 8, "mbarrier.init");
  if (arrivals < 1 || arrivals > kMostArrivals)
    emulator.fail("mbarrier.init with " + std::to_string(arrivals) + " arrivals");
  auto& barriers = emulator.hopper().barriers;
  if (barriers.count(address) != 0) emulator.fail("mbarrier.init of a barrier that is one already");
  ByteBarrier& barrier = barriers[address];
  barrier.expected = barrier.pending = static_cast<int>(arrivals);
  barrier.initialised_by = emulator.thread().number;
  barrier.initialised_after = passage_of(emulator).arrivals;
}

void show(Emulator& emulator, const Call&) {
  for (auto& [address, barrier] : emulator.hopper().barriers)
    if (barrier.initialised_by == emulator.thread().number) barrier.shown = true;
}

// .shared::cta
ByteBarrier& own_byte_barrier(Emulator& emulator, const Call& call) {
  emulator.shared(call.read(1), 8, call.instruction.opcode.c_str());
  return byte_barrier(emulator, call.read(1));
}

void arrive(Emulator& emulator, const Call& call) { arrive_with(emulator, own_byte_barrier(emulator, call), 0); }
void arrive_expect(Emulator& emulator, const Call& call) {
  arrive_with(emulator, own_byte_barrier(emulator, call), static_cast<std::int64_t>(call.read(2)));
}

// It may give up after a while; here it never does.
void try_wait(Emulator& emulator, const Call& call) {
  const std::uint64_t address = call.read(1);
  ByteBarrier& barrier = own_byte_barrier(emulator, call);
  while ((barrier.phase & 1) == call.read(2)) {
    barrier.waiters.push_back(emulator.thread().number);
    emulator.sleep("mbarrier.try_wait");
    land_chosen(emulator, address);
    auto& waiters = barrier.waiters;
    waiters.erase(std::remove(waiters.begin(), waiters.end(), emulator.thread().number), waiters.end());
  }
  emulator.learn(barrier.gate);
  call.write(0, 1);
}

// Whether that phase is over; nobody waits.
void test_wait(Emulator& emulator, const Call& call) {
  ByteBarrier& barrier = own_byte_barrier(emulator, call);
  const bool over = (barrier.phase & 1) != call.read(2);
  if (over) emulator.learn(barrier.gate);
  call.write(0, over ? 1 : 0);
}

// ---- numbered barriers

bool meet_at(Emulator& emulator, std::uint64_t number, std::uint64_t threads, bool vote, bool stay) {
  auto& all = emulator.hopper().named[emulator.cluster_rank()];
  if (number >= all.size()) emulator.fail("barrier " + std::to_string(number) + " of 16");
  if (threads == 0 || threads % 32 != 0)
    emulator.fail("a barrier of " + std::to_string(threads) + " threads: whole warps expected");
  NamedBarrier& barrier = all[number];
  emulator.tell(&barrier.gate);
  if (barrier.arrived == 0) {
    barrier.expected = static_cast<int>(threads);
    barrier.all = true;
  }
  if (barrier.expected != static_cast<int>(threads))
    emulator.fail("barrier " + std::to_string(number) + " of " + std::to_string(threads) +
                  " threads here, while others wait at it for " + std::to_string(barrier.expected));
  barrier.all = barrier.all && vote;
  if (++barrier.arrived == barrier.expected) {
    barrier.arrived = 0;
    barrier.gate.open();
    if (stay) emulator.learn(barrier.gate);
    for (const NamedBarrier::Waiter& waiter : barrier.waiters) {
      *waiter.all = barrier.all;
      emulator.wake(waiter.thread);
    }
    barrier.waiters.clear();
    return barrier.all;
  }
  if (!stay) return true;
  bool result = true;
  barrier.waiters.push_back({emulator.thread().number, &result});
  emulator.sleep("barrier.sync");
  emulator.learn(barrier.gate);
  return result;
}

void sync(Emulator& emulator, const Call& call) { meet_at(emulator, call.read(0), call.read(1), true, true); }
void arrive_at(Emulator& emulator, const Call& call) { meet_at(emulator, call.read(0), call.read(1), true, false); }
void sync_all(Emulator& emulator, const Call& call) {
  call.write(0, meet_at(emulator, call.read(1), call.read(2), call.read(3) != 0, true) ? 1 : 0);
}

// ---- warps

// elect.sync _, leader, mask. Which lane is not promised.
void elect(Emulator& emulator, const Call& call) {
  const auto mask = static_cast<unsigned>(call.read(2));
  unsigned long long ignored[32];
  emulator.gather("elect.sync", mask, 0, ignored, call.place);
  const int lowest = std::countr_zero(mask), highest = 31 - std::countl_zero(mask);
  const int leader = emulator.schedule().order == Order::kAscending ? lowest : highest;
  call.write(1, emulator.thread().number % 32 == leader ? 1 : 0);
}

void set_registers(Emulator& emulator, const Call& call) {
  const std::uint64_t registers = call.read(0);
  if (registers % 8 != 0 || registers < 24 || registers > 256)
    emulator.fail("setmaxnreg to " + std::to_string(registers) + ": a multiple of 8 from 24 to 256 expected");
}

// Fences what this thread has stored: a cp.async that it has not waited for stores later.
void fence_async(Emulator& emulator, const Call&) {
  const Thread& thread = emulator.thread();
  auto& unfenced = emulator.hopper().plain[static_cast<std::size_t>(thread.number)];
  unfenced.clear();
  for (const Copy& copy : thread.open) unfenced.push_back(copy.range());
  for (const auto& group : thread.groups)
    for (const Copy& copy : group) unfenced.push_back(copy.range());
}

}  // namespace

ByteBarrier& byte_barrier(Emulator& emulator, std::uint64_t address) {
  auto& barriers = emulator.hopper().barriers;
  const auto found = barriers.find(address);
  if (found == barriers.end())
    emulator.fail("no mbarrier was initialised at shared address " + std::to_string(address));
  return found->second;
}

ByteBarrier& cluster_byte_barrier(Emulator& emulator, std::uint64_t address, const char* what) {
  emulator.cluster_shared(address, 8, what);
  ByteBarrier& barrier = byte_barrier(emulator, address);
  if (rank_of(address) != emulator.cluster_rank() && passage_of(emulator).waits <= barrier.initialised_after)
    emulator.fail(std::string(what) + ": no barrier.cluster stands between this and the mbarrier.init in CTA " +
                  std::to_string(rank_of(address)));
  return barrier;
}

void arrive_with(Emulator& emulator, ByteBarrier& barrier, std::int64_t bytes) {
  emulator.tell(&barrier.gate);
  barrier.bytes += bytes;
  --barrier.pending;  // never below zero: the phase would have ended, but for bytes
  if (barrier.pending < 0) emulator.fail("mbarrier.arrive once more than the barrier's phase expects");
  end_phase_if_complete(emulator, barrier);
}

void complete_bytes(Emulator& emulator, std::uint64_t address, std::int64_t bytes) {
  ByteBarrier& barrier = byte_barrier(emulator, address);
  barrier.bytes -= bytes;
  end_phase_if_complete(emulator, barrier);
}

const std::vector<Known>& barrier_instructions() {
  static const std::vector<Known> known = {
      {"mbarrier.init.shared::cta.b64", init},
      {"fence.mbarrier_init.release.cluster", show},
      {"mbarrier.arrive.shared::cta.b64", arrive},
      {"mbarrier.arrive.expect_tx.shared::cta.b64", arrive_expect},
      {"mbarrier.try_wait.parity.shared::cta.b64", try_wait},
      {"mbarrier.test_wait.parity.shared::cta.b64", test_wait},
      {"barrier.sync", sync},
      {"barrier.arrive", arrive_at},
      {"barrier.red.and.pred", sync_all},
      {"elect.sync", elect},
      {"setmaxnreg.dec.sync.aligned.u32", set_registers},
      {"setmaxnreg.inc.sync.aligned.u32", set_registers},
      {"fence.proxy.async.shared::cta", fence_async},
  };
  return known;
}

}  // namespace gqa::simt
