// ptx_cluster.cc: what threads of one CTA of a cluster do with the others: addresses in their shared memory, arrivals
// at their mbarriers, the barrier of all of them. (Loads into several CTAs: ptx_bulk.cc.)
#include <cstring>

#include "tests/simt/emulator/ptx/ptx.h"

namespace gqa::simt {
namespace {

// mapa d, address, rank. The CTA may have ended: only a use needs it.
void map_address(Emulator& emulator, const Call& call) {
  const std::uint64_t address = call.read(1), rank = call.read(2);
  if (rank >= emulator.cluster_size())
    emulator.fail("mapa to CTA " + std::to_string(rank) + " in a cluster of " +
                  std::to_string(emulator.cluster_size()));
  if (rank_of(address) >= emulator.cluster_size() || address % kCtaWindow < kSharedBegin)
    emulator.fail("mapa of " + std::to_string(address) + ", which is no shared address");
  call.write(0, in_cta(address, rank));
}

// _, [address]{, bytes}: the arrival's token would be another CTA's. Under late copies an arrival at another CTA comes
// when nothing else can go on: who ought to wait for it, and does not, may end first.
void arrive(Emulator& emulator, const Call& call) {
  const char* const opcode = call.instruction.opcode.c_str();
  if (call.instruction.arguments.at(0).name != "_") emulator.fail(std::string(opcode) + " with a result: _ expected");
  const std::int64_t bytes = call.instruction.arguments.size() > 2 ? static_cast<std::int64_t>(call.read(2)) : 0;
  const std::uint64_t address = call.read(1);
  if (rank_of(address) != emulator.cluster_rank() && emulator.schedule().copies == Copies::kLate)
    emulator.hopper().wait_until_idle(emulator, opcode);
  arrive_with(emulator, cluster_byte_barrier(emulator, address, opcode), bytes);
}

// [address], value, [barrier]: of one CTA, another or the own. Under late copies it lands when nothing else can go on.
void store_async(Emulator& emulator, const Call& call) {
  const std::uint64_t address = call.read(0), barrier = call.read(2);
  const auto value = static_cast<std::uint32_t>(call.read(1));
  constexpr const char* kOpcode = "st.async";
  if (rank_of(address) != rank_of(barrier))
    emulator.fail("st.async to CTA " + std::to_string(rank_of(address)) + " with an mbarrier of CTA " +
                  std::to_string(rank_of(barrier)));
  if (address % sizeof(value) != 0) emulator.fail("st.async to an address that is not aligned to 4 bytes");
  if (emulator.schedule().copies == Copies::kLate) emulator.hopper().wait_until_idle(emulator, kOpcode);
  cluster_byte_barrier(emulator, barrier, kOpcode);
  char* const to = emulator.cluster_shared(address, sizeof(value), kOpcode);
  if (const std::string who = emulator.hopper().conflict({address, address + sizeof(value)}, true); !who.empty())
    emulator.fail("a store into shared memory: " + who);
  std::memcpy(to, &value, sizeof(value));
  complete_bytes(emulator, barrier, sizeof(value));
}

// ---- barrier.cluster

void align(Emulator& emulator, const Call& call) {
  emulator.meet({call.instruction.opcode, true, call.place, 0xffffffffU, 0, {}, [](const Meeting&) {}}, nullptr);
}

// Relaxed, it orders nothing.
template <bool kAligned, bool kTells = true>
void arrive_all(Emulator& emulator, const Call& call) {
  if (kAligned) align(emulator, call);
  ClusterBarrier::Passage& mine = passage_of(emulator);
  if (mine.arrivals != mine.waits) emulator.fail("barrier.cluster.arrive again before barrier.cluster.wait");
  if (kTells) emulator.tell(&emulator.hopper().cluster.gate);
  ++mine.arrivals;
  arrive_at_cluster(emulator);
}

template <bool kAligned>
void wait_all(Emulator& emulator, const Call& call) {
  if (kAligned) align(emulator, call);
  ClusterBarrier& barrier = emulator.hopper().cluster;
  ClusterBarrier::Passage& mine = passage_of(emulator);
  if (mine.arrivals == mine.waits) emulator.fail("barrier.cluster.wait without a barrier.cluster.arrive");
  while (barrier.phase < mine.arrivals) {
    barrier.waiters.push_back(emulator.thread().number);
    emulator.sleep("barrier.cluster.wait");
  }
  ++mine.waits;
  emulator.learn(barrier.gate);
}

}  // namespace

ClusterBarrier::Passage& passage_of(Emulator& emulator) {
  return emulator.hopper().cluster.threads[static_cast<std::size_t>(emulator.thread().number)];
}

void arrive_at_cluster(Emulator& emulator) {
  ClusterBarrier& barrier = emulator.hopper().cluster;
  if (--barrier.missing > 0) return;
  ++barrier.phase;
  barrier.missing = barrier.living;
  barrier.gate.open();
  for (const int thread : barrier.waiters) emulator.wake(thread);
  barrier.waiters.clear();
}

const std::vector<Known>& cluster_instructions() {
  static const std::vector<Known> known = {
      {"mapa.shared::cluster.u32", map_address},
      {"mbarrier.arrive.shared::cluster.b64", arrive},
      {"mbarrier.arrive.expect_tx.shared::cluster.b64", arrive},
      {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32", store_async},
      {"barrier.cluster.arrive", arrive_all<false>},
      {"barrier.cluster.arrive.aligned", arrive_all<true>},
      {"barrier.cluster.arrive.relaxed", arrive_all<false, false>},
      {"barrier.cluster.wait", wait_all<false>},
      {"barrier.cluster.wait.aligned", wait_all<true>},
  };
  return known;
}

}  // namespace gqa::simt
