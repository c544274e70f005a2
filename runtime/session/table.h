// table.h: the session's map from signature to loaded kernel, as the hot path reads it.
// Owns: Session::Table, open addressing with linear probing, never more than half full.
// Never: removes or changes an entry; owns no kernel.
// Threads: find() from any thread without a lock; add() from one at a time (under Session::mutex_). A slot's signature
// is written before its kernel is released, so a reader that sees the kernel sees the signature.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "runtime/session/session.h"

namespace gqa {

class Session::Table {
 public:
  explicit Table(std::size_t slots) : slots_(slots) {}  // a power of two

  const Kernel* find(const Problem& signature) const {
    for (std::size_t i = hash(signature);; ++i) {
      const Slot& slot = slots_[i & (slots_.size() - 1)];
      const Kernel* kernel = slot.kernel.load(std::memory_order_acquire);
      if (kernel == nullptr || slot.signature == signature) return kernel;
    }
  }

  bool full() const { return 2 * (used_ + 1) > slots_.size(); }

  void add(const Problem& signature, const Kernel* kernel) {
    std::size_t i = hash(signature);
    while (slots_[i & (slots_.size() - 1)].kernel.load(std::memory_order_relaxed) != nullptr) ++i;
    Slot& slot = slots_[i & (slots_.size() - 1)];
    slot.signature = signature;
    slot.kernel.store(kernel, std::memory_order_release);
    ++used_;
  }

  // A table of twice the size with the same entries.
  std::unique_ptr<Table> grown() const {
    auto larger = std::make_unique<Table>(2 * slots_.size());
    for (const Slot& slot : slots_) {
      if (const Kernel* kernel = slot.kernel.load(std::memory_order_relaxed)) larger->add(slot.signature, kernel);
    }
    return larger;
  }

 private:
  struct Slot {
    Problem signature;
    std::atomic<const Kernel*> kernel = nullptr;
  };
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace gqa
