// tensor_bytes.h: a graph's tensors as bytes in memory.
// Owns: their memory, how many bytes a layout spans, elements by type, whole tensors to and from numbers, element by
// element as the strides have it. Never: used on a hot path; devices have their own ways. Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/element.h"
#include "search/graph/ir/tensor.h"
#include "search/graph/prove/dense.h"

namespace gqa {

// Not touched before it is written: pages of zeros take longer to make than the numbers that follow.
class TensorBytes {
 public:
  TensorBytes() = default;
  explicit TensorBytes(std::size_t size) : data_(new std::byte[size]), size_(size) {}
  TensorBytes(std::size_t size, std::byte value) : TensorBytes(size) { std::fill(begin(), end(), value); }
  TensorBytes(const TensorBytes& other) : TensorBytes(other.size()) { std::copy(other.begin(), other.end(), begin()); }
  TensorBytes(TensorBytes&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  TensorBytes& operator=(TensorBytes other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~TensorBytes() = default;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::byte* begin() { return data(); }
  const std::byte* begin() const { return data(); }
  std::byte* end() { return data() + size_; }
  const std::byte* end() const { return data() + size_; }
  std::byte& operator[](std::size_t at) { return data_[at]; }
  const std::byte& operator[](std::size_t at) const { return data_[at]; }
  bool operator==(const TensorBytes& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }
  bool operator!=(const TensorBytes& other) const { return !(*this == other); }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

// From a tensor's first element to its last as its strides have it; gaps between rows count.
inline std::int64_t tensor_bytes(const TensorSpec& spec) {
  const Dims strides = strides_of(spec);
  std::int64_t last = 0;
  for (std::size_t at = 0; at < strides.size(); ++at) last += (spec.dims[at] - 1) * strides[at];
  return (last + 1) * element_bytes(spec.type);
}

// Half a last place of a number of size 1, and of the smallest that there are.
inline double last_place(ElementType type) {
  return type == ElementType::kF32 ? 0x1p-24 : type == ElementType::kBF16 ? 0x1p-8 : 0x1p-11;
}
inline double least(ElementType type) { return type == ElementType::kF16 ? 0x1p-25 : 0; }

// Calls visit(row-major index, byte offset) for each element, in order.
template <typename Visit>
void visit_elements(const TensorSpec& spec, Visit visit) {
  const Dims strides = strides_of(spec);
  const std::int64_t bytes = element_bytes(spec.type), step = strides.back() * bytes;
  std::int64_t index = 0;
  walk_rows<1>(spec.dims, {strides}, [&](const auto& at, std::int64_t size) {
    for (std::int64_t j = 0; j < size; ++j) visit(index++, at[0] * bytes + j * step);
  });
}

inline std::vector<double> read_tensor(const TensorSpec& spec, const std::byte* from) {
  std::vector<double> values(static_cast<std::size_t>(elements(spec.dims)));
  visit_elements(spec, [&](std::int64_t index, std::int64_t offset) {
    values[static_cast<std::size_t>(index)] = static_cast<double>(load_element(spec.type, from + offset));
  });
  return values;
}

// Rounds to the tensor's type; gaps stay as they are.
inline void write_tensor(const TensorSpec& spec, const std::vector<double>& values, std::byte* to) {
  visit_elements(spec, [&](std::int64_t index, std::int64_t offset) {
    store_element(spec.type, static_cast<float>(values[static_cast<std::size_t>(index)]), to + offset);
  });
}

}  // namespace gqa
