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

Status check_sizes(const Role& role, const DLTensor& tensor) {
  for (int i = 0; i < role.rank; ++i) {
    const std::int64_t size = tensor.shape[i];
    if (size >= 1 && size <= std::numeric_limits<std::int32_t>::max()) continue;
    return {Code::kSize, std::string(role.name) + "'s dimension " + text(i) + " of " + role.dims + " is " + text(size) +
                             ", expected 1 to 2147483647"};
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

Status check_present(const Role& role, const DLTensor* tensor) {
  if (tensor != nullptr && (tensor->shape != nullptr || tensor->ndim != role.rank)) return {};
  return {Code::kNullArgument, std::string(role.name) + (tensor == nullptr ? " is NULL" : "'s shape is NULL") +
                                   ", expected a DLTensor of shape " + role.dims};
}

Status check_rank(const Role& role, const DLTensor& tensor) {
  if (tensor.ndim == role.rank) return {};
  return {Code::kRank, std::string(role.name) + " has " + text(tensor.ndim) + " dimensions, expected " +
                           text(role.rank) + ": " + role.dims};
}

Status check_tensor(const Device& device, const Role& role, const DLTensor& tensor, DLDataType expected,
                    const char* why) {
  if (Status status = check_rank(role, tensor); !status.ok()) return status;
  if (!same(tensor.dtype, expected)) {
    return {Code::kDtype,
            std::string(role.name) + " is " + dtype_text(tensor.dtype) + why + dtype_text(expected) + ": cast it"};
  }
  if (!owned(device, tensor.device)) return check_on_device(device, role.name, tensor.device);
  return check_sizes(role, tensor);
}

Status check_equal(const Role& role, std::int64_t size, const char* dim, const char* other, std::int64_t expected) {
  if (size == expected) return {};
  return {Code::kShape, std::string(role.name) + " has " + dim + " " + text(size) + ", but " + other + " has " + dim +
                            " " + text(expected) + ": they must be equal"};
}

Status read_view(const Role& role, const DLTensor& tensor, int element, const char* last, View* view) {
  if (!view->read(role.name, tensor, element)) {
    return {Code::kSize, std::string(role.name) + "'s sizes times strides do not fit an address, expected sizes " +
                             role.dims + " and strides in elements"};
  }
  if (last != nullptr && view->last_stride != 1 && view->size[role.rank - 1] != 1) {
    return {Code::kStride, std::string(role.name) + "'s last stride is " + text(view->last_stride) +
                               ", expected 1: make " + last + " contiguous"};
  }
  if (tensor.data == nullptr) {
    return {Code::kNullArgument, std::string(role.name) + "'s data is NULL, expected a pointer to its elements"};
  }
  if (view->data % static_cast<std::uintptr_t>(element) == 0) return {};
  return {Code::kAlignment, std::string(role.name) + "'s data plus byte_offset is " + address_text(view->data) +
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
