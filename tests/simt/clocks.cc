// clocks.cc: see clocks.h.
#include "tests/simt/clocks.h"

#include <algorithm>

namespace gqa::simt {
namespace {

void merge(Clock* to, const Clock& from) {
  if (to->size() < from.size()) to->resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) (*to)[i] = std::max((*to)[i], from[i]);
}

}  // namespace

void Gate::open() {
  merge(&passed, coming);
  coming.clear();
}

// A thread's own step begins at one, so that others' zeros know nothing of it.
void Clocks::begin(std::size_t threads) {
  clocks_.assign(threads, Clock(threads));
  for (std::size_t i = 0; i < threads; ++i) clocks_[i][i] = 1;
}

void Clocks::tell(int thread, Clock* to) {
  Clock& mine = clocks_[static_cast<std::size_t>(thread)];
  merge(to, mine);
  ++mine[static_cast<std::size_t>(thread)];
}

void Clocks::learn(int thread, const Clock& from) { merge(&clocks_[static_cast<std::size_t>(thread)], from); }

}  // namespace gqa::simt
