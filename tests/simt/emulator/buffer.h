// buffer.h: memory of a kernel under test, with guards.
// Owns: Buffer: poisoned with bits that are NaN in every float type, ending at a page that faults (give or take its
// alignment), the rest of its pages filled with a pattern that intact() looks for.
// Never: knows what lies in it.
// Threads: one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gqa::simt {

class Buffer {
 public:
  // `name` is for messages. The first byte is aligned to `alignment`, a power of two.
  explicit Buffer(std::string name, std::size_t bytes, std::size_t alignment = 16);
  template <typename T>
  Buffer(std::string name, const std::vector<T>& values) : Buffer(std::move(name), values.size() * sizeof(T)) {
    copy_in(values.data(), values.size() * sizeof(T));
  }
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  std::vector<T> values() const {
    return std::vector<T>(as<T>(), as<T>() + bytes_ / sizeof(T));
  }
  std::size_t bytes() const { return bytes_; }

  void poison();
  void copy_in(const void* from, std::size_t bytes);
  // Empty, or which byte of the guards was written.
  std::string damage() const;

  // "16 bytes past the end of out (4096 bytes)", or empty where no buffer is near. Reads no memory of the buffers'.
  static std::string near(const void* address);
  // The damage of all buffers there are.
  static std::string damage_of_all();

 private:
  std::string name_;
  std::size_t bytes_, mapped_;
  char* map_;  // what faults, whole pages, what faults
  char* data_;
};

}  // namespace gqa::simt
