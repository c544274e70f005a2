// clocks.cc: see clocks.h.
#include "tests/simt/emulator/races/clocks.h"

#include <algorithm>

namespace gqa::simt {
namespace {

void merge(Clock* to, const Clock& from) {
  if (to->size() < from.size()) to->resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) (*to)[i] = std::max((*to)[i], from[i]);
}

void merge(Heard* to, const Heard& from) {
  for (const auto& [cluster, clock] : from) {
    std::shared_ptr<const Clock>& mine = (*to)[cluster];
    if (mine == nullptr) mine = clock;
    if (mine == clock) continue;
    auto both = std::make_shared<Clock>(*mine);
    merge(both.get(), *clock);
    mine = std::move(both);
  }
}

void merge(Knowledge* to, const Knowledge& from) {
  merge(&to->steps, from.steps);
  merge(&to->heard, from.heard);
}

}  // namespace

void Gate::open() {
  merge(&passed, coming);
  coming = {};
}

// A thread's own step begins at one, so that others' zeros know nothing of it.
void Clocks::begin(std::size_t threads) {
  known_.assign(threads, {Clock(threads), {}});
  for (std::size_t i = 0; i < threads; ++i) known_[i].steps[i] = 1;
}

const Clock* Clocks::of_cluster(int thread, unsigned cluster) const {
  const Heard& heard = known_[static_cast<std::size_t>(thread)].heard;
  const auto found = heard.find(cluster);
  return found == heard.end() ? nullptr : found->second.get();
}

void Clocks::tell(int thread, Knowledge* to) {
  Knowledge& mine = known_[static_cast<std::size_t>(thread)];
  merge(to, mine);
  ++mine.steps[static_cast<std::size_t>(thread)];
}

void Clocks::learn(int thread, const Knowledge& from) { merge(&known_[static_cast<std::size_t>(thread)], from); }

void Clocks::release(int thread, unsigned cluster, Heard* there) {
  Knowledge& mine = known_[static_cast<std::size_t>(thread)];
  merge(there, mine.heard);
  merge(there, {{cluster, std::make_shared<const Clock>(mine.steps)}});
  ++mine.steps[static_cast<std::size_t>(thread)];
}

void Clocks::acquire(int thread, const Heard& there) { merge(&known_[static_cast<std::size_t>(thread)].heard, there); }

}  // namespace gqa::simt
