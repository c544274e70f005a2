// tensors.h: DLTensors for tests, with storage for their shapes and strides.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace gqa::test {

constexpr DLDataType kBf16 = {kDLBfloat, 16, 1}, kF16 = {kDLFloat, 16, 1}, kF32 = {kDLFloat, 32, 1};

// A tensor on cuda:0 at a made-up address: argument checks never look at data.
struct TestTensor {
  TestTensor(std::uintptr_t address, std::initializer_list<std::int64_t> sizes, DLDataType type = kBf16)
      : shape(sizes), dtype(type), data(address) {
    strides.resize(shape.size());
    std::int64_t compact = 1;
    for (std::size_t i = shape.size(); i-- > 0; compact *= shape[i]) strides[i] = compact;
  }

  const DLTensor* get() {
    tensor.data = reinterpret_cast<void*>(data);
    tensor.device = device;
    tensor.ndim = rank >= 0 ? rank : static_cast<int>(shape.size());
    tensor.dtype = dtype;
    tensor.shape = no_shape ? nullptr : shape.data();
    tensor.strides = no_strides ? nullptr : strides.data();
    tensor.byte_offset = byte_offset;
    return absent ? nullptr : &tensor;
  }

  std::vector<std::int64_t> shape, strides;
  DLDataType dtype;
  std::uintptr_t data;
  DLDevice device = {kDLCUDA, 0};
  std::uint64_t byte_offset = 0;
  int rank = -1;  // -1: as the shape says
  bool absent = false, no_shape = false, no_strides = false;
  DLTensor tensor{};
};

}  // namespace gqa::test
