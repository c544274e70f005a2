// ptx_bulk.cc: boxes of tensors moved by TMA: a load lands when nothing else can go on and a thread waits
// for it (a multicast's in each CTA apart), a store reads its source as its thread waits for it; or all at once, as the
// schedule says.
#include <algorithm>

#include "tests/simt/emulator/ptx/ptx.h"

namespace gqa::simt {
namespace {

constexpr std::uint64_t kBoxAlignment = 128;

// Arguments: a map at `first`, then its coordinates.
TensorBox box_of(Emulator& emulator, const Call& call, unsigned rank, std::size_t first) {
  TensorBox box{};
  const std::string wrong = read_map(reinterpret_cast<const void*>(call.read(first)), rank, &box.map);
  if (!wrong.empty()) emulator.fail(wrong);
  for (unsigned i = 0; i < rank; ++i) box.at[i] = static_cast<std::int32_t>(call.read(first + 1 + i));
  return box;
}

char* place_of(Emulator& emulator, const BoxCopy& copy) {
  if (copy.address % kBoxAlignment != 0) emulator.fail("a box at a shared address that is not aligned to 128 bytes");
  char* const first = emulator.cluster_shared(copy.address, kBoxAlignment, "cp.async.bulk.tensor");
  emulator.cluster_shared(copy.range().end - kBoxAlignment, kBoxAlignment, "cp.async.bulk.tensor");
  return first;
}

void check_own(Emulator& emulator, std::uint64_t address) {
  if (rank_of(address) != emulator.cluster_rank() && rank_of(address) < emulator.cluster_size())
    emulator.fail("cp.async.bulk.tensor, which is no multicast, with an address of CTA " +
                  std::to_string(rank_of(address)) + " in CTA " + std::to_string(emulator.cluster_rank()));
}

void land(Emulator& emulator, const BoxCopy& load) {
  load.box.load(place_of(emulator, load), load.address);
  complete_bytes(emulator, load.barrier, static_cast<std::int64_t>(load.box.bytes()));
}

// Into one CTA.
void issue(Emulator& emulator, const BoxCopy& load) {
  place_of(emulator, load);
  if (!cluster_byte_barrier(emulator, load.barrier, "cp.async.bulk.tensor").shown)
    emulator.fail("a load on an mbarrier of CTA " + std::to_string(rank_of(load.barrier)) +
                  " that no fence.mbarrier_init showed to TMA");
  if (const std::string who = emulator.hopper().conflict(load.range(), true); !who.empty())
    emulator.fail("a load into shared memory: " + who);
  if (emulator.schedule().copies == Copies::kEarly)
    land(emulator, load);
  else
    emulator.hopper().loads.push_back(load);
}

// [shared], [map, {coordinates}], [barrier]: of the thread's own CTA.
template <unsigned kRank>
void load(Emulator& emulator, const Call& call) {
  const BoxCopy load{box_of(emulator, call, kRank, 1), call.read(0), call.read(2 + kRank), call.place};
  check_own(emulator, load.address);
  check_own(emulator, load.barrier);
  issue(emulator, load);
}

// And a mask of CTAs. Each gets a copy of its own, at the same place in its shared memory, with the barrier at the same
// place there; they land apart.
template <unsigned kRank>
void multicast(Emulator& emulator, const Call& call) {
  BoxCopy load{box_of(emulator, call, kRank, 1), call.read(0), call.read(2 + kRank), call.place};
  const std::uint64_t mask = call.read(3 + kRank), size = emulator.cluster_size();
  if (mask == 0 || mask >> size != 0)
    emulator.fail("a load to the CTAs of mask " + std::to_string(mask) + " in a cluster of " + std::to_string(size));
  for (std::uint64_t rank = 0; rank < size; ++rank) {
    if ((mask >> rank & 1) == 0) continue;
    load.address = in_cta(load.address, rank);
    load.barrier = in_cta(load.barrier, rank);
    issue(emulator, load);
  }
}

// [map, {coordinates}], [shared]
template <unsigned kRank>
void store(Emulator& emulator, const Call& call) {
  const BoxCopy store{box_of(emulator, call, kRank, 0), call.read(1 + kRank), 0, call.place};
  check_own(emulator, store.address);
  const char* const from = place_of(emulator, store);
  if (std::any_of(store.box.at.begin(), store.box.at.begin() + kRank, [](std::int64_t at) { return at < 0; }))
    emulator.fail("a store at a coordinate below 0: an illegal instruction on Hopper, unlike a load there");
  std::string wrong = emulator.hopper().conflict(store.range(), false);
  if (wrong.empty()) wrong = emulator.hopper().unfenced(store.range());
  if (!wrong.empty()) emulator.fail("a store from shared memory: " + wrong);
  if (emulator.schedule().copies == Copies::kEarly)
    store.box.store(from, store.address);
  else
    emulator.hopper().stores[static_cast<std::size_t>(emulator.thread().number)].open.push_back(store);
}

BoxStores& stores_of_thread(Emulator& emulator) {
  return emulator.hopper().stores[static_cast<std::size_t>(emulator.thread().number)];
}

void commit(Emulator& emulator, const Call&) {
  BoxStores& stores = stores_of_thread(emulator);
  stores.groups.push_back(std::move(stores.open));
  stores.open.clear();
}

// Until at most so many groups, the newest, are on their way.
void wait_group(Emulator& emulator, const Call& call) {
  auto& groups = stores_of_thread(emulator).groups;
  const std::size_t pending = call.read(0);
  const auto empty = [](const std::vector<BoxCopy>& group) { return group.empty(); };
  if (groups.size() > pending && !std::all_of(groups.begin(), groups.end(), empty))
    emulator.hopper().wait_until_idle(emulator, "cp.async.bulk.wait_group");
  while (groups.size() > pending) {
    for (const BoxCopy& store : groups.front()) store.box.store(place_of(emulator, store), store.address);
    groups.pop_front();
  }
}

void prefetch(Emulator& emulator, const Call& call) {
  EmulatedMap map;
  const std::string wrong = read_map(reinterpret_cast<const void*>(call.read(0)), 0, &map);
  if (!wrong.empty()) emulator.fail(wrong);
}

}  // namespace

void land_chosen(Emulator& emulator, std::uint64_t barrier) {
  auto& loads = emulator.hopper().loads;
  for (auto at = loads.begin(); at != loads.end();) {
    if (!at->chosen || at->barrier != barrier) {
      ++at;
      continue;
    }
    const BoxCopy load = *at;
    at = loads.erase(at);
    land(emulator, load);
  }
}

const std::vector<Known>& bulk_instructions() {
  static const std::vector<Known> known = {
      {"prefetch.tensormap", prefetch},
      {"cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", load<4>},
      {"cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", load<5>},
      {"cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster",
       multicast<4>},
      {"cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group", store<4>},
      {"cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group", store<5>},
      {"cp.async.bulk.commit_group", commit},
      {"cp.async.bulk.wait_group", wait_group},
      {"cp.async.bulk.wait_group.read", wait_group},
  };
  return known;
}

}  // namespace gqa::simt
