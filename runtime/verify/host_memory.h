// host_memory.h: where a case lies for what runs on the CPU.
// Owns: copies of its tensors. Never: checks what is done with them. Threads: one.
#pragma once

#include <cstring>
#include <vector>

#include "runtime/verify/operation_case.h"
#include "runtime/verify/tensor_bytes.h"

namespace gqa {

class HostMemory final : public TrialMemory {
 public:
  Status put(const char*, const void* from, std::size_t bytes, void** at) override {
    TensorBytes& copy = copies_.emplace_back(bytes);
    std::memcpy(copy.data(), from, bytes);
    *at = copy.data();
    return {};
  }
  Status get(const void* at, std::size_t bytes, void* to) override {
    std::memcpy(to, at, bytes);
    return {};
  }

 private:
  std::vector<TensorBytes> copies_;
};

}  // namespace gqa
