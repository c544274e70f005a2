// hopper.cc: see hopper.h.
#include "tests/simt/emulator/hopper.h"

#include <algorithm>

#include "tests/simt/emulator/emulator.h"
#include "tests/simt/emulator/place.h"

namespace gqa::simt {
namespace {

template <typename Groups, typename Open, typename Use>
void each_pending(const Groups& groups, const Open& open, Use use) {
  for (const auto& group : groups)
    for (const auto& one : group) use(one);
  for (const auto& one : open) use(one);
}

}  // namespace

void Hopper::begin_cluster(std::size_t ctas, std::size_t threads_of_block) {
  const std::size_t threads = ctas * threads_of_block;
  *this = {};
  block_threads = threads_of_block;
  named.resize(ctas);
  cluster.missing = cluster.living = threads;
  cluster.threads.resize(threads);
  stores.resize(threads);
  products.resize((threads + 31) / 32);
  plain.resize(threads);
  issued.resize((threads + 127) / 128);
}

void Hopper::end_thread(Emulator& emulator) {
  const auto thread = static_cast<std::size_t>(emulator.thread().number);
  --cluster.living;
  if (cluster.threads[thread].arrivals == cluster.phase) arrive_at_cluster(emulator);
}

std::string Hopper::block_of(std::size_t rank) const {
  return named.size() == 1 ? "the block" : "CTA " + std::to_string(rank) + " of the cluster";
}

std::string Hopper::landing_in(std::uint64_t rank) const {
  for (const BoxCopy& load : loads)
    if (rank_of(load.address) == rank)
      return block_of(rank) + " ended before its load of " + to_text(load.place) + " had landed";
  return {};
}

std::string Hopper::unfinished() const {
  std::string text;
  for (std::size_t thread = 0; thread < stores.size(); ++thread)
    each_pending(stores[thread].groups, stores[thread].open, [&](const BoxCopy& store) {
      text = block_of(thread / block_threads) + " ended before its store of " + to_text(store.place) +
             " had read shared memory";
    });
  for (std::size_t warp = 0; warp < products.size(); ++warp)
    each_pending(products[warp].groups, products[warp].open, [&](const Product& product) {
      text =
          block_of(warp * 32 / block_threads) + " ended without waiting for its product of " + to_text(product.place);
    });
  for (std::size_t rank = 0; rank < named.size(); ++rank)
    for (std::size_t i = 0; i < named[rank].size(); ++i)
      if (const NamedBarrier& barrier = named[rank][i]; barrier.arrived != 0)
        text = block_of(rank) + " ended with " + std::to_string(barrier.arrived) + " of " +
               std::to_string(barrier.expected) + " threads at barrier " + std::to_string(i);
  for (std::size_t group = 0; group < issued.size(); ++group)
    for (std::size_t warp = group * 4; warp < std::min(group * 4 + 4, products.size()); ++warp)
      if (products[warp].issued != issued[group].size())
        text = "warp " + std::to_string(warp % ((block_threads + 31) / 32)) + " of " +
               block_of(warp * 32 / block_threads) + " took part in " + std::to_string(products[warp].issued) +
               " of the " + std::to_string(issued[group].size()) + " products of its warpgroup";
  return text;
}

std::string Hopper::conflict(const Range& range, bool write) const {
  for (const BoxCopy& load : loads)
    if (load.range().meets(range)) return "the load of " + to_text(load.place) + " has not landed there";
  if (!write) return {};
  std::string text;
  for (const BoxStores& thread : stores)
    each_pending(thread.groups, thread.open, [&](const BoxCopy& store) {
      if (store.range().meets(range)) text = "the store of " + to_text(store.place) + " still reads from there";
    });
  for (const WarpProducts& warp : products)
    each_pending(warp.groups, warp.open, [&](const Product& product) {
      if (product.a.meets(range) || product.b.meets(range))
        text = "the product of " + to_text(product.place) + " still reads from there";
    });
  return text;
}

std::string Hopper::unfenced(const Range& range) const {
  for (std::size_t thread = 0; thread < plain.size(); ++thread)
    for (const Range& stored : plain[thread])
      if (stored.meets(range))
        return "thread " + std::to_string(thread % block_threads) + " of " + block_of(thread / block_threads) +
               " stored there without a fence.proxy.async since";
  return {};
}

void Hopper::plain_store(Emulator& emulator, const Range& range) {
  if (const std::string who = conflict(range, true); !who.empty()) emulator.fail("a store into shared memory: " + who);
  std::vector<Range>& mine = plain[static_cast<std::size_t>(emulator.thread().number)];
  if (!mine.empty() && mine.back().end == range.begin)
    mine.back().end = range.end;
  else
    mine.push_back(range);
}

void Hopper::wait_until_idle(Emulator& emulator, const char* what) {
  idlers.push_back(emulator.thread().number);
  emulator.sleep(what);
}

// The lanes of one warp idle and go on together. In ascending order loads land last of all, in descending first.
bool Hopper::go_on(Emulator& emulator) {
  std::vector<int> warps;
  for (const int thread : idlers)
    if (std::find(warps.begin(), warps.end(), thread / 32) == warps.end()) warps.push_back(thread / 32);
  std::vector<BoxCopy*> waited_for;
  for (BoxCopy& load : loads)
    if (!barriers[load.barrier].waiters.empty()) waited_for.push_back(&load);
  const std::size_t choices = warps.size() + waited_for.size();
  if (choices == 0) return false;
  const std::size_t choice = emulator.choose(choices);
  if (choice >= warps.size()) {
    BoxCopy* const load = waited_for[choice - warps.size()];
    load->chosen = true;
    emulator.wake(barriers[load->barrier].waiters.front());
    return true;
  }
  std::vector<int> others;
  for (const int thread : idlers) {
    if (thread / 32 == warps[choice])
      emulator.wake(thread);
    else
      others.push_back(thread);
  }
  idlers = others;
  return true;
}

}  // namespace gqa::simt
