// borrow.cc: capsules and buffers. See borrow.h.
// Threads: GIL held.
#include "borrow.h"

#include <algorithm>
#include <string>

#include "errors.h"
#include "exchange.h"

namespace py = pybind11;

namespace gqa::python {

namespace {

constexpr char kCapsule[] = "dltensor";
constexpr char kUsedCapsule[] = "used_dltensor";
constexpr char kVersionedCapsule[] = "dltensor_versioned";
constexpr char kUsedVersionedCapsule[] = "used_dltensor_versioned";
constexpr uint32_t kMajorVersion = 1;
constexpr uint8_t kBool = 6;  // DLPack's code, which Debian's header is older than

std::string type_name(PyObject* object) { return Py_TYPE(object)->tp_name; }

// The pending Python exception as text, cleared: its first line, for what follows is a framework's own stack.
std::string taken_error() {
  const py::error_already_set error;
  const std::string text = error.what();
  return text.substr(0, std::min<size_t>(text.find('\n'), 160));
}

VersionedTensor* versioned_of(PyObject* capsule, const char* name) {
  auto* tensor = static_cast<VersionedTensor*>(PyCapsule_GetPointer(capsule, kVersionedCapsule));
  if (tensor->major != kMajorVersion)
    raise(GQA_ERROR_OPTION, std::string(name) + " is a DLPack " + std::to_string(tensor->major) +
                                ".x tensor; this library reads DLPack 1.x and older");
  return tensor;
}

// What a buffer's format character says, as DLPack has it; bits 0: nothing DLPack knows.
DLDataType dtype_of(const char* format) {
  if (format == nullptr) return {kDLUInt, 8, 1};
  std::string text = format;
  if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.erase(0, 1);
  if (text.size() != 1) return {kDLOpaqueHandle, 0, 1};
  switch (text[0]) {
    case 'e':
      return {kDLFloat, 16, 1};
    case 'f':
      return {kDLFloat, 32, 1};
    case 'd':
      return {kDLFloat, 64, 1};
    case 'b':
      return {kDLInt, 8, 1};
    case 'h':
      return {kDLInt, 16, 1};
    case 'i':
      return {kDLInt, 32, 1};
    case 'l':
    case 'q':
      return {kDLInt, 64, 1};
    case 'B':
      return {kDLUInt, 8, 1};
    case '?':
      return {kBool, 8, 1};
    case 'H':
      return {kDLUInt, 16, 1};
    case 'I':
      return {kDLUInt, 32, 1};
    case 'L':
    case 'Q':
      return {kDLUInt, 64, 1};
    default:
      return {kDLOpaqueHandle, 0, 1};
  }
}

// The name of an array's dtype, as "float8_e4m3fn"; "": it has none.
std::string dtype_name(PyObject* object) {
  py::object dtype = py::getattr(object, "dtype", py::none());
  py::object name = py::getattr(dtype, "name", py::none());
  return py::isinstance<py::str>(name) ? name.cast<std::string>() : "";
}

// True for an array of ml_dtypes' bfloat16, which NumPy exports through neither protocol.
bool is_numpy_bfloat16(PyObject* object) { return dtype_name(object) == "bfloat16" && py::hasattr(object, "view"); }

}  // namespace

Borrowed::~Borrowed() {
  if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
  if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
  if (has_view_) PyBuffer_Release(&view_);
}

void Borrowed::take(py::handle source, const char* name, bool writable) {
  if (PyCapsule_CheckExact(source.ptr())) return take_capsule(source.ptr(), name, writable);
  if (PyObject_CheckBuffer(source.ptr())) return take_buffer(source.ptr(), name, writable);
  bool failed = false;
  if (describe_by_exchange(source.ptr(), &described_, &failed)) {
    if (failed)
      raise(GQA_ERROR_DTYPE, std::string(name) + " (a " + type_name(source.ptr()) +
                                 ") could not be exported through DLPack: " + taken_error());
    tensor_ = &described_;
    return;
  }
  raise(GQA_ERROR_DTYPE, std::string(name) + " is a " + type_name(source.ptr()) +
                             "; expected an array or tensor that speaks DLPack (has __dlpack__)");
}

void Borrowed::take_capsule(PyObject* capsule, const char* name, bool writable) {
  if (PyCapsule_IsValid(capsule, kCapsule)) {
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kCapsule));
    PyCapsule_SetName(capsule, kUsedCapsule);
    managed_ = managed;
    tensor_ = &managed->dl_tensor;
    return;
  }
  if (!PyCapsule_IsValid(capsule, kVersionedCapsule))
    raise(GQA_ERROR_OPTION, std::string(name) + " is a capsule that holds no DLPack tensor, or one consumed already");
  VersionedTensor* versioned = versioned_of(capsule, name);
  if (writable && (versioned->flags & VersionedTensor::kReadOnly) != 0)
    raise(GQA_ERROR_OPTION, std::string(name) + " is read-only; expected a tensor that can be written");
  PyCapsule_SetName(capsule, kUsedVersionedCapsule);
  versioned_ = versioned;
  tensor_ = &versioned->dl_tensor;
}

