// view.h: one DLTensor, read once.
// Owns: View, a tensor's pointer, sizes and strides as plain numbers, the bytes it touches, and whether its elements
// overlap one another.
// Never: knows what the tensor is for; args.cc does.
// Threads: a value.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/api/gqa.h"

namespace gqa {

struct View {
  static constexpr int kMaxRank = 4;

  const char* name = "";  // "q", for messages
  int rank = 0;
  int element = 0;  // bytes
  std::uintptr_t data = 0;
  std::array<std::int64_t, kMaxRank> size{};
  std::array<std::int64_t, kMaxRank> stride{};  // elements; 0 where the size is 1
  std::int64_t last_stride = 1;                 // as given, also where the size is 1
  std::uintptr_t first = 0, last = 0;           // the bytes it touches: [first, last)

  // Reads sizes, strides and pointer; sizes must be positive already. False if an address does not fit.
  bool read(const char* tensor_name, const DLTensor& tensor, int element_bytes);

  // A packed tensor, (rows, ...), as one with a batch of 1.
  View with_batch() const;

  bool touches(const View& other) const { return first < other.last && other.first < last; }
  // True if every dimension steps past all that the smaller ones reach: sufficient for no two indices to share an
  // element, and true of every layout made by permuting and slicing a dense tensor.
  bool distinct() const;
  // True if every row (all but the last dimension) starts on a multiple of `bytes`.
  bool rows_aligned(std::uintptr_t bytes) const;
  // True if a tensor map can hold the strides of a tensor whose rows are 16-byte aligned: none steps backwards, and no
  // dimension reaches 2^40 bytes.
  bool mappable() const;

 private:
  bool read_strides(const DLTensor& tensor);
  bool find_bounds();
};

}  // namespace gqa
