// dense.h: a tensor with its values, row-major, and the steps that operators on it are made of.
// Owns: DenseTensor, walking several of them in step (broadcasting by stride 0), copying regions.
// Never: knows an operator or what a value is.
// Threads: values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/graph/ir/tensor.h"

namespace gqa {

template <typename Value>
struct DenseTensor {
  Dims dims;
  std::vector<Value> data;

  DenseTensor() = default;
  explicit DenseTensor(Dims shape) : dims(std::move(shape)), data(static_cast<std::size_t>(elements(dims))) {}
  DenseTensor(Dims shape, Value fill) : dims(std::move(shape)), data(static_cast<std::size_t>(elements(dims)), fill) {}
};

// Strides that walk a tensor of `dims` along `walked`: right-aligned, 0 where it stretches.
inline Dims broadcast_strides(const Dims& dims, const Dims& walked) {
  const Dims own = row_major_strides(dims);
  Dims strides(walked.size(), 0);
  for (std::size_t back = 1; back <= dims.size() && back <= walked.size(); ++back) {
    if (dims[dims.size() - back] != 1) strides[walked.size() - back] = own[dims.size() - back];
  }
  return strides;
}

// Calls visit(offsets) once for each of `count` indices of dims from the begin-th on, the last dimension fastest;
// offsets[k] follows strides[k].
template <std::size_t N, typename Visit>
void walk_part(const Dims& dims, const std::array<Dims, N>& strides, std::int64_t begin, std::int64_t count,
               Visit visit) {
  std::array<std::int64_t, N> offsets = {};
  Dims index(dims.size(), 0);
  for (std::size_t at = dims.size(); begin > 0 && at-- > 0; begin /= dims[at]) {
    index[at] = begin % dims[at];
    for (std::size_t k = 0; k < N; ++k) offsets[k] += strides[k][at] * index[at];
  }
  for (; count > 0; --count) {
    visit(offsets);
    for (std::size_t at = dims.size(); at-- > 0;) {
      for (std::size_t k = 0; k < N; ++k) offsets[k] += strides[k][at];
      if (++index[at] < dims[at]) break;
      for (std::size_t k = 0; k < N; ++k) offsets[k] -= strides[k][at] * dims[at];
      index[at] = 0;
    }
  }
}

template <std::size_t N, typename Visit>
void walk(const Dims& dims, const std::array<Dims, N>& strides, Visit visit) {
  walk_part<N>(dims, strides, 0, elements(dims), visit);
}

// The rows of a tensor: all but its last dimension.
inline Dims outer_dims(const Dims& dims) { return Dims(dims.begin(), dims.end() - (dims.empty() ? 0 : 1)); }

// The same with the last dimension left to visit(offsets, size): a row at a time.
template <std::size_t N, typename Visit>
void walk_rows(const Dims& dims, const std::array<Dims, N>& strides, Visit visit) {
  if (elements(dims) == 0) return;
  const std::int64_t size = dims.empty() ? 1 : dims.back();
  walk<N>(outer_dims(dims), strides, [&](const std::array<std::int64_t, N>& offsets) { visit(offsets, size); });
}

// The elements of `from` at begin[d] .. begin[d] + size[d].
template <typename Value>
DenseTensor<Value> read_region(const DenseTensor<Value>& from, const Dims& begin, const Dims& size) {
  DenseTensor<Value> region(size);
  const Dims strides = row_major_strides(from.dims);
  std::int64_t origin = 0;
  for (std::size_t at = 0; at < begin.size(); ++at) origin += begin[at] * strides[at];
  walk_rows<2>(size, {strides, row_major_strides(size)}, [&](const auto& at, std::int64_t row) {
    for (std::int64_t j = 0; j < row; ++j)
      region.data[static_cast<std::size_t>(at[1] + j)] = from.data[static_cast<std::size_t>(origin + at[0] + j)];
  });
  return region;
}

// Calls combine(element of `to`, element of `region`) where region lies at `begin` in `to`.
template <typename Value, typename Combine>
void update_region(DenseTensor<Value>* to, const Dims& begin, const DenseTensor<Value>& region, Combine combine) {
  const Dims strides = row_major_strides(to->dims);
  std::int64_t origin = 0;
  for (std::size_t at = 0; at < begin.size(); ++at) origin += begin[at] * strides[at];
  walk_rows<2>(region.dims, {strides, row_major_strides(region.dims)}, [&](const auto& at, std::int64_t row) {
    for (std::int64_t j = 0; j < row; ++j)
      combine(to->data[static_cast<std::size_t>(origin + at[0] + j)], region.data[static_cast<std::size_t>(at[1] + j)]);
  });
}

}  // namespace gqa
