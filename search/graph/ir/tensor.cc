// tensor.cc: see tensor.h.
#include "search/graph/ir/tensor.h"

#include "search/text.h"

namespace gqa {

std::int64_t elements(const Dims& dims) {
  std::int64_t product = 1;
  for (const std::int64_t size : dims) product *= size;
  return product;
}

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t at = dims.size(); at-- > 1;) strides[at - 1] = strides[at] * dims[at];
  return strides;
}

Dims strides_of(const TensorSpec& tensor) {
  return tensor.strides.empty() ? row_major_strides(tensor.dims) : tensor.strides;
}

std::string to_text(const Dims& dims) {
  std::string text = "[";
  for (const std::int64_t size : dims) text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}

Status check(TensorSpec* tensor) {
  const Dims& dims = tensor->dims;
  if (dims.empty() || dims.size() > kMostDims) {
    return Status(Code::kRank, "a tensor of rank " + std::to_string(dims.size()) + ": expected 1 to " +
                                   std::to_string(kMostDims) + " dimensions");
  }
  std::int64_t product = 1;
  for (const std::int64_t size : dims) {
    if (size < 1 || size > kMostElements / product) {
      return Status(Code::kSize, "dimensions " + to_text(dims) + ": expected positive sizes and at most " +
                                     grouped(kMostElements) + " elements in all");
    }
    product *= size;
  }
  if (tensor->strides.empty()) return {};
  bool valid = tensor->strides.size() == dims.size();
  for (const std::int64_t stride : tensor->strides) valid = valid && stride >= 0 && stride <= kMostElements;
  if (!valid) {
    return Status(Code::kStride, "strides " + to_text(tensor->strides) + " of dimensions " + to_text(dims) +
                                     ": expected one for each dimension, in elements, none negative");
  }
  const Dims row_major = row_major_strides(dims);
  for (std::size_t at = 0; at < dims.size(); ++at) {
    if (dims[at] == 1) tensor->strides[at] = row_major[at];  // never stepped over
  }
  if (tensor->strides == row_major) tensor->strides.clear();
  return {};
}

Status common_type(const std::vector<ElementType>& types, ElementType* common) {
  if (types.empty()) return {};
  ElementType found = types[0];
  for (const ElementType type : types) {
    if (type == found || type == ElementType::kF32) {
      found = type;
    } else if (found != ElementType::kF32) {
      return Status(Code::kDtype, "operands of types " + std::string(name(found)) + " and " + std::string(name(type)) +
                                      ": expected one 16-bit type, or float32 beside it");
    }
  }
  *common = found;
  return {};
}

}  // namespace gqa
