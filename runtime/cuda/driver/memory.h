// memory.h: device memory with an owner.
// Owns: one allocation, freed with its owner.
// Never: pools; workspace.h does. Needs the context to be current where it is made and freed.
// Threads: a value with one owner.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/driver/driver.h"

namespace gqa {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() {
    if (address_ != 0) driver_->cuMemFree(address_);
  }

  static Status allocate(const Driver& driver, std::size_t bytes, DeviceMemory* memory) {
    DeviceMemory fresh;
    fresh.driver_ = &driver;
    if (const CUresult result = driver.cuMemAlloc(&fresh.address_, bytes); result != CUDA_SUCCESS) {
      fresh.address_ = 0;
      const Status status = driver.error("cuMemAlloc", result);
      std::size_t free_bytes = 0, total_bytes = 0;
      const bool known =
          driver.cuMemGetInfo != nullptr && driver.cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS;
      return {status.code(), "allocating " + std::to_string(bytes) + " bytes of device memory" +
                                 (known ? ", of which " + std::to_string(free_bytes) + " are free" : "") + ": " +
                                 status.message()};
    }
    fresh.bytes_ = bytes;
    *memory = std::move(fresh);
    return {};
  }

  // Memory with a copy of a list in the host's; none for an empty list. The copy is queued.
  template <typename Number>
  static Status copy_of(const Driver& driver, CUstream stream, const std::vector<Number>& list, DeviceMemory* memory) {
    if (list.empty()) return {};
    const std::size_t bytes = list.size() * sizeof(Number);
    if (Status s = allocate(driver, bytes, memory); !s.ok()) return s;
    return driver.error("cuMemcpyHtoDAsync", driver.cuMemcpyHtoDAsync(memory->address_, list.data(), bytes, stream));
  }

  CUdeviceptr address() const { return address_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(address_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  const Driver* driver_ = nullptr;
  CUdeviceptr address_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace gqa
