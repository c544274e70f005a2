// tensor_rules.cc: see tensor_rules.h.
#include "runtime/api/tensors/tensor_rules.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include "runtime/api/c_struct.h"
#include "runtime/api/tensors/dtype.h"

namespace gqa {
namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

std::string device_text(DLDevice device) {
  const int type = number(device.device_type);
  const std::string id = ":" + text(device.device_id);
  if (type == kDLCPU) return "the CPU";
  if (type == kDLCUDA) return "cuda" + id;
  return "DLPack device type " + text(type) + id;
}

std::string device_text(const Device& device) {
  if (device.spec().kind == DeviceKind::kHost) return "the host, which takes CPU tensors";
  for (int id = 0; id < 64; ++id) {
    if (device.owns(kDLCUDA, id)) return "cuda:" + text(id);
  }
  return "a GPU (" + device.spec().arch + ")";
}

Status check_sizes(const Expected& expected, const DLTensor& tensor, bool rowless) {
  for (int i = 0; i < expected.form.rank; ++i) {
    const std::int64_t size = tensor.shape[i];
    const std::int64_t least = rowless && counts_rows(expected.form.sizes[static_cast<std::size_t>(i)].dim) ? 0 : 1;
    if (size >= least && size <= std::numeric_limits<std::int32_t>::max()) continue;
    return {Code::kSize, std::string(expected.name) + "'s dimension " + text(i) + " of " + dims_text(expected.form) +
                             " is " + text(size) + ", expected " + text(least) + " to 2147483647"};
  }
  return {};
}

std::string strides_text(const View& view) {
  std::string list = "(";
  for (int i = 0; i < view.rank; ++i) list += (i == 0 ? "" : ", ") + text(view.stride[i]);
  return list + ")";
}

std::string range_text(const View& view) {
  return "[" + address_text(view.first) + ", " + address_text(view.last) + ")";
}

}  // namespace

Status check_present(const Expected& expected, const DLTensor* tensor) {
  if (tensor != nullptr && (tensor->shape != nullptr || tensor->ndim != expected.form.rank)) return {};
  return {Code::kNullArgument, std::string(expected.name) + (tensor == nullptr ? " is NULL" : "'s shape is NULL") +
                                   ", expected a DLTensor of shape " + dims_text(expected.form)};
}

Status check_rank(const Expected& expected, const DLTensor& tensor) {
  if (tensor.ndim == expected.form.rank) return {};
  return {Code::kRank, std::string(expected.name) + " has " + text(tensor.ndim) + " dimensions, expected " +
                           text(expected.form.rank) + ": " + dims_text(expected.form)};
}

Status check_tensor(const Device& device, const Expected& expected, const DLTensor& tensor, DLDataType dtype,
                    const char* why, bool rowless) {
  if (Status status = check_rank(expected, tensor); !status.ok()) return status;
  if (!same(tensor.dtype, dtype)) {
    const std::string name = expected.name, wanted = dtype_text(dtype);
    return {Code::kDtype, name + " is " + dtype_text(tensor.dtype) + why + wanted + ": cast " + name + " to " + wanted};
  }
  if (!owned(device, tensor.device)) return check_on_device(device, expected.name, tensor.device);
  return check_sizes(expected, tensor, rowless);
}

Status check_equal(const char* name, std::int64_t size, const char* dim, const char* other, std::int64_t expected) {
  if (size == expected) return {};
  return {Code::kShape, std::string(name) + " has " + dim + " " + text(size) + ", but " + other + " has " + dim + " " +
                            text(expected) + ": they must be equal"};
}

Status read_view(const Expected& expected, const DLTensor& tensor, View* view) {
  const char* contiguous = expected.form.contiguous;
  const int element = tensor.dtype.bits / 8;
  if (!view->read(expected.name, tensor, element)) {
    return {Code::kSize, std::string(expected.name) + "'s sizes times strides do not fit an address, expected sizes " +
                             dims_text(expected.form) + " and strides in elements"};
  }
  if (contiguous != nullptr && view->last_stride != 1 && view->size[expected.form.rank - 1] != 1) {
    return {Code::kStride, std::string(expected.name) + "'s last stride is " + text(view->last_stride) +
                               ", expected 1: make " + contiguous + " contiguous"};
  }
  if (tensor.data == nullptr)
    return {Code::kNullArgument, std::string(expected.name) + "'s data is NULL, expected a pointer to its elements"};
  if (view->data % static_cast<std::uintptr_t>(element) == 0) return {};
  return {Code::kAlignment, std::string(expected.name) + "'s data plus byte_offset is " + address_text(view->data) +
                                ", expected a multiple of " + text(element) + " bytes, the size of an element"};
}

Status check_distinct(const View& view) {
  if (view.distinct()) return {};
  return {Code::kStride,
          std::string(view.name) + " overlaps itself: strides " + strides_text(view) +
              " let two indices share an element; expected every dimension to step past the smaller ones"};
}

Status check_apart(const View& written, const View& other) {
  if (!written.touches(other)) return {};
  return {Code::kAlias, std::string(written.name) + " touches bytes " + range_text(written) + ", which overlap " +
                            other.name + "'s " + range_text(other) + ": give " + written.name + " memory of its own"};
}

bool owned(const Device& device, DLDevice given) { return device.owns(number(given.device_type), given.device_id); }

Status check_on_device(const Device& device, const std::string& name, DLDevice given) {
  if (owned(device, given)) return {};
  return {Code::kDevice, name + " is on " + device_text(given) + ", but this handle is for " + device_text(device) +
                             ": move the tensor, or create a handle for its device"};
}

bool is_zero_or_normal(float number) { return number == 0 || (number > 0 && std::isnormal(number)); }

std::string float_text(float number) {
  char buffer[24];
  std::snprintf(buffer, sizeof(buffer), "%g", static_cast<double>(number));
  return buffer;
}

std::string address_text(std::uintptr_t address) {
  char buffer[24];
  std::snprintf(buffer, sizeof(buffer), "0x%llx", static_cast<unsigned long long>(address));
  return buffer;
}

}  // namespace gqa