void Borrowed::take_buffer(PyObject* object, const char* name, bool writable) {
  get_buffer(object, name, writable);
  describe_buffer(name);
}

void Borrowed::get_buffer(PyObject* object, const char* name, bool writable) {
  const int flags = writable ? PyBUF_RECORDS : PyBUF_RECORDS_RO;
  has_view_ = PyObject_GetBuffer(object, &view_, flags) == 0;
  if (has_view_) return;
  std::string why = taken_error();
  if (is_numpy_bfloat16(object)) {
    py::object bits = py::reinterpret_borrow<py::object>(object).attr("view")("uint16");
    has_view_ = bfloat16_ = PyObject_GetBuffer(bits.ptr(), &view_, flags) == 0;
    if (has_view_) return;
    why = taken_error();
  }
  if (writable) raise(GQA_ERROR_OPTION, std::string(name) + " cannot be written: " + why);
  const std::string dtype = dtype_name(object);
  raise(GQA_ERROR_DTYPE, std::string(name) + (dtype.empty() ? "" : " is " + dtype) + " (" + type_name(object) +
                             (dtype.empty() ? ") cannot be read: " : "), which cannot be read: ") + why);
}

void Borrowed::describe_buffer(const char* name) {
  DLDataType dtype = dtype_of(view_.format);
  if (bfloat16_) dtype = {kDLBfloat, 16, 1};
  if (dtype.bits == 0)
    raise(GQA_ERROR_DTYPE, std::string(name) + " has elements of format '" + view_.format +
                               "'; expected float32, float16 or bfloat16 in this machine's byte order");
  for (int i = 0; i < view_.ndim; ++i) {
    shape_[i] = view_.shape[i];
    strides_[i] = view_.strides[i] / view_.itemsize;
    if (view_.strides[i] % view_.itemsize != 0 && view_.shape[i] > 1)
      raise(GQA_ERROR_STRIDE, std::string(name) + " has a stride of " + std::to_string(view_.strides[i]) +
                                  " bytes in dimension " + std::to_string(i) + "; expected a multiple of its " +
                                  std::to_string(view_.itemsize) + "-byte element");
  }
  described_ = DLTensor{view_.buf, {kDLCPU, 0}, view_.ndim, dtype, shape_, strides_, 0};
  tensor_ = &described_;
}

BorrowedAll::BorrowedAll(const std::vector<py::object>& sources, const std::string& before, const char* after,
                         bool writable)
    : tensors_(std::make_unique<Borrowed[]>(sources.size())) {
  for (size_t i = 0; i < sources.size(); ++i) {
    tensors_[i].take(sources[i], (before + std::to_string(i) + after).c_str(), writable);
    addresses_.push_back(tensors_[i].tensor());
  }
}

py::tuple describe_capsule(py::handle capsule) {
  const DLTensor* tensor = nullptr;
  if (PyCapsule_IsValid(capsule.ptr(), kCapsule))
    tensor = &static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule))->dl_tensor;
  else if (PyCapsule_IsValid(capsule.ptr(), kVersionedCapsule))
    tensor = &versioned_of(capsule.ptr(), "the tensor")->dl_tensor;
  else
    raise(GQA_ERROR_OPTION, "not a DLPack capsule, or one consumed already");
  py::tuple shape(tensor->ndim);
  for (int i = 0; i < tensor->ndim; ++i) shape[i] = tensor->shape[i];
  return py::make_tuple(shape, static_cast<int>(tensor->dtype.code), static_cast<int>(tensor->dtype.bits),
                        static_cast<int>(tensor->device.device_type), tensor->device.device_id);
}

}  // namespace gqa::python
