// view.cc: see view.h.
#include "runtime/call/view.h"

#include <cstdlib>
#include <limits>
#include <utility>

namespace gqa {
namespace {

bool multiply(std::int64_t a, std::int64_t b, std::int64_t* product) { return !__builtin_mul_overflow(a, b, product); }
bool add(std::int64_t a, std::int64_t b, std::int64_t* sum) { return !__builtin_add_overflow(a, b, sum); }

// base + offset as an address; false if it leaves the address space.
bool move(std::uintptr_t base, std::int64_t offset, std::uintptr_t* moved) {
  return !__builtin_add_overflow(base, offset, moved);
}

}  // namespace

bool View::read(const char* tensor_name, const DLTensor& tensor, int element_bytes) {
  name = tensor_name;
  rank = tensor.ndim;
  element = element_bytes;
  for (int i = 0; i < rank; ++i) size[i] = tensor.shape[i];
  if (!read_strides(tensor)) return false;
  if (__builtin_add_overflow(reinterpret_cast<std::uintptr_t>(tensor.data), tensor.byte_offset, &data)) return false;
  return find_bounds();
}

// No strides: compact and row-major.
bool View::read_strides(const DLTensor& tensor) {
  std::int64_t compact = 1;
  for (int i = rank - 1; i >= 0; --i) {
    const std::int64_t given = tensor.strides != nullptr ? tensor.strides[i] : compact;
    if (i == rank - 1) last_stride = given;
    stride[i] = size[i] > 1 ? given : 0;
    if (tensor.strides == nullptr && !multiply(compact, size[i], &compact)) return false;
  }
  return true;
}

bool View::find_bounds() {
  std::int64_t low = 0, high = 1;  // elements, [low, high)
  for (int i = 0; i < rank; ++i) {
    std::int64_t reach = 0;
    if (!multiply(size[i] - 1, stride[i], &reach)) return false;
    std::int64_t& end = reach < 0 ? low : high;
    if (!add(end, reach, &end)) return false;
  }
  return multiply(low, element, &low) && multiply(high, element, &high) && move(data, low, &first) &&
         move(data, high, &last);
}

View View::with_batch() const {
  View view = *this;
  view.rank = rank + 1;
  view.size[0] = 1;
  view.stride[0] = 0;
  for (int i = 0; i < rank; ++i) {
    view.size[i + 1] = size[i];
    view.stride[i + 1] = stride[i];
  }
  return view;
}

bool View::distinct() const {
  std::array<std::pair<std::int64_t, std::int64_t>, kMaxRank> steps;  // stride, size
  int count = 0;
  for (int i = 0; i < rank; ++i) {
    if (size[i] == 1) continue;
    if (stride[i] == std::numeric_limits<std::int64_t>::min()) return false;
    int at = count++;  // insertion sort by stride: at most four
    for (; at > 0 && steps[at - 1].first > std::llabs(stride[i]); --at) steps[at] = steps[at - 1];
    steps[at] = {std::llabs(stride[i]), size[i]};
  }
  std::int64_t reached = 0;  // the furthest element the smaller dimensions reach; read() showed that sums fit
  for (int i = 0; i < count; ++i) {
    if (steps[i].first <= reached) return false;
    reached += steps[i].first * (steps[i].second - 1);
  }
  return true;
}

bool View::rows_aligned(std::uintptr_t bytes) const {
  std::uintptr_t bits = data;
  for (int i = 0; i + 1 < rank; ++i) bits |= static_cast<std::uintptr_t>(stride[i]) * element;
  return bits % bytes == 0;
}

bool View::mappable() const {
  constexpr std::int64_t kReach = std::int64_t{1} << 40;
  for (int i = 0; i + 1 < rank; ++i) {
    // read() showed that the products fit.
    if (size[i] > 1 && (stride[i] < 0 || (size[i] - 1) * stride[i] >= kReach / element)) return false;
  }
  return true;
}

}  // namespace gqa
