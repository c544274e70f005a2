// table.h: the session's map from a problem's signature to its loaded program, as the hot path reads it.
// Owns: open addressing with linear probing, never more than half full.
// Never: removes or changes an entry; owns no program.
// Threads: find() from any thread without a lock; add() from one at a time (under Session::mutex_). A slot's signature
// is written before its program is released, so a reader that sees the program sees the signature.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/device.h"
#include "search/problem/signature.h"

namespace gqa {

class ProgramTable {
 public:
  explicit ProgramTable(std::size_t slots) : slots_(slots) {}  // a power of two

  const LoadedProgram* find(const Signature& signature) const {
    for (std::size_t i = hash(signature);; ++i) {
      const Slot& slot = slots_[i & (slots_.size() - 1)];
      const LoadedProgram* program = slot.program.load(std::memory_order_acquire);
      if (program == nullptr || slot.signature == signature) return program;
    }
  }

  bool full() const { return 2 * (used_ + 1) > slots_.size(); }

  void add(const Signature& signature, const LoadedProgram* program) {
    std::size_t i = hash(signature);
    while (slots_[i & (slots_.size() - 1)].program.load(std::memory_order_relaxed) != nullptr) ++i;
    Slot& slot = slots_[i & (slots_.size() - 1)];
    slot.signature = signature;
    slot.program.store(program, std::memory_order_release);
    ++used_;
  }

  // A table of twice the size with the same entries.
  std::unique_ptr<ProgramTable> grown() const {
    auto larger = std::make_unique<ProgramTable>(2 * slots_.size());
    for (const Slot& slot : slots_) {
      if (const LoadedProgram* program = slot.program.load(std::memory_order_relaxed))
        larger->add(slot.signature, program);
    }
    return larger;
  }

 private:
  struct Slot {
    Signature signature;
    std::atomic<const LoadedProgram*> program = nullptr;
  };
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace gqa
