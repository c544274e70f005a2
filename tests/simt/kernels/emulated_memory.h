// emulated_memory.h: where a trial's case lies for a kernel under the emulator.
// Owns: a guarded buffer for each of its tensors.
// Never: judges. Threads: one.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "runtime/verify/operation_case.h"
#include "tests/simt/emulator/buffer.h"

namespace gqa::simt {

class EmulatedMemory final : public TrialMemory {
 public:
  Status put(const char* what, const void* from, std::size_t bytes, void** at) override {
    buffers_.push_back(std::make_unique<Buffer>(what, bytes));
    buffers_.back()->copy_in(from, bytes);
    *at = buffers_.back()->data();
    return {};
  }
  Status get(const void* at, std::size_t bytes, void* to) override {
    std::memcpy(to, at, bytes);
    return {};
  }

 private:
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace gqa::simt
