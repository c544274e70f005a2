// table.h: the session's map from a problem's signature to its loaded program, as the hot path reads it.
// Owns: open addressing with linear probing, never more than half full; which programs are guesses.
// Never: removes an entry, or changes one but for a guess that was tuned; owns no program.
// Threads: find() from any thread without a lock; add() and replace() from one at a time (under Session::mutex_). A
// slot's signature is written before its program is released, so a reader that sees the program sees the signature. A
// mark is taken off after the program was replaced, so a reader that sees none sees the program that was tuned.
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

  struct Found {
    const LoadedProgram* program = nullptr;  // null: none
    bool guessed = false;
  };

  Found find(const Signature& signature) const {
    for (std::size_t i = hash(signature);; ++i) {
      const Slot& slot = slots_[i & (slots_.size() - 1)];
      if (slot.program.load(std::memory_order_acquire) == nullptr) return {};
      if (slot.signature != signature) continue;
      const bool guessed = slot.guessed.load(std::memory_order_acquire);
      return {slot.program.load(std::memory_order_acquire), guessed};
    }
  }

  bool full() const { return 2 * (used_ + 1) > slots_.size(); }

  // signature: one that is not there yet.
  void add(const Signature& signature, const LoadedProgram* program, bool guessed) {
    Slot& slot = slots_[place_of(signature)];
    slot.signature = signature;
    slot.guessed.store(guessed, std::memory_order_relaxed);
    slot.program.store(program, std::memory_order_release);
    ++used_;
  }

  // signature: one that is there, whose program is a guess. program: one that was tuned.
  void replace(const Signature& signature, const LoadedProgram* program) {
    Slot& slot = slots_[place_of(signature)];
    slot.program.store(program, std::memory_order_release);
    slot.guessed.store(false, std::memory_order_release);
  }

  // A table of twice the size with the same entries.
  std::unique_ptr<ProgramTable> grown() const {
    auto larger = std::make_unique<ProgramTable>(2 * slots_.size());
    for (const Slot& slot : slots_) {
      if (const LoadedProgram* program = slot.program.load(std::memory_order_relaxed))
        larger->add(slot.signature, program, slot.guessed.load(std::memory_order_relaxed));
    }
    return larger;
  }

 private:
  struct Slot {
    Signature signature;
    std::atomic<const LoadedProgram*> program = nullptr;
    std::atomic<bool> guessed = false;
  };

  // Where the signature is, or would be; for who writes.
  std::size_t place_of(const Signature& signature) const {
    for (std::size_t i = hash(signature);; ++i) {
      const std::size_t at = i & (slots_.size() - 1);
      if (slots_[at].program.load(std::memory_order_relaxed) == nullptr || slots_[at].signature == signature) return at;
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace gqa
